//! `== != < <= > >=` as the macros rewrite them: on host values they give `bool`, on values of the kernel booleans of the
//! kernel.

use super::mix::{Handle, Mix, Operand, WithScalar};
use super::trace::{self, here};
use super::{Element, HostNumber, HostValue, Scalar, Tensor};
use ir::elem::Elem;
use ir::ops::arith::CompareOp;

#[inline]
#[track_caller]
fn compare<A: Mix<B>, B, O: Handle>(op: CompareOp, lhs: A, rhs: B) -> O {
    let (lhs, rhs) = lhs.raws(rhs);
    let elem = Elem::Data(<A::Elem as Element>::DTYPE);
    O::from_value(trace::compare(op, lhs, rhs, elem, here()))
}

macro_rules! comparison_trait {
    ($(#[$doc:meta])* $trait:ident, $host:ident, $($(#[$method_doc:meta])* $method:ident $host_method:ident $op:ident;)*) => {
        $(#[$doc])*
        pub trait $trait<R: ?Sized> {
            /// `bool` on the host; a scalar or tensor of booleans in the kernel.
            type Out;
            $(
                $(#[$method_doc])*
                #[track_caller]
                fn $method(&self, rhs: &R) -> Self::Out;
            )*
        }

        impl<H: $host + ?Sized> $trait<H> for H {
            type Out = bool;
            $(
                #[inline]
                fn $method(&self, rhs: &H) -> bool {
                    $host::$host_method(self, rhs)
                }
            )*
        }

        impl<T: Element, R: Operand<T> + Copy> $trait<R> for Tensor<T> {
            type Out = Tensor<bool>;
            $(
                #[inline]
                #[track_caller]
                fn $method(&self, rhs: &R) -> Tensor<bool> {
                    compare(CompareOp::$op, *self, *rhs)
                }
            )*
        }

        impl<T: Element, R: WithScalar<T> + Copy> $trait<R> for Scalar<T> {
            type Out = R::Compared;
            $(
                #[inline]
                #[track_caller]
                fn $method(&self, rhs: &R) -> R::Compared {
                    compare(CompareOp::$op, *self, *rhs)
                }
            )*
        }

        impl<T: Element, H: HostNumber + HostValue<T>> $trait<Tensor<T>> for H {
            type Out = Tensor<bool>;
            $(
                #[inline]
                #[track_caller]
                fn $method(&self, rhs: &Tensor<T>) -> Tensor<bool> {
                    compare(CompareOp::$op, *self, *rhs)
                }
            )*
        }

        impl<T: Element, H: HostNumber + HostValue<T>> $trait<Scalar<T>> for H {
            type Out = Scalar<bool>;
            $(
                #[inline]
                #[track_caller]
                fn $method(&self, rhs: &Scalar<T>) -> Scalar<bool> {
                    compare(CompareOp::$op, *self, *rhs)
                }
            )*
        }
    };
}

comparison_trait! {
    /// `==` and `!=` in a kernel.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` and `{R}` cannot be compared in a kernel",
        note = "compare runtime values with values of their element type or host numbers, host values with values of their own type (or by method: `a.eq(&b)`)"
    )]
    KernelEq, PartialEq,
    /// `==`
    equal eq Eq;
    /// `!=`
    unequal ne Ne;
}

comparison_trait! {
    /// `<`, `<=`, `>` and `>=` in a kernel.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` and `{R}` cannot be compared in a kernel",
        note = "compare runtime values with values of their element type or host numbers, host values with values of their own type (or by method: `a.lt(&b)`)"
    )]
    KernelOrd, PartialOrd,
    /// `<`
    less lt Lt;
    /// `<=`
    at_most le Le;
    /// `>`
    greater gt Gt;
    /// `>=`
    at_least ge Ge;
}

/// Texts and lists of the host compare with others that std compares them with.
macro_rules! equal_to_other_types {
    ($([$($generics:tt)*] $left:ty, $right:ty;)*) => {$(
        impl<$($generics)*> KernelEq<$right> for $left {
            type Out = bool;
            #[inline]
            fn equal(&self, rhs: &$right) -> bool {
                *self == *rhs
            }
            #[inline]
            fn unequal(&self, rhs: &$right) -> bool {
                *self != *rhs
            }
        }
    )*};
}

equal_to_other_types! {
    ['a] String, &'a str;
    ['a] &'a str, String;
    [] String, str;
    [] str, String;
    [T: PartialEq, const N: usize] Vec<T>, [T; N];
    ['a, T: PartialEq, const N: usize] Vec<T>, &'a [T; N];
    ['a, T: PartialEq] Vec<T>, &'a [T];
    [T: PartialEq] Vec<T>, [T];
    ['a, T: PartialEq, const N: usize] &'a [T], [T; N];
    ['a, T: PartialEq] &'a [T], Vec<T>;
    [T: PartialEq, const N: usize] [T], [T; N];
    [T: PartialEq, const N: usize] [T; N], [T];
}

/// What std would compare a value of the kernel with: nothing. Its comparisons give `bool`s, and the macros write others.
#[diagnostic::on_unimplemented(
    message = "values of the kernel are compared in functions under `#[kernel]` or `#[device]`",
    label = "this function is neither, or a macro hides the comparison",
    note = "put `#[device]` on the function, or write `x.equal(&y)` of `KernelEq` and `x.less(&y)` of `KernelOrd`"
)]
pub trait ComparedWithoutDevice {
    /// Never called.
    #[doc(hidden)]
    fn never(&self) -> !;
}

macro_rules! not_compared_by_the_host {
    ($($handle:ident)*) => {$(
        impl<T: Element, R: ComparedWithoutDevice> PartialEq<R> for $handle<T> {
            fn eq(&self, rhs: &R) -> bool {
                rhs.never()
            }
        }

        impl<T: Element, R: ComparedWithoutDevice> PartialOrd<R> for $handle<T> {
            fn partial_cmp(&self, rhs: &R) -> Option<std::cmp::Ordering> {
                rhs.never()
            }
        }
    )*};
}

not_compared_by_the_host!(Scalar Tensor);
