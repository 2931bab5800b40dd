//! Facts for the compiler, and checks and prints for the author.

use super::mix::Operand;
use super::trace::{self, here};
use super::{Element, Int, IntoDims, Pointers, Ptr, Scalar, Tensor};
use ir::entity::Value;
use ir::ops::debug::HintKind;

/// Handles of integers and pointers, about which facts can be stated.
pub trait Hinted: Copy {
    /// Every element (the first of a contiguous run) is a multiple of this; for pointers, in elements. One number for each
    /// dimension. What is stated wrongly is undefined.
    #[must_use = "the fact is known of the result only"]
    #[track_caller]
    fn multiple_of(self, values: impl IntoDims) -> Self;

    /// Elements follow one another in runs of at least this. One number for each dimension.
    #[must_use = "the fact is known of the result only"]
    #[track_caller]
    fn max_contiguous(self, values: impl IntoDims) -> Self;

    /// Elements are equal in runs of at least this. One number for each dimension.
    #[must_use = "the fact is known of the result only"]
    #[track_caller]
    fn max_constancy(self, values: impl IntoDims) -> Self;
}

macro_rules! hinted {
    ($($handle:ident: $bound:ident;)*) => {$(
        impl<T: $bound> Hinted for $handle<T> {
            #[inline]
            #[track_caller]
            fn multiple_of(self, values: impl IntoDims) -> Self {
                Self::wrap(trace::hint(HintKind::MultipleOf, self.value(), values.into_dims(), here()))
            }

            #[inline]
            #[track_caller]
            fn max_contiguous(self, values: impl IntoDims) -> Self {
                Self::wrap(trace::hint(HintKind::MaxContiguous, self.value(), values.into_dims(), here()))
            }

            #[inline]
            #[track_caller]
            fn max_constancy(self, values: impl IntoDims) -> Self {
                Self::wrap(trace::hint(HintKind::MaxConstancy, self.value(), values.into_dims(), here()))
            }
        }
    )*};
}

hinted! {
    Scalar: Int;
    Tensor: Int;
    Ptr: Element;
    Pointers: Element;
}

/// Promises that the condition holds. A false promise is undefined behaviour.
#[inline]
#[track_caller]
pub fn assume(condition: Scalar<bool>) {
    trace::assume(condition.value(), here());
}

/// Ends the kernel with an error if any element of the condition is false.
#[inline]
#[track_caller]
pub fn device_assert(condition: impl Operand<bool>, message: &str) {
    trace::device_assert(condition.into_raw(), message, here());
}

/// Prints a prefix and the elements of one handle, or of a tuple of handles, with their coordinates.
#[inline]
#[track_caller]
pub fn device_print(prefix: &str, operands: impl Printable) {
    let mut values = Vec::new();
    operands.collect(&mut values);
    trace::device_print(prefix, &values, here());
}

/// What [`device_print`] can show.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be printed by the kernel",
    note = "print scalars and tensors, or tuples of them; host values go into the prefix, or to `static_print!`"
)]
pub trait Printable {
    /// The values to print.
    #[doc(hidden)]
    fn collect(self, values: &mut Vec<Value>);
}

macro_rules! printable_handles {
    ($($handle:ident)*) => {$(
        impl<T: Element> Printable for $handle<T> {
            fn collect(self, values: &mut Vec<Value>) {
                values.push(self.value());
            }
        }
    )*};
}

printable_handles!(Scalar Tensor Ptr Pointers);

macro_rules! printable_tuples {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: Printable),*> Printable for ($($name,)*) {
            #[allow(non_snake_case, unused_variables, reason = "the names are those of the type parameters")]
            fn collect(self, values: &mut Vec<Value>) {
                let ($($name,)*) = self;
                $($name.collect(values);)*
            }
        }
    )*};
}

printable_tuples!(() (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F));

/// A check of the kernel's instance, on the host, while it is traced: a kernel that fails it is refused.
#[macro_export]
macro_rules! static_assert {
    ($condition:expr $(,)?) => {
        if !$condition {
            $crate::rt::static_assert_failed(concat!("`", stringify!($condition), "` does not hold"));
        }
    };
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            $crate::rt::static_assert_failed(&format!($($message)+));
        }
    };
}

/// A line about the kernel's instance, on the host, while it is traced.
#[macro_export]
macro_rules! static_print {
    ($($message:tt)+) => {
        $crate::rt::static_print(format!($($message)+))
    };
}
