//! An element of a kernel as a [`Real`]: each operation is traced, at the author's line.

use std::marker::PhantomData;
use std::ops::{Add, BitAnd, BitOr, Mul, Neg, Not, Sub};

use super::real::Real;
use crate::lang::Element;
use crate::lang::trace::{self, At, Raw};
use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::arith::{BinaryOp, CompareOp, Precision, UnaryOp};
use ir::ops::create::Const;
use ir::ops::rounded::{Direction, RoundedOp};

/// A scalar of `T`, or a constant.
pub(super) struct Number<T> {
    raw: Raw,
    /// Where the author calls the function; a constant has no place of its own.
    at: Option<At>,
    elem: PhantomData<T>,
}

impl<T> Clone for Number<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Number<T> {}

/// A boolean of the kernel.
#[derive(Clone, Copy)]
pub(super) struct Flag {
    value: Value,
    at: At,
}

/// How the bits of a float type lie, with which numbers are taken apart.
pub(super) trait Bits: Element {
    /// Is it f64?
    const IS_DOUBLE: bool;
    /// A signed integer of the same width.
    type Int: Element;
    /// The same without a sign.
    type Unsigned: Element;
    /// Bits of the mantissa that are stored.
    const MANTISSA: i64;
    /// What is added to an exponent.
    const BIAS: f64;
    /// Added to an integer it leaves that in the lowest bits: 3/2 of the first number whose neighbours are integers.
    const INTEGERS: f64;
    /// Less a third of a number's bits, about the bits of its cube root's reciprocal.
    const CUBE_ROOT: i64;
    /// The bits of the nearest number.
    fn bits(value: f64) -> i64;
    /// The nearest number.
    fn nearest(value: f64) -> f64;
}

impl Bits for f32 {
    const IS_DOUBLE: bool = false;
    type Int = i32;
    type Unsigned = u32;
    const MANTISSA: i64 = 23;
    const BIAS: f64 = 127.0;
    const INTEGERS: f64 = 12_582_912.0;
    const CUBE_ROOT: i64 = 0x54a2_1d2a;
    fn bits(value: f64) -> i64 {
        (value as f32).to_bits().into()
    }
    fn nearest(value: f64) -> f64 {
        (value as f32).into()
    }
}

impl Bits for f64 {
    const IS_DOUBLE: bool = true;
    type Int = i64;
    type Unsigned = u64;
    const MANTISSA: i64 = 52;
    const BIAS: f64 = 1023.0;
    const INTEGERS: f64 = 6_755_399_441_055_744.0;
    const CUBE_ROOT: i64 = 0x553e_f0ff_289d_d796;
    fn bits(value: f64) -> i64 {
        value.to_bits().cast_signed()
    }
    fn nearest(value: f64) -> f64 {
        value
    }
}

impl<T: Element> Number<T> {
    const ELEM: Elem = Elem::Data(T::DTYPE);

    pub(super) fn new(value: Value, at: At) -> Self {
        Self {
            raw: Raw::Value(value),
            at: Some(at),
            elem: PhantomData,
        }
    }

    /// The value, where it is computed and no constant.
    pub(super) fn value(self) -> Value {
        match self.raw {
            Raw::Value(value) => value,
            Raw::Const(_) => panic!("an operation has a traced operand"),
        }
    }

    fn at(self) -> At {
        self.at
            .expect("an operation of a function has an operand that was traced")
    }

    fn place(self, other: Self) -> At {
        self.at
            .or(other.at)
            .expect("operations on constants are done on the host")
    }

    pub(super) fn unary(self, op: UnaryOp) -> Self {
        let at = self.at();
        Self::new(trace::unary(op, Precision::Default, self.value(), at), at)
    }

    fn rounded<const N: usize>(op: RoundedOp, operands: [Self; N]) -> Self {
        let at = operands.iter().find_map(|o| o.at);
        let at = at.expect("operations on constants are done on the host");
        let raws = operands.map(|o| (o.raw, Self::ELEM));
        Self::new(trace::rounded(op, Direction::Nearest, &raws, at), at)
    }

    fn compared(self, op: CompareOp, other: Self) -> Flag {
        let at = self.place(other);
        Flag {
            value: trace::compare(op, self.raw, other.raw, Self::ELEM, at),
            at,
        }
    }

    /// The bits as another type of the same width.
    pub(super) fn bits_as<U: Element>(self) -> Number<U> {
        let at = self.at();
        Number::new(trace::bitcast(self.value(), Elem::Data(U::DTYPE), at), at)
    }

    /// `self op constant` on integers.
    pub(super) fn with(self, op: BinaryOp, constant: i64) -> Self {
        let at = self.at();
        let constant = Raw::Const(Const::Int(constant.into()));
        Self::new(trace::binary(op, self.raw, constant, Self::ELEM, at), at)
    }

    pub(super) fn binary(self, op: BinaryOp, other: Self) -> Self {
        let at = self.place(other);
        Self::new(trace::binary(op, self.raw, other.raw, Self::ELEM, at), at)
    }

    /// The number in another float type.
    pub(super) fn cast<U: Element>(self) -> Number<U> {
        let at = self.at();
        let (to, rounding) = (Elem::Data(U::DTYPE), ir::ops::cast::Rounding::Default);
        Number::new(trace::cast(self.value(), to, rounding, at), at)
    }
}

impl<T: Bits> Number<T> {
    fn of(value: f64) -> Self {
        Self {
            raw: Raw::Const(Const::float(T::nearest(value))),
            at: None,
            elem: PhantomData,
        }
    }

