//! Which operands go together, and what they give.

use super::trace::Raw;
use super::{Element, HostNumber, HostValue, Scalar, Tensor, WidensTo};
use ir::entity::Value;

/// What can stand beside a tensor of `T`: tensors, scalars and host numbers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not mix with elements of type `{T}`",
    label = "expected a tensor, a scalar or a host number for `{T}`",
    note = "cast first: `x.cast::<{T}>()`"
)]
pub trait Operand<T: Element> {
    /// The operand before it is fitted.
    fn into_raw(self) -> Raw;
}

impl<T: Element, H: HostNumber + HostValue<T>> Operand<T> for H {
    #[inline]
    fn into_raw(self) -> Raw {
        Raw::Const(self.constant())
    }
}

impl<T: Element, U: WidensTo<T>> Operand<T> for Scalar<U> {
    #[inline]
    fn into_raw(self) -> Raw {
        self.raw()
    }
}

impl<T: Element, U: WidensTo<T>> Operand<T> for Tensor<U> {
    #[inline]
    fn into_raw(self) -> Raw {
        self.raw()
    }
}

/// What can stand where a scalar of `T` is wanted: a scalar or a host number.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no single `{T}`",
    label = "expected a scalar or a host number for `{T}`"
)]
pub trait ScalarOperand<T: Element>: Operand<T> {}

impl<T: Element, H: HostNumber + HostValue<T>> ScalarOperand<T> for H {}
impl<T: Element, U: WidensTo<T>> ScalarOperand<T> for Scalar<U> {}

/// A handle that stands for a result.
pub trait Handle: Copy {
    /// The handle of a value that is known to have its type.
    #[doc(hidden)]
    fn from_value(value: Value) -> Self;
}

impl<T: Element> Handle for Scalar<T> {
    #[inline]
    fn from_value(value: Value) -> Self {
        Self::wrap(value)
    }
}

impl<T: Element> Handle for Tensor<T> {
    #[inline]
    fn from_value(value: Value) -> Self {
        Self::wrap(value)
    }
}

/// Two operands of which at least one is a value of the kernel: the element type they agree on, and the result.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{B}` do not mix",
    note = "give both one element type: cast first, `x.cast::<f32>()`; of two host numbers, write the type of one, `1.0_f32`"
)]
pub trait Mix<B> {
    /// The element type.
    type Elem: Element;
    /// A tensor if either is one, else a scalar.
    type Output: Handle;
    /// Both, before they are fitted.
    #[doc(hidden)]
    fn raws(self, other: B) -> (Raw, Raw);
}

impl<T: Element, R: Operand<T>> Mix<R> for Tensor<T> {
    type Elem = T;
    type Output = Tensor<T>;
    #[inline]
    fn raws(self, other: R) -> (Raw, Raw) {
        (self.raw(), other.into_raw())
    }
}

impl<T: Element, R: WithScalar<T>> Mix<R> for Scalar<T> {
    type Elem = T;
    type Output = R::Output;
    #[inline]
    fn raws(self, other: R) -> (Raw, Raw) {
        (self.raw(), other.into_raw())
    }
}

impl<T: Element, H: HostNumber + HostValue<T>> Mix<Tensor<T>> for H {
    type Elem = T;
    type Output = Tensor<T>;
    #[inline]
    fn raws(self, other: Tensor<T>) -> (Raw, Raw) {
        (Raw::Const(self.constant()), other.raw())
    }
}

impl<T: Element, H: HostNumber + HostValue<T>> Mix<Scalar<T>> for H {
    type Elem = T;
    type Output = Scalar<T>;
    #[inline]
    fn raws(self, other: Scalar<T>) -> (Raw, Raw) {
        (Raw::Const(self.constant()), other.raw())
    }
}

/// Two host numbers of one element type: `select(inside, 1.0_f32, 0.0)`.
macro_rules! mixed_host_numbers {
    ($($ty:ty)*) => {$(
        impl Mix<$ty> for $ty {
            type Elem = $ty;
            type Output = Scalar<$ty>;
            #[inline]
            fn raws(self, other: $ty) -> (Raw, Raw) {
                (Raw::Const(Element::constant(self)), Raw::Const(Element::constant(other)))
            }
        }
    )*};
}

mixed_host_numbers!(bool i8 i16 i32 i64 u8 u16 u32 u64 half::f16 half::bf16 f32 f64);

/// What can stand right of a scalar of `T`, and what that gives.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not mix with elements of type `{T}`",
    label = "expected a tensor, a scalar or a host number for `{T}`",
    note = "cast first: `x.cast::<{T}>()`"
)]
pub trait WithScalar<T: Element>: Operand<T> {
    /// The result of arithmetic.
    type Output: Handle;
    /// The result of a comparison.
    type Compared: Handle;
}

impl<T: Element, H: HostNumber + HostValue<T>> WithScalar<T> for H {
    type Output = Scalar<T>;
    type Compared = Scalar<bool>;
}

impl<T: Element, U: WidensTo<T>> WithScalar<T> for Scalar<U> {
    type Output = Scalar<T>;
    type Compared = Scalar<bool>;
}

impl<T: Element, U: WidensTo<T>> WithScalar<T> for Tensor<U> {
    type Output = Tensor<T>;
    type Compared = Tensor<bool>;
}

/// A boolean that chooses between two operands.
#[diagnostic::on_unimplemented(
    message = "`select` takes booleans of the kernel, not `{Self}`",
    note = "for a host `bool` write `if`"
)]
pub trait Condition {
    /// What a choice gives between operands of element type `T` that together are an `O`.
    type Chosen<T: Element, O: Handle>: Handle;
    /// The condition before it is fitted.
    #[doc(hidden)]
    fn condition(self) -> Raw;
}

impl Condition for Scalar<bool> {
    type Chosen<T: Element, O: Handle> = O;
    #[inline]
    fn condition(self) -> Raw {
        self.raw()
    }
}

impl Condition for Tensor<bool> {
    type Chosen<T: Element, O: Handle> = Tensor<T>;
    #[inline]
    fn condition(self) -> Raw {
        self.raw()
    }
}
