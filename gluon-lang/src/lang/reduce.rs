//! Reductions along one dimension, several or all. A combine function must be associative and commutative, for the order of combination
//! is the layout's; with one layout the result has the same bits in every run.

use super::axes::{Axes, Axis};
use super::trace::{self, Combining, here};
use super::{Bits, Element, Handle, Numeric, Scalar, Tensor};
use ir::entity::Value;
use ir::ops::arith::{BinaryOp, CompareOp};

macro_rules! reductions {
    ($($bound:ident { $($(#[$doc:meta])* $name:ident = $op:ident;)* })*) => {$(
        /// Reductions along `axis`, which the result does not have: its layout is [`Slice`](layout::Slice) of this one's,
        /// and what is left of a vector has rank 0. `x.sum((0, 2))` goes over several dimensions, and `x.sum(..)` over all. They combine within a thread, then within a warp by shuffles, then
        /// between warps through shared memory, each as far as the layout spreads `axis`.
        impl<T: Element> Tensor<T> {
            $(
                $(#[$doc])*
                #[inline]
                #[track_caller]
                pub fn $name(self, axis: impl Axis) -> Tensor<T>
                where
                    T: $bound,
                {
                    Tensor::wrap(reduced_with(BinaryOp::$op, self.value(), axis.axes(), here()))
                }
            )*
        }
    )*};
}

reductions! {
    Numeric {
        /// The sum along `axis`, in the element type.
        sum = Add;
        /// The product along `axis`, in the element type.
        product = Mul;
        /// The largest element along `axis`; NaN only where all are.
        max = Max;
        /// The smallest element along `axis`; NaN only where all are.
        min = Min;
    }
    Bits {
        /// The bitwise or along `axis`: of booleans, whether any is true.
        reduce_or = Or;
        /// The bitwise and along `axis`: of booleans, whether all are true.
        reduce_and = And;
        /// The bitwise exclusive or along `axis`.
        xor_sum = Xor;
    }
}

impl<T: Numeric> Tensor<T> {
    /// The coordinate along `axis` of the largest element, of equal ones (as -0 and 0 are) the lowest. NaN counts as negative
    /// infinity, so that any other number goes before it. Over several dimensions, or all with `..`, the number among their
    /// elements in row-major order.
    #[inline]
    #[track_caller]
    pub fn argmax(self, axis: impl Axis) -> Tensor<i32> {
        Tensor::wrap(trace::arg_reduce(
            CompareOp::Gt,
            self.value(),
            axis.axes(),
            here(),
        ))
    }

    /// The coordinate along `axis` of the smallest element, of equal ones (as -0 and 0 are) the lowest. NaN counts as infinity,
    /// so that any other number goes before it. Over several dimensions, or all with `..`, the number among their elements in
    /// row-major order.
    #[inline]
    #[track_caller]
    pub fn argmin(self, axis: impl Axis) -> Tensor<i32> {
        Tensor::wrap(trace::arg_reduce(
            CompareOp::Lt,
            self.value(),
            axis.axes(),
            here(),
        ))
    }
}

impl Tensor<bool> {
    /// Whether any of the elements that a warp holds is true: the condition of an `if` whose branches each warp takes or leaves by itself, and of nothing else. They only
    /// compute: they access no memory, synchronize with no other warp, and reduce along dimensions that no two warps share (TK0082). So a warp leaves out what none of
    /// its elements needs, for the price of a vote: an online softmax exchanges and rescales nothing where no maximum grows.
    ///
    /// What is computed for other elements of the warp besides is the author's to get right: results must be the same whether the branch is taken for them or not.
    #[inline]
    #[track_caller]
    pub fn any_in_warp(self) -> Scalar<bool> {
        Scalar::wrap(trace::any_in_warp(self.value(), here()))
    }
}

impl<T: Element> Tensor<T> {
    /// All elements along `axis` combined two by two: `x.reduce(0, |a, b| a.max(b))`. The function is elementwise: it accesses no memory,
    /// has no branches and converts no layouts (TK0034). Where the CTAs of a cluster split the
    /// dimension, each of them has the result, and all must execute this.
    #[inline]
    #[track_caller]
    pub fn reduce(
        self,
        axis: impl Axis,
        combine: impl Fn(Scalar<T>, Scalar<T>) -> Scalar<T>,
    ) -> Tensor<T> {
        reduce(self, axis, combine)
    }
}

/// One tensor, or several of one shape and layout that are reduced or scanned together.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be reduced or scanned",
    note = "these take a tensor, or a tuple of two to four tensors"
)]
pub trait Reducible: Copy {
    /// One element of each.
    type Elements: Copy;
    /// The operands.
    #[doc(hidden)]
    fn operands(self) -> Vec<Value>;
    /// The handles of one element each.
    #[doc(hidden)]
    fn elements(values: &[Value]) -> Self::Elements;
    /// The values of one element each.
    #[doc(hidden)]
    fn combined(elements: Self::Elements) -> Vec<Value>;
    /// The handles of the results.
    #[doc(hidden)]
    fn results(values: &[Value]) -> Self;
}

impl<T: Element> Reducible for Tensor<T> {
    type Elements = Scalar<T>;
    fn operands(self) -> Vec<Value> {
        vec![self.value()]
    }
    fn elements(values: &[Value]) -> Scalar<T> {
        Scalar::wrap(values[0])
    }
    fn combined(elements: Scalar<T>) -> Vec<Value> {
        vec![elements.value()]
    }
    fn results(values: &[Value]) -> Self {
        Tensor::from_value(values[0])
    }
}

macro_rules! reducible_tuples {
    ($(($($name:ident $index:tt)*))*) => {$(
        impl<$($name: Element),*> Reducible for ($(Tensor<$name>,)*) {
            type Elements = ($(Scalar<$name>,)*);
            fn operands(self) -> Vec<Value> {
                vec![$(self.$index.value()),*]
            }
            fn elements(values: &[Value]) -> Self::Elements {
                ($(Scalar::wrap(values[$index]),)*)
            }
            fn combined(elements: Self::Elements) -> Vec<Value> {
                vec![$(elements.$index.value()),*]
            }
            fn results(values: &[Value]) -> Self {
                ($(Tensor::wrap(values[$index]),)*)
            }
        }
    )*};
}

reducible_tuples!((A 0 B 1) (A 0 B 1 C 2) (A 0 B 1 C 2 D 3));

/// Several tensors reduced together along `axis`, along several dimensions as `(0, 1)` or along all as `..`: the combine function
/// gets one element of each from either side.
#[inline]
#[track_caller]
pub fn reduce<R: Reducible>(
    operands: R,
    axis: impl Axis,
    combine: impl Fn(R::Elements, R::Elements) -> R::Elements,
) -> R {
    let at = here();
    let operands = trace::fit_combined(Combining::Reduce, &operands.operands(), at);
    let Some((mut values, axes)) = trace::passes(&operands, axis.axes(), at) else {
        let poison: Vec<Value> = operands.iter().map(|_| trace::poison(at)).collect();
        return R::results(&poison);
    };
    for axis in axes {
        values = combined_fitted::<R>(Combining::Reduce, &values, axis, &combine, at);
    }
    R::results(&values)
}

/// A reduction with one operation.
fn reduced_with(op: BinaryOp, operand: Value, axes: Axes, at: trace::At) -> Value {
    match trace::passes(&[operand], axes, at) {
        None => trace::poison(at),
        Some((operands, axes)) => axes.into_iter().fold(operands[0], |value, axis| {
            trace::combine_with(Combining::Reduce, op, value, axis, at)
        }),
    }
}

/// Reduces or scans with a combine function.
pub(super) fn combined<R: Reducible>(
    combining: Combining,
    operands: R,
    axis: usize,
    combine: impl Fn(R::Elements, R::Elements) -> R::Elements,
    at: trace::At,
) -> R {
    R::results(&all_combined(combining, operands, axis, combine, at))
}

/// Scans with a combine function, and gives the totals too.
pub(super) fn combined_with_totals<R: Reducible>(
    is_reverse: bool,
    operands: R,
    axis: usize,
    combine: impl Fn(R::Elements, R::Elements) -> R::Elements,
    at: trace::At,
) -> (R, R) {
    let combining = Combining::Scan {
        is_reverse,
        has_totals: true,
    };
    let results = all_combined(combining, operands, axis, combine, at);
    let (scanned, totals) = results.split_at(results.len() / 2);
    (R::results(scanned), R::results(totals))
}

fn all_combined<R: Reducible>(
    combining: Combining,
    operands: R,
    axis: usize,
    combine: impl Fn(R::Elements, R::Elements) -> R::Elements,
    at: trace::At,
) -> Vec<Value> {
    let operands = trace::fit_combined(combining, &operands.operands(), at);
    combined_fitted::<R>(combining, &operands, axis, &combine, at)
}

/// The same of operands of one shape and layout.
fn combined_fitted<R: Reducible>(
    combining: Combining,
    operands: &[Value],
    axis: usize,
    combine: &impl Fn(R::Elements, R::Elements) -> R::Elements,
    at: trace::At,
) -> Vec<Value> {
    let elements = trace::open_combine(operands, at);
    let (left, right) = elements.split_at(operands.len());
    let combined = R::combined(combine(R::elements(left), R::elements(right)));
    trace::close_combine(combining, axis, operands, &combined, at)
}