    /// The number, if it is a constant.
    fn known(self) -> Option<f64> {
        match self.raw {
            Raw::Const(Const::Float(bits)) => Some(f64::from_bits(bits)),
            _ => None,
        }
    }

    /// Arithmetic, on the host where both are constants.
    fn arithmetic(self, op: RoundedOp, other: Self, host: fn(f64, f64) -> f64) -> Self {
        match (self.known(), other.known()) {
            // Two roundings are one: an f64 has more than twice the bits of an f32.
            (Some(a), Some(b)) => Self::of(host(a, b)),
            _ => Self::rounded(op, [self, other]),
        }
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:tt;)*) => {$(
        impl<T: Bits> $trait for Number<T> {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                self.arithmetic(RoundedOp::$trait, other, |a, b| a $op b)
            }
        }

        impl<T: Bits> $trait<f64> for Number<T> {
            type Output = Self;
            fn $method(self, other: f64) -> Self {
                self.arithmetic(RoundedOp::$trait, Self::of(other), |a, b| a $op b)
            }
        }
    )*};
}

operators! {
    Add add +;
    Sub sub -;
    Mul mul *;
}

impl<T: Bits> Neg for Number<T> {
    type Output = Self;
    fn neg(self) -> Self {
        self.known()
            .map_or_else(|| self.unary(UnaryOp::Neg), |value| Self::of(-value))
    }
}

impl Flag {
    fn logic(self, op: BinaryOp, other: Self) -> Self {
        let (a, b) = (Raw::Value(self.value), Raw::Value(other.value));
        let value = trace::binary(op, a, b, Elem::I1, self.at);
        Self { value, ..self }
    }
}

impl Not for Flag {
    type Output = Self;
    fn not(self) -> Self {
        let value = trace::unary(UnaryOp::Not, Precision::Default, self.value, self.at);
        Self { value, ..self }
    }
}

impl BitAnd for Flag {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        self.logic(BinaryOp::And, other)
    }
}

impl BitOr for Flag {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.logic(BinaryOp::Or, other)
    }
}

impl<T: Bits> Real for Number<T> {
    type Bool = Flag;

    const IS_DOUBLE: bool = T::IS_DOUBLE;

    fn constant(value: f64) -> Self {
        Self::of(value)
    }

    fn fma(self, b: Self, c: Self) -> Self {
        Self::rounded(RoundedOp::Fma, [self, b, c])
    }

    fn div(self, divisor: Self) -> Self {
        Self::rounded(RoundedOp::Div, [self, divisor])
    }

    fn sqrt(self) -> Self {
        Self::rounded(RoundedOp::Sqrt, [self])
    }

    fn abs(self) -> Self {
        self.unary(UnaryOp::Abs)
    }

    fn rint(self) -> Self {
        self.unary(UnaryOp::Rint)
    }

    fn trunc(self) -> Self {
        self.unary(UnaryOp::Trunc)
    }

    fn sin(self) -> Self {
        self.unary(UnaryOp::Sin)
    }

    fn cos(self) -> Self {
        self.unary(UnaryOp::Cos)
    }

    fn fmod(self, divisor: Self) -> Self {
        self.binary(BinaryOp::Rem, divisor)
    }

    fn copysign(self, sign: Self) -> Self {
        self.binary(BinaryOp::CopySign, sign)
    }

    fn is_negative(self) -> Flag {
        let bits = self.bits_as::<T::Int>();
        let at = bits.at();
        let zero = Raw::Const(Const::Int(0));
        let elem = Elem::Data(<T::Int as Element>::DTYPE);
        Flag {
            value: trace::compare(CompareOp::Lt, bits.raw, zero, elem, at),
            at,
        }
    }

    fn lt(self, other: Self) -> Flag {
        self.compared(CompareOp::Lt, other)
    }

    fn le(self, other: Self) -> Flag {
        self.compared(CompareOp::Le, other)
    }

    fn eq(self, other: Self) -> Flag {
        self.compared(CompareOp::Eq, other)
    }

    fn choose(condition: Flag, yes: Self, no: Self) -> Self {
        let at = condition.at;
        let condition = Raw::Value(condition.value);
        Self::new(
            trace::select(condition, yes.raw, no.raw, Self::ELEM, at),
            at,
        )
    }

    fn power_of_two(self) -> Self {
        // The exponent stands in the lowest bits, and is shifted to its place; what is above falls out.
        let bits = (self + (T::INTEGERS + T::BIAS)).bits_as::<T::Int>();
        bits.with(BinaryOp::Shl, T::MANTISSA).bits_as()
    }

    fn split(self, least: f64) -> (Self, Self) {
        let bits = self.bits_as::<T::Int>();
        let above = bits.with(BinaryOp::Sub, T::bits(least));
        let exponent = above.with(BinaryOp::Shr, T::MANTISSA);
        let shifted = above.with(BinaryOp::And, -1 << T::MANTISSA);
        let mantissa = bits.binary(BinaryOp::Sub, shifted).bits_as();
        // An integer in the lowest bits of a float, which is then subtracted.
        let placed = exponent.with(BinaryOp::Add, T::bits(T::INTEGERS));
        (mantissa, placed.bits_as::<T>() - T::INTEGERS)
    }

    fn inverse_cube_root_guess(self) -> Self {
        let third = self.bits_as::<T::Unsigned>().with(BinaryOp::Div, 3);
        let at = third.at();
        let elem = Elem::Data(<T::Unsigned as Element>::DTYPE);
        let magic = Raw::Const(Const::Int(T::CUBE_ROOT.into()));
        let bits = trace::binary(BinaryOp::Sub, magic, third.raw, elem, at);
        Number::<T::Unsigned>::new(bits, at).bits_as()
    }
}
