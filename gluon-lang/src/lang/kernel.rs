//! Kernel functions as values: `vector_add::<1024>` names an instance.

use std::borrow::Cow;
use std::fmt::Display;

use super::trace::{Traced, here, trace_kernel};
use super::{NextParam, ParamHandle};
use diag::Diagnostics;

/// A function that can be traced to a kernel: it takes handles. `Args` is the tuple of their types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kernel",
    note = "a kernel is a function under `#[kernel]`; a generic one is named with its arguments, as `vector_add::<1024>`"
)]
pub trait KernelFn<Args>: Copy {
    /// Runs the function once and gives the kernel it describes, or what is wrong with it.
    #[track_caller]
    fn trace(self) -> Result<Traced, Diagnostics>;

    /// Its full path with all that is known while compiling, as rustc writes it: unique in the program.
    fn path(&self) -> Cow<'static, str> {
        std::any::type_name::<Self>().into()
    }
}

/// A kernel function whose first parameter, `#[fixed]`, has this value: [`fixed`] makes it.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<F, V> {
    function: F,
    value: V,
}

/// A kernel function and the value of its `#[fixed]` parameter, which is known while the kernel is traced: where const generics would be many, and
/// each a copy of the function that rustc compiles, a table of values is one. Two values that differ are displayed differently, for
/// kernels go by name.
///
/// `fixed(fill, 128).compile(..)` compiles `fn fill(#[fixed] count: usize, out: Ptr<f32>)` for 128 elements; the page on cases has the whole.
pub fn fixed<F, V: Copy + Display>(function: F, value: V) -> Fixed<F, V> {
    Fixed { function, value }
}

/// `k<8, value>` of `k<8>`.
fn path_with(path: &str, value: &impl Display) -> String {
    match path.strip_suffix('>') {
        Some(generic) => format!("{generic}, {value}>"),
        None => format!("{path}<{value}>"),
    }
}

macro_rules! kernel_fn {
    ($(($($name:ident)*))*) => {$(
        impl<F: Copy + Fn($($name),*), $($name: ParamHandle),*> KernelFn<($($name,)*)> for F {
            #[track_caller]
            fn trace(self) -> Result<Traced, Diagnostics> {
                trace_kernel(
                    &mut || {
                        let mut next = NextParam::default();
                        let _ = &mut next;
                        self($($name::declare(&mut next)),*);
                    },
                    here(),
                )
            }
        }

        impl<F: Copy + Fn(Value, $($name),*), Value: Copy + Display, $($name: ParamHandle),*>
            KernelFn<($($name,)*)> for Fixed<F, Value>
        {
            #[track_caller]
            fn trace(self) -> Result<Traced, Diagnostics> {
                trace_kernel(
                    &mut || {
                        let mut next = NextParam::default();
                        let _ = &mut next;
                        (self.function)(self.value, $($name::declare(&mut next)),*);
                    },
                    here(),
                )
            }

            fn path(&self) -> Cow<'static, str> {
                path_with(std::any::type_name::<F>(), &self.value).into()
            }
        }
    )*};
}

kernel_fn! {
    ()
    (A)
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E G)
    (A B C D E G H)
    (A B C D E G H I)
    (A B C D E G H I J)
    (A B C D E G H I J K)
    (A B C D E G H I J K L)
    (A B C D E G H I J K L M)
    (A B C D E G H I J K L M N)
    (A B C D E G H I J K L M N O)
    (A B C D E G H I J K L M N O P)
    (A B C D E G H I J K L M N O P Q)
    (A B C D E G H I J K L M N O P Q R)
    (A B C D E G H I J K L M N O P Q R S)
    (A B C D E G H I J K L M N O P Q R S T)
    (A B C D E G H I J K L M N O P Q R S T U)
    (A B C D E G H I J K L M N O P Q R S T U V)
    (A B C D E G H I J K L M N O P Q R S T U V W)
    (A B C D E G H I J K L M N O P Q R S T U V W X)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z AA)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z AA AB)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z AA AB AC)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z AA AB AC AD)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z AA AB AC AD AE)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z AA AB AC AD AE AF)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z AA AB AC AD AE AF AG)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z AA AB AC AD AE AF AG AH)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z AA AB AC AD AE AF AG AH AI)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z AA AB AC AD AE AF AG AH AI AJ)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z AA AB AC AD AE AF AG AH AI AJ AK)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z AA AB AC AD AE AF AG AH AI AJ AK AL)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z AA AB AC AD AE AF AG AH AI AJ AK AL AM)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z AA AB AC AD AE AF AG AH AI AJ AK AL AM AN)
    (A B C D E G H I J K L M N O P Q R S T U V W X Y Z AA AB AC AD AE AF AG AH AI AJ AK AL AM AN AO)
}
