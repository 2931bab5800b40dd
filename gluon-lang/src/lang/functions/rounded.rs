//! Arithmetic whose rounding is said, under the names that CUDA's libdevice has for it.

use super::super::mix::{Operand, ScalarOperand};
use super::super::trace::{self, Raw, here};
use super::super::{Element, Float, Scalar, Tensor};
use ir::elem::Elem;
use ir::ops::rounded::{Direction, RoundedOp};

/// Floats with directions of rounding: `f32` and `f64`.
#[diagnostic::on_unimplemented(
    message = "arithmetic on `{Self}` has no direction of rounding",
    note = "f32 and f64 have: cast first, `x.cast::<f32>()`"
)]
pub trait Wide: Float {}

impl Wide for f32 {}
impl Wide for f64 {}

macro_rules! directions {
    ($($direction:ident $what:literal: $add:ident $sub:ident $mul:ident $div:ident $fma:ident $sqrt:ident $rcp:ident;)*) => {$(
        directions!(@ Scalar ScalarOperand $direction $what: $add $sub $mul $div $fma $sqrt $rcp);
        directions!(@ Tensor Operand $direction $what: $add $sub $mul $div $fma $sqrt $rcp);
    )*};
    (@ $handle:ident $operand:ident $direction:ident $what:literal:
        $add:ident $sub:ident $mul:ident $div:ident $fma:ident $sqrt:ident $rcp:ident) => {
        #[doc = concat!("Arithmetic rounded ", $what, " (PTX ISA 9.7.3), and never contracted with other operations.")]
        impl<T: Wide> $handle<T> {
            directions!(@binary $operand $direction $what: $add Add "sum", $sub Sub "difference", $mul Mul "product", $div Div "quotient");

            #[doc = concat!("`self * b + c`, rounded ", $what, ".")]
            #[inline]
            #[track_caller]
            pub fn $fma(self, b: impl $operand<T>, c: impl $operand<T>) -> Self {
                let operands = [self.raw(), b.into_raw(), c.into_raw()];
                self.directed(RoundedOp::Fma, Direction::$direction, &operands)
            }

            #[doc = concat!("The square root, rounded ", $what, ".")]
            #[inline]
            #[track_caller]
            pub fn $sqrt(self) -> Self {
                self.directed(RoundedOp::Sqrt, Direction::$direction, &[self.raw()])
            }

            #[doc = concat!("`1 / self`, rounded ", $what, ".")]
            #[inline]
            #[track_caller]
            pub fn $rcp(self) -> Self {
                self.directed(RoundedOp::Rcp, Direction::$direction, &[self.raw()])
            }
        }
    };
    (@binary $operand:ident $direction:ident $what:literal: $($name:ident $op:ident $noun:literal),*) => {$(
        #[doc = concat!("The ", $noun, ", rounded ", $what, ".")]
        #[inline]
        #[track_caller]
        pub fn $name(self, other: impl $operand<T>) -> Self {
            self.directed(RoundedOp::$op, Direction::$direction, &[self.raw(), other.into_raw()])
        }
    )*};
}

directions! {
    Nearest "to the nearest, ties to even": add_rn sub_rn mul_rn div_rn fma_rn sqrt_rn rcp_rn;
    Zero "towards zero": add_rz sub_rz mul_rz div_rz fma_rz sqrt_rz rcp_rz;
    Down "down": add_rd sub_rd mul_rd div_rd fma_rd sqrt_rd rcp_rd;
    Up "up": add_ru sub_ru mul_ru div_ru fma_ru sqrt_ru rcp_ru;
}

macro_rules! directed {
    ($($handle:ident)*) => {$(
        impl<T: Element> $handle<T> {
            #[inline]
            #[track_caller]
            fn directed(self, op: RoundedOp, direction: Direction, operands: &[Raw]) -> Self {
                let elem = Elem::Data(T::DTYPE);
                let operands: Vec<(Raw, Elem)> = operands.iter().map(|raw| (*raw, elem)).collect();
                Self::wrap(trace::rounded(op, direction, &operands, here()))
            }
        }
    )*};
}

directed!(Scalar Tensor);
