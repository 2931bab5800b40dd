//! Scans along one dimension: each element combined with all before it, or with all behind it.
//!
//! A combine function must be associative; it need not be commutative, and gets what the scan came to first on its left.
//! The order of combination depends on the layout alone, so a scan gives the same bits in every run.

use super::reduce::combined;
use super::trace::{self, Combining, here};
use super::{Element, Numeric, Reducible, Scalar, Tensor};
use ir::ops::arith::BinaryOp;

macro_rules! scans {
    ($($(#[$doc:meta])* $name:ident = $op:ident, $is_reverse:literal;)*) => {
        impl<T: Numeric> Tensor<T> {
            $(
                $(#[$doc])*
                #[inline]
                #[track_caller]
                pub fn $name(self, axis: usize) -> Tensor<T> {
                    let combining = Combining::Scan { is_reverse: $is_reverse };
                    Tensor::wrap(trace::combine_with(combining, BinaryOp::$op, self.value(), axis, here()))
                }
            )*
        }
    };
}

scans! {
    /// Each element plus all before it along `axis`, in the element type.
    cumsum = Add, false;
    /// Each element times all before it along `axis`, in the element type.
    cumprod = Mul, false;
    /// The largest of each element and all before it along `axis`; NaN only where all are.
    cummax = Max, false;
    /// The smallest of each element and all before it along `axis`; NaN only where all are.
    cummin = Min, false;
    /// Each element plus all behind it along `axis`, in the element type.
    cumsum_reverse = Add, true;
    /// Each element times all behind it along `axis`, in the element type.
    cumprod_reverse = Mul, true;
}

impl<T: Element> Tensor<T> {
    /// Each element along `axis` combined with all before it: `x.scan(0, |before, here| before.max(here))`.
    #[inline]
    #[track_caller]
    pub fn scan(
        self,
        axis: usize,
        combine: impl Fn(Scalar<T>, Scalar<T>) -> Scalar<T>,
    ) -> Tensor<T> {
        scan(self, axis, combine)
    }

    /// Each element along `axis` combined with all behind it, which stand on the left: `combine(behind, here)`.
    #[inline]
    #[track_caller]
    pub fn scan_reverse(
        self,
        axis: usize,
        combine: impl Fn(Scalar<T>, Scalar<T>) -> Scalar<T>,
    ) -> Tensor<T> {
        scan_reverse(self, axis, combine)
    }
}

/// Several tensors scanned together along `axis`, from the first element on. The combine function gets one element of
/// each of what came before, and then one element of each from here.
#[inline]
#[track_caller]
pub fn scan<R: Reducible>(
    operands: R,
    axis: usize,
    combine: impl Fn(R::Elements, R::Elements) -> R::Elements,
) -> R {
    let combining = Combining::Scan { is_reverse: false };
    combined(combining, operands, axis, combine, here())
}

/// The same from the last element on.
#[inline]
#[track_caller]
pub fn scan_reverse<R: Reducible>(
    operands: R,
    axis: usize,
    combine: impl Fn(R::Elements, R::Elements) -> R::Elements,
) -> R {
    let combining = Combining::Scan { is_reverse: true };
    combined(combining, operands, axis, combine, here())
}
