//! Scans along one dimension: each element combined with all before it, or with all after it.
//!
//! A combine function must be associative; it need not be commutative, and gets what the scan combined first on its left.
//! The order of combination depends on the layout alone, so a scan gives the same bits in every run.

use super::reduce::{combined, combined_with_totals};
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
                    let combining = Combining::Scan { is_reverse: $is_reverse, has_totals: false };
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
    let combining = Combining::Scan {
        is_reverse: false,
        has_totals: false,
    };
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
    let combining = Combining::Scan {
        is_reverse: true,
        has_totals: false,
    };
    combined(combining, operands, axis, combine, here())
}

/// The same as [`scan`], and the totals along `axis`, which a reduction would give, without combining
/// anything once more. The function need not be commutative.
#[inline]
#[track_caller]
pub fn scan_with_total<R: Reducible>(
    operands: R,
    axis: usize,
    combine: impl Fn(R::Elements, R::Elements) -> R::Elements,
) -> (R, R) {
    combined_with_totals(false, operands, axis, combine, here())
}

/// The same from the last element on.
#[inline]
#[track_caller]
pub fn scan_reverse_with_total<R: Reducible>(
    operands: R,
    axis: usize,
    combine: impl Fn(R::Elements, R::Elements) -> R::Elements,
) -> (R, R) {
    combined_with_totals(true, operands, axis, combine, here())
}

impl<T: Element> Tensor<T> {
    /// Each element along `axis` combined with all before it, and the total: see [`scan_with_total`].
    #[inline]
    #[track_caller]
    pub fn scan_with_total(
        self,
        axis: usize,
        combine: impl Fn(Scalar<T>, Scalar<T>) -> Scalar<T>,
    ) -> (Tensor<T>, Tensor<T>) {
        scan_with_total(self, axis, combine)
    }
}

impl<T: Numeric> Tensor<T> {
    /// Each element plus all before it along `axis`, and the sum of all, as [`sum`](Tensor::sum) has it: in one pass.
    #[inline]
    #[track_caller]
    pub fn cumsum_with_total(self, axis: usize) -> (Tensor<T>, Tensor<T>) {
        let combining = Combining::Scan {
            is_reverse: false,
            has_totals: true,
        };
        let results = trace::combine_all_with(combining, BinaryOp::Add, self.value(), axis, here());
        (Tensor::wrap(results[0]), Tensor::wrap(results[1]))
    }
}
