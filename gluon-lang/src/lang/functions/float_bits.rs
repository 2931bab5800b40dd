//! What the bits of a float say: kinds of numbers, neighbours, signs and powers of two.

use super::super::mix::{Operand, ScalarOperand};
use super::super::trace::{self, At, Raw, here};
use super::super::{CastTo, Element, Float, Int, Numeric, Scalar, Tensor};
use super::number::Number;
use super::remainder;
use ir::elem::{DType, Elem};
use ir::entity::Value;
use ir::ops::arith::{BinaryOp, CompareOp, Precision, UnaryOp};
use ir::ops::cast::Rounding;
use ir::ops::create::Const;

macro_rules! float_bits {
    ($handle:ident $operand:ident) => {
        /// What the bits of a float say.
        impl<T: Float> $handle<T> {
            /// Is it not a number?
            #[inline]
            #[track_caller]
            pub fn is_nan(self) -> $handle<bool> {
                $handle::wrap(trace::compare(
                    CompareOp::Ne,
                    self.raw(),
                    self.raw(),
                    Elem::Data(T::DTYPE),
                    here(),
                ))
            }

            /// Is it infinite, of either sign?
            #[inline]
            #[track_caller]
            pub fn is_infinite(self) -> $handle<bool> {
                $handle::wrap(magnitude(CompareOp::Eq, self.value(), T::DTYPE, here()))
            }

            /// Is it neither infinite nor NaN?
            #[inline]
            #[track_caller]
            pub fn is_finite(self) -> $handle<bool> {
                $handle::wrap(magnitude(CompareOp::Lt, self.value(), T::DTYPE, here()))
            }

            /// The magnitude of `self` with the sign of `sign`.
            #[inline]
            #[track_caller]
            pub fn copysign(self, sign: impl $operand<T>) -> Self {
                let elem = Elem::Data(T::DTYPE);
                $handle::wrap(trace::binary(
                    BinaryOp::CopySign,
                    self.raw(),
                    sign.into_raw(),
                    elem,
                    here(),
                ))
            }

            /// What is left of `self` after whole multiples of `other`, with the sign of `self`; exact. The operator `%` under
            /// the name that C has for it.
            #[inline]
            #[track_caller]
            pub fn fmod(self, other: impl $operand<T>) -> Self {
                let elem = Elem::Data(T::DTYPE);
                $handle::wrap(trace::binary(
                    BinaryOp::Rem,
                    self.raw(),
                    other.into_raw(),
                    elem,
                    here(),
                ))
            }

            /// `self * 2^power`, rounded once.
            #[inline]
            #[track_caller]
            pub fn ldexp(self, power: impl $operand<i32>) -> Self {
                $handle::wrap(ldexp(self.raw(), power.into_raw(), T::DTYPE, here()))
            }

            /// The number next to `self` on the way to `target`; `target` itself where both are equal.
            #[inline]
            #[track_caller]
            pub fn nextafter(self, target: impl $operand<T>) -> Self {
                $handle::wrap(nextafter(self.raw(), target.into_raw(), T::DTYPE, here()))
            }

            /// Between 0 and 1; NaN becomes 0.
            #[inline]
            #[track_caller]
            pub fn saturate(self) -> Self {
                self.maximum(T::ZERO).minimum(T::ONE)
            }
        }

        impl<T: Int> $handle<T> {
            /// Each element as the nearest `U`, where [`cast`](Tensor::cast) would keep the low bits. Floats saturate in a plain
            /// cast.
            #[inline]
            #[track_caller]
            pub fn cast_saturating<U: CastTo + Int>(self) -> $handle<U> {
                $handle::wrap(saturated(
                    self.raw(),
                    (T::DTYPE, bounds::<T>()),
                    (U::DTYPE, bounds::<U>()),
                    here(),
                ))
            }
        }
    };
}

float_bits!(Scalar ScalarOperand);
float_bits!(Tensor Operand);

/// The smallest and largest value of an integer type.
fn bounds<T: Numeric>() -> [i128; 2] {
    [T::MIN, T::MAX].map(|bound| Element::constant(bound).as_int().unwrap_or(0))
}

#[inline(never)]
fn magnitude(op: CompareOp, value: Value, dtype: DType, at: At) -> Value {
    let magnitude = trace::unary(UnaryOp::Abs, Precision::Default, value, at);
    let infinity = Raw::Const(Const::float(f64::INFINITY));
    trace::compare(op, Raw::Value(magnitude), infinity, Elem::Data(dtype), at)
}

