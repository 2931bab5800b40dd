//! Elementwise functions of scalars and tensors.

use super::mix::{Condition, Handle, Mix, Operand, ScalarOperand};
use super::trace::{self, here};
use super::{Element, Float, Int, Numeric, Scalar, Tensor};
use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::arith::{BinaryOp, Precision, UnaryOp};

macro_rules! float_functions {
    (@ $of:ty => $to:ident, $($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        /// Elementary functions. f16 and bf16 are computed in f32 and rounded once; f32 and f64 are within about two
        /// units in the last place. Of f32, roots, `exp2` and `exp` are the hardware's, with subnormal numbers taken as zero,
        /// and `exp(x)` carries the rounding of `x · log2(e)`, which grows with `x`: [`precise`](Tensor::precise) avoids both.
        impl<T: Element> $of {$(
            $(#[$doc])*
            #[inline]
            #[track_caller]
            pub fn $name(self) -> $to<T>
            where
                T: Float,
            {
                let (value, precision) = self.computed();
                $to::wrap(trace::unary(UnaryOp::$op, precision, value, here()))
            }
        )*}
    };
    ($($functions:tt)*) => {
        float_functions!(@ Scalar<T> => Scalar, $($functions)*);
        float_functions!(@ Tensor<T> => Tensor, $($functions)*);
        float_functions!(@ WithPrecision<Scalar<T>> => Scalar, $($functions)*);
        float_functions!(@ WithPrecision<Tensor<T>> => Tensor, $($functions)*);
    };
}

/// A scalar or tensor whose next function is computed more exactly or faster than usual: `x.precise().sqrt()`,
/// `x.fast().exp2()`.
#[derive(Clone, Copy, Debug)]
#[must_use = "this only says how the next function is computed"]
pub struct WithPrecision<H> {
    handle: H,
    precision: Precision,
}

float_functions! {
    /// `e^x`.
    exp = Exp;
    /// `2^x`.
    exp2 = Exp2;
    /// Natural logarithm.
    log = Log;
    /// Logarithm to base 2.
    log2 = Log2;
    /// Sine of radians.
    sin = Sin;
    /// Cosine of radians.
    cos = Cos;
    /// Hyperbolic tangent.
    tanh = Tanh;
    /// The error function.
    erf = Erf;
    /// Square root.
    sqrt = Sqrt;
    /// `1 / sqrt(x)`.
    rsqrt = Rsqrt;
    /// The nearest integer below.
    floor = Floor;
    /// The nearest integer above.
    ceil = Ceil;
    /// The nearest integer, ties to even.
    rint = Rint;
    /// The integer next to it towards zero.
    trunc = Trunc;
    /// Tangent of radians, within 3 units in the last place in f32, 2 in f64.
    tan = Tan;
}

macro_rules! methods {
    ($handle:ident, $operand:ident) => {
        impl<T: Element> $handle<T> {
            #[inline]
            #[track_caller]
            fn with(self, op: BinaryOp, other: impl $operand<T>) -> Self
            where
                T: Numeric,
            {
                let elem = Elem::Data(T::DTYPE);
                Self::wrap(trace::binary(
                    op,
                    self.raw(),
                    other.into_raw(),
                    elem,
                    here(),
                ))
            }
        }

        impl<T: Element> $handle<T> {
            #[inline]
            fn computed(self) -> (Value, Precision)
            where
                T: Float,
            {
                (self.value(), Precision::Default)
            }

            /// The next function is computed correctly rounded, or as close to it as the function allows.
            #[inline]
            pub fn precise(self) -> WithPrecision<Self>
            where
                T: Float,
            {
                WithPrecision {
                    handle: self,
                    precision: Precision::Precise,
                }
            }

            /// The next function is the hardware's approximation, with subnormal numbers taken as zero.
            #[inline]
            pub fn fast(self) -> WithPrecision<Self>
            where
                T: Float,
            {
                WithPrecision {
                    handle: self,
                    precision: Precision::Fast,
                }
            }

            /// `self * b + c` with one rounding.
            #[inline]
            #[track_caller]
            pub fn fma(self, b: impl $operand<T>, c: impl $operand<T>) -> Self
            where
                T: Float,
            {
                Self::wrap(trace::fma(
                    self.raw(),
                    b.into_raw(),
                    c.into_raw(),
                    Elem::Data(T::DTYPE),
                    here(),
                ))
            }

            /// `self * factor`, of a factor that is 1 in most places. A warp whose factors are all 1 skips the multiplications, for the price
            /// of a comparison of each distinct factor, a vote and a branch: what an online softmax gains whose maxima seldom grow
            /// (FlashAttention-4, arXiv 2603.05451, section 3.2).
            #[inline]
            #[track_caller]
            pub fn rescale(self, factor: impl $operand<T>) -> Self
            where
                T: Float,
            {
                Self::wrap(trace::rescale(
                    self.raw(),
                    factor.into_raw(),
                    Elem::Data(T::DTYPE),
                    here(),
                ))
            }

            /// The smaller of the two; NaN if either is.
            #[inline]
            #[track_caller]
            pub fn minimum_nan(self, other: impl $operand<T>) -> Self
            where
                T: Float,
            {
                self.with(BinaryOp::MinNan, other)
            }

            /// The larger of the two; NaN if either is.
            #[inline]
            #[track_caller]
            pub fn maximum_nan(self, other: impl $operand<T>) -> Self
            where
                T: Float,
            {
                self.with(BinaryOp::MaxNan, other)
            }

            /// Between `low` and `high`; NaN stays NaN.
            #[inline]
            #[track_caller]
            pub fn clamp_nan(self, low: impl $operand<T>, high: impl $operand<T>) -> Self
            where
                T: Float,
            {
                let above = self.maximum_nan(low);
                above.minimum_nan(high)
            }
        }

        impl<T: Element> WithPrecision<$handle<T>> {
            #[inline]
            fn computed(self) -> (Value, Precision)
            where
                T: Float,
            {
                (self.handle.value(), self.precision)
            }

            /// `self / divisor`.
            #[allow(
                clippy::should_implement_trait,
                reason = "an operator would hide how it is computed"
            )]
            #[inline]
            #[track_caller]
            pub fn div(self, divisor: impl $operand<T>) -> $handle<T>
            where
                T: Float,
            {
                let (a, b) = (self.handle.raw(), divisor.into_raw());
                $handle::wrap(trace::binary_with(
                    BinaryOp::Div,
                    self.precision,
                    a,
                    b,
                    Elem::Data(T::DTYPE),
                    here(),
                ))
            }
        }

        impl<T: Element> $handle<T> {
            /// `|x|`; the smallest signed integer stays itself.
            #[inline]
            #[track_caller]
            pub fn abs(self) -> Self
            where
                T: Numeric,
            {
                Self::wrap(trace::unary(
                    UnaryOp::Abs,
                    Precision::Default,
                    self.value(),
                    here(),
                ))
            }

            /// The smaller of the two; of a number and NaN, the number.
            #[inline]
            #[track_caller]
            pub fn minimum(self, other: impl $operand<T>) -> Self
            where
                T: Numeric,
            {
                self.with(BinaryOp::Min, other)
            }

            /// The larger of the two; of a number and NaN, the number.
            #[inline]
            #[track_caller]
            pub fn maximum(self, other: impl $operand<T>) -> Self
            where
                T: Numeric,
            {
                self.with(BinaryOp::Max, other)
            }

            /// Between `low` and `high`; NaN becomes `low`.
            #[inline]
            #[track_caller]
            pub fn clamp(self, low: impl $operand<T>, high: impl $operand<T>) -> Self
            where
                T: Numeric,
            {
                let above = self.maximum(low);
                above.minimum(high)
            }
        }

        impl<T: Element> $handle<T> {
            /// The upper half of the full product.
            #[inline]
            #[track_caller]
            pub fn mul_high(self, other: impl $operand<T>) -> Self
            where
                T: Int,
            {
                self.with(BinaryOp::MulHigh, other)
            }

            /// The quotient rounded up, for a positive divisor and a dividend that is not negative.
            #[inline]
            #[track_caller]
            pub fn div_ceil(self, divisor: impl $operand<T> + Copy) -> Self
            where
                T: Int,
            {
                let elem = Elem::Data(T::DTYPE);
                let at = here();
                let sum = trace::binary(BinaryOp::Add, self.raw(), divisor.into_raw(), elem, at);
                let one = trace::Raw::Const(Element::constant(T::ONE));
                let last = trace::binary(BinaryOp::Sub, trace::Raw::Value(sum), one, elem, at);
                Self::wrap(trace::binary(
                    BinaryOp::Div,
                    trace::Raw::Value(last),
                    divisor.into_raw(),
                    elem,
                    at,
                ))
            }
        }
    };
}

