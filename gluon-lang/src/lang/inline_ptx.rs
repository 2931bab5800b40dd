//! PTX written by the author, once for each element.

use super::trace::{self, Raw, here};
use super::{Element, Handle, Scalar, Tensor};
use ir::elem::Elem;
use ir::entity::Value;

/// What can be handed to inline PTX: scalars and tensors, or a tuple of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be handed to inline PTX",
    note = "hand over scalars and tensors, or a tuple of up to six of them"
)]
pub trait PtxOperands {
    /// The operands with their element types.
    #[doc(hidden)]
    fn collect(self, to: &mut Vec<(Raw, Elem)>);
}

/// What inline PTX can give: a scalar or tensor, or a tuple of them.
#[diagnostic::on_unimplemented(
    message = "inline PTX cannot give `{Self}`",
    note = "it gives scalars and tensors, or a tuple of up to four of them"
)]
pub trait PtxResults: Sized {
    /// The element types.
    #[doc(hidden)]
    fn elems(to: &mut Vec<Elem>);
    /// The handles of the results.
    #[doc(hidden)]
    fn take(from: &mut std::vec::IntoIter<Value>) -> Self;
}

macro_rules! ptx_handles {
    ($($handle:ident)*) => {$(
        impl<T: Element> PtxOperands for $handle<T> {
            fn collect(self, to: &mut Vec<(Raw, Elem)>) {
                to.push((self.raw(), Elem::Data(T::DTYPE)));
            }
        }

        impl<T: Element> PtxResults for $handle<T> {
            fn elems(to: &mut Vec<Elem>) {
                to.push(Elem::Data(T::DTYPE));
            }
            fn take(from: &mut std::vec::IntoIter<Value>) -> Self {
                Self::from_value(from.next().expect("every result has a value"))
            }
        }
    )*};
}

ptx_handles!(Scalar Tensor);

macro_rules! ptx_tuples {
    ($trait:ident: $(($($name:ident)*))*) => {$(ptx_tuples!(@ $trait $($name)*);)*};
    (@ PtxOperands $($name:ident)*) => {
        impl<$($name: PtxOperands),*> PtxOperands for ($($name,)*) {
            #[allow(non_snake_case, unused_variables, reason = "the names are those of the type parameters")]
            fn collect(self, to: &mut Vec<(Raw, Elem)>) {
                let ($($name,)*) = self;
                $($name.collect(to);)*
            }
        }
    };
    (@ PtxResults $($name:ident)*) => {
        impl<$($name: PtxResults),*> PtxResults for ($($name,)*) {
            #[allow(unused_variables, reason = "no result takes no value")]
            fn elems(to: &mut Vec<Elem>) {
                $($name::elems(to);)*
            }
            #[allow(unused_variables, clippy::unused_unit, reason = "no result takes no value")]
            fn take(from: &mut std::vec::IntoIter<Value>) -> Self {
                ($($name::take(from),)*)
            }
        }
    };
}

ptx_tuples!(PtxOperands: () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F));
ptx_tuples!(PtxResults: () (A) (A B) (A B C) (A B C D));

/// PTX for each element: `$0`, `$1`, ... stand for the results and then the operands, all of one shape and layout. It must
/// have no effect but its results, and may be merged, moved and dropped. Instructions end with `;`. Text that is no PTX, or
/// that does not fit the types, is an error which names the column (TK0026).
///
/// ```text
/// let sm: Scalar<i32> = inline_ptx("mov.u32 $0, %smid;", ());
/// let ones: Tensor<i32> = inline_ptx("popc.b32 $0, $1;", words);
/// ```
#[inline]
#[track_caller]
pub fn inline_ptx<R: PtxResults>(text: &str, operands: impl PtxOperands) -> R {
    record(text, true, operands)
}

/// The same for PTX with effects, which happen once and in order.
#[inline]
#[track_caller]
pub fn inline_ptx_with_effects<R: PtxResults>(text: &str, operands: impl PtxOperands) -> R {
    record(text, false, operands)
}

#[track_caller]
fn record<R: PtxResults>(text: &str, is_pure: bool, operands: impl PtxOperands) -> R {
    let (mut raws, mut elems) = (Vec::new(), Vec::new());
    operands.collect(&mut raws);
    R::elems(&mut elems);
    let results = trace::inline_ptx(text, is_pure, &raws, &elems, here());
    R::take(&mut results.into_iter())
}