/// Cuts to what both types hold, and converts.
#[inline(never)]
fn saturated(
    value: Raw,
    (from, [least, most]): (DType, [i128; 2]),
    (to, [low, high]): (DType, [i128; 2]),
    at: At,
) -> Value {
    let cut = |value: Raw, op, bound: i128| {
        let bound = Raw::Const(Const::Int(bound));
        Raw::Value(trace::binary(op, value, bound, Elem::Data(from), at))
    };
    let value = if low > least {
        cut(value, BinaryOp::Max, low)
    } else {
        value
    };
    let value = if high < most {
        cut(value, BinaryOp::Min, high)
    } else {
        value
    };
    match value {
        Raw::Value(value) => trace::cast(value, Elem::Data(to), Rounding::Default, at),
        Raw::Const(_) => panic!("a handle is a value"),
    }
}

#[inline(never)]
fn ldexp(x: Raw, power: Raw, dtype: DType, at: At) -> Value {
    let operands = [(x, Elem::Data(dtype)), (power, Elem::I32)];
    let Some(fitted) = trace::fit_elementwise("ldexp", &operands, at) else {
        return trace::poison(at);
    };
    let wide = if dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    let cast = |value: Value, to| trace::cast(value, Elem::Data(to), Rounding::Default, at);
    let wide: Vec<Value> = fitted.iter().map(|v| cast(*v, wide)).collect();
    let of = |v: &[Value]| {
        if dtype == DType::F64 {
            let [x, power] = [v[0], v[1]].map(|v| Number::<f64>::new(v, at));
            remainder::ldexp(x, power).value()
        } else {
            let [x, power] = [v[0], v[1]].map(|v| Number::<f32>::new(v, at));
            remainder::ldexp(x, power).value()
        }
    };
    let result = if trace::is_tensor(wide[0], at) {
        let elements = trace::open_map(&wide, 1, at);
        trace::close_map(&wide, 1, &[of(&elements)], at)[0]
    } else {
        of(&wide)
    };
    cast(result, dtype)
}

/// Bits of one sign count up with the magnitude.
#[inline(never)]
fn nextafter(x: Raw, target: Raw, dtype: DType, at: At) -> Value {
    let elem = Elem::Data(dtype);
    let Some(fitted) = trace::fit_elementwise("nextafter", &[(x, elem), (target, elem)], at) else {
        return trace::poison(at);
    };
    let int = match dtype.bits() {
        16 => Elem::Data(DType::I16),
        32 => Elem::I32,
        _ => Elem::Data(DType::I64),
    };
    let [x, target] = [fitted[0], fitted[1]].map(Raw::Value);
    let zero = Raw::Const(Const::float(0.0));
    let one = Raw::Const(Const::Int(1));
    let is = |op, a, b| Raw::Value(trace::compare(op, a, b, elem, at));
    let choose = |c, yes, no, elem| Raw::Value(trace::select(c, yes, no, elem, at));
    let bits = Raw::Value(trace::bitcast(fitted[0], int, at));
    let up = Raw::Value(trace::binary(BinaryOp::Add, bits, one, int, at));
    let down = Raw::Value(trace::binary(BinaryOp::Sub, bits, one, int, at));
    // Away from zero where the target is on the far side.
    let (is_above, is_positive) = (is(CompareOp::Gt, target, x), is(CompareOp::Gt, x, zero));
    let same = trace::binary(BinaryOp::Xor, is_above, is_positive, Elem::I1, at);
    let next = trace::select(Raw::Value(same), down, up, int, at);
    let next = Raw::Value(trace::bitcast(next, elem, at));
    // From zero it is the smallest number with the sign of the target.
    let smallest = trace::binary(BinaryOp::Or, bits, one, int, at);
    let smallest = Raw::Value(trace::bitcast(smallest, elem, at));
    let smallest = Raw::Value(trace::binary(
        BinaryOp::CopySign,
        smallest,
        target,
        elem,
        at,
    ));
    let next = choose(is(CompareOp::Eq, x, zero), smallest, next, elem);
    let next = choose(is(CompareOp::Eq, x, target), target, next, elem);
    let nan = Raw::Value(trace::binary(BinaryOp::Add, x, target, elem, at));
    let both = trace::binary(
        BinaryOp::And,
        is(CompareOp::Eq, x, x),
        is(CompareOp::Eq, target, target),
        Elem::I1,
        at,
    );
    let next = choose(Raw::Value(both), next, nan, elem);
    match next {
        Raw::Value(value) => value,
        Raw::Const(_) => panic!("a selection is a value"),
    }
}