methods!(Scalar, ScalarOperand);
methods!(Tensor, Operand);

impl<T: Element> Scalar<T> {
    /// The smaller of the two; of a number and NaN, the number.
    #[inline]
    #[track_caller]
    pub fn min(self, other: impl ScalarOperand<T>) -> Self
    where
        T: Numeric,
    {
        self.minimum(other)
    }

    /// The larger of the two; of a number and NaN, the number.
    #[inline]
    #[track_caller]
    pub fn max(self, other: impl ScalarOperand<T>) -> Self
    where
        T: Numeric,
    {
        self.maximum(other)
    }
}

macro_rules! binary_functions {
    ($($(#[$doc:meta])* $name:ident = $op:ident $precision:ident, $bound:ident;)*) => {$(
        $(#[$doc])*
        #[inline]
        #[track_caller]
        pub fn $name<A: Mix<B, Elem: $bound>, B>(a: A, b: B) -> A::Output {
            let (a, b) = a.raws(b);
            let elem = Elem::Data(<A::Elem as Element>::DTYPE);
            A::Output::from_value(trace::binary_with(BinaryOp::$op, Precision::$precision, a, b, elem, here()))
        }
    )*};
}

binary_functions! {
    /// The smaller of the two; of a number and NaN, the number.
    minimum = Min Default, Numeric;
    /// The larger of the two; of a number and NaN, the number.
    maximum = Max Default, Numeric;
    /// The smaller of the two; NaN if either is.
    minimum_nan = MinNan Default, Float;
    /// The larger of the two; NaN if either is.
    maximum_nan = MaxNan Default, Float;
    /// The upper half of the full product of integers.
    umulhi = MulHigh Default, Int;
    /// `a / b`, as fast as the hardware divides.
    fdiv = Div Fast, Float;
    /// `a / b`, correctly rounded.
    div_rn = Div Precise, Float;
}

/// `a / b` rounded up, for a positive `b` and an `a` that is not negative.
#[inline]
#[track_caller]
pub fn cdiv<T: Int>(a: Scalar<T>, b: impl ScalarOperand<T> + Copy) -> Scalar<T> {
    a.div_ceil(b)
}

/// `x` between `low` and `high`; NaN becomes `low`.
#[inline]
#[track_caller]
pub fn clamp<T: Numeric>(x: Tensor<T>, low: impl Operand<T>, high: impl Operand<T>) -> Tensor<T> {
    x.clamp(low, high)
}

/// `a * b + c` with one rounding.
#[inline]
#[track_caller]
pub fn fma<T: Float>(a: Tensor<T>, b: impl Operand<T>, c: impl Operand<T>) -> Tensor<T> {
    a.fma(b, c)
}

/// `if condition { yes } else { no }`, for each element; both sides are computed.
#[inline]
#[track_caller]
pub fn select<C: Condition, A: Mix<B>, B>(
    condition: C,
    yes: A,
    no: B,
) -> C::Chosen<A::Elem, A::Output> {
    let (yes, no) = yes.raws(no);
    let elem = Elem::Data(<A::Elem as Element>::DTYPE);
    Handle::from_value(trace::select(condition.condition(), yes, no, elem, here()))
}

/// [`select`] under the name that Gluon has for it.
#[inline]
#[track_caller]
pub fn where_<C: Condition, A: Mix<B>, B>(
    condition: C,
    yes: A,
    no: B,
) -> C::Chosen<A::Elem, A::Output> {
    select(condition, yes, no)
}
