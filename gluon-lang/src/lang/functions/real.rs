//! What the functions of this folder are written in: a number of 32 or 64 bits with correctly rounded arithmetic.
//!
//! Every operation but `sin` and `cos` has one right answer (IEEE 754), and none is contracted with another. So a function gives the same bits
//! on the GPU, on the emulator, and on the host, where `f32` and `f64` stand in for an element and tests go through
//! many more arguments than an emulator would.

use std::ops::{Add, BitAnd, BitOr, Mul, Neg, Not, Sub};

/// A number that elementary functions are computed of.
pub(crate) trait Real:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + Add<f64, Output = Self>
    + Sub<f64, Output = Self>
    + Mul<f64, Output = Self>
{
    /// The answer of a comparison.
    type Bool: Copy
        + Not<Output = Self::Bool>
        + BitAnd<Output = Self::Bool>
        + BitOr<Output = Self::Bool>;

    /// Is it an f64? Otherwise it is an f32.
    const IS_DOUBLE: bool;

    /// The nearest number.
    fn constant(value: f64) -> Self;
    /// `self * b + c`, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
    /// `self / divisor`, correctly rounded.
    fn div(self, divisor: Self) -> Self;
    /// The square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// The magnitude.
    fn abs(self) -> Self;
    /// The nearest integer, ties to even.
    fn rint(self) -> Self;
    /// The integer next to it towards zero.
    fn trunc(self) -> Self;
    /// The sine, within two units in the last place: with the cosine the one function here that differs between machines.
    fn sin(self) -> Self;
    /// The cosine, within two units in the last place.
    fn cos(self) -> Self;
    /// What is left of `self` after whole multiples of `divisor`, with the sign of `self`; exact.
    fn fmod(self, divisor: Self) -> Self;
    /// The magnitude of `self` with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// Is the sign bit set?
    fn is_negative(self) -> Self::Bool;
    /// `self < other`; false of NaN, as all four.
    fn lt(self, other: Self) -> Self::Bool;
    /// `self <= other`.
    fn le(self, other: Self) -> Self::Bool;
    /// `self == other`.
    fn eq(self, other: Self) -> Self::Bool;
    /// `condition ? yes : no`.
    fn choose(condition: Self::Bool, yes: Self, no: Self) -> Self;
    /// `2^self` of an integer within the exponents of normal numbers.
    fn power_of_two(self) -> Self;
    /// A positive normal number as `(m, e)` with `self = m 2^e` and `least <= m < 2 least`.
    fn split(self, least: f64) -> (Self, Self);
    /// An approximation of `self^(-1/3)` within 5 %, of a positive normal number.
    fn inverse_cube_root_guess(self) -> Self;

    /// One of two constants, for f32 and f64.
    fn pick(single: f64, double: f64) -> Self {
        Self::constant(if Self::IS_DOUBLE { double } else { single })
    }

    /// Is it NaN?
    fn is_nan(self) -> Self::Bool {
        !self.eq(self)
    }

    /// `self`, but no less than `low` and no more than `high`; NaN stays NaN.
    fn within(self, low: f64, high: f64) -> Self {
        let (low, high) = (Self::constant(low), Self::constant(high));
        let above = Self::choose(self.lt(low), low, self);
        Self::choose(high.lt(above), high, above)
    }

    /// `self * 2^power` of an integer `power`, which may leave the exponents of normal numbers by as much again; the
    /// result is rounded once.
    fn scaled(self, power: Self) -> Self {
        let half = (power * 0.5).trunc();
        self * half.power_of_two() * (power - half).power_of_two()
    }
}

/// `c[0] x^n + c[1] x^(n-1) + ...`: one list of coefficients for f32, one for f64.
pub(crate) fn polynomial<F: Real>(x: F, single: &[f64], double: &[f64]) -> F {
    let coefficients = if F::IS_DOUBLE { double } else { single };
    let (first, rest) = coefficients
        .split_first()
        .expect("a polynomial has coefficients");
    rest.iter()
        .fold(F::constant(*first), |sum, c| sum.fma(x, F::constant(*c)))
}

/// `a + b` and what its rounding lost (Knuth).
pub(crate) fn two_sum<F: Real>(a: F, b: F) -> (F, F) {
    let sum = a + b;
    let b_part = sum - a;
    let a_part = sum - b_part;
    (sum, (a - a_part) + (b - b_part))
}

/// `a * b` and what its rounding lost.
pub(crate) fn two_product<F: Real>(a: F, b: F) -> (F, F) {
    let product = a * b;
    (product, a.fma(b, -product))
}

/// The nearest integer, ties away from zero.
pub(crate) fn round<F: Real>(x: F) -> F {
    // The number below 1/2: with 1/2 itself the sum could be rounded up to the next integer.
    let half = F::pick(0.499_999_970_197_677_6, 0.499_999_999_999_999_94);
    (x + half.copysign(x)).trunc()
}
