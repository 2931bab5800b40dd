//! f32 and f64 of the host as [`Real`].

use std::ops::{Add, Mul, Neg, Sub};

use super::super::real::Real;

macro_rules! host {
    ($name:ident, $float:ident, $int:ty, $is_double:literal, $mantissa:literal, $bias:literal, $guess:literal) => {
        /// A number of the host.
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $name(pub(super) $float);

        host!(@ $name $float; Add add +, Sub sub -, Mul mul *);

        impl Neg for $name {
            type Output = Self;
            fn neg(self) -> Self {
                Self(-self.0)
            }
        }

        impl Real for $name {
            type Bool = bool;

            const IS_DOUBLE: bool = $is_double;

            fn constant(value: f64) -> Self {
                Self(value as $float)
            }
            fn fma(self, b: Self, c: Self) -> Self {
                Self(self.0.mul_add(b.0, c.0))
            }
            fn div(self, divisor: Self) -> Self {
                Self(self.0 / divisor.0)
            }
            fn sqrt(self) -> Self {
                Self(self.0.sqrt())
            }
            fn abs(self) -> Self {
                Self(self.0.abs())
            }
            fn rint(self) -> Self {
                Self(self.0.round_ties_even())
            }
            fn trunc(self) -> Self {
                Self(self.0.trunc())
            }
            fn sin(self) -> Self {
                Self(self.0.sin())
            }
            fn cos(self) -> Self {
                Self(self.0.cos())
            }
            fn fmod(self, divisor: Self) -> Self {
                Self(self.0 % divisor.0)
            }
            fn copysign(self, sign: Self) -> Self {
                Self(self.0.copysign(sign.0))
            }
            fn is_negative(self) -> bool {
                self.0.is_sign_negative()
            }
            fn lt(self, other: Self) -> bool {
                self.0 < other.0
            }
            fn le(self, other: Self) -> bool {
                self.0 <= other.0
            }
            fn eq(self, other: Self) -> bool {
                self.0 == other.0
            }
            fn choose(condition: bool, yes: Self, no: Self) -> Self {
                if condition { yes } else { no }
            }
            fn power_of_two(self) -> Self {
                let exponent = (self.0 as $int).wrapping_add($bias);
                Self($float::from_bits((exponent << $mantissa).cast_unsigned()))
            }
            fn split(self, least: f64) -> (Self, Self) {
                let bits = self.0.to_bits().cast_signed();
                let least = (least as $float).to_bits().cast_signed();
                let exponent = bits.wrapping_sub(least) >> $mantissa;
                let mantissa = bits.wrapping_sub(exponent << $mantissa);
                (
                    Self($float::from_bits(mantissa.cast_unsigned())),
                    Self(exponent as $float),
                )
            }
            fn inverse_cube_root_guess(self) -> Self {
                let bits = self.0.to_bits() / 3;
                Self($float::from_bits(0_u64.wrapping_add($guess).wrapping_sub(bits.into()) as _))
            }
        }
    };
    (@ $name:ident $float:ident; $($trait:ident $method:ident $op:tt),*) => {$(
        impl $trait for $name {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                Self(self.0 $op other.0)
            }
        }

        impl $trait<f64> for $name {
            type Output = Self;
            fn $method(self, other: f64) -> Self {
                Self(self.0 $op other as $float)
            }
        }
    )*};
}

host!(Single, f32, i32, false, 23, 127, 0x54a2_1d2a);
host!(Double, f64, i64, true, 52, 1023, 0x553e_f0ff_289d_d796);
