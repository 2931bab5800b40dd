//! Floats of a byte or less, on the host: stored, converted and compared, never computed with.
//!
//! Conversion rounds to nearest, ties to even, and saturates to the largest finite number, as `cvt.rn.satfinite` does
//! (PTX ISA, `cvt`); NaN stays NaN, where the type has it.

use std::fmt;

use ir::elem::DType;
use ir::narrow::NarrowFloat;

/// An OCP FP8 E4M3 number: 4 exponent bits of bias 7, 3 mantissa bits, no infinity, largest 448.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct E4m3(u8);

/// An OCP FP8 E5M2 number: 5 exponent bits of bias 15, 2 mantissa bits, largest 57344.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct E5m2(u8);

/// Triton's float8e4b15: 4 exponent bits of bias 15, 3 mantissa bits, neither infinity nor NaN, which becomes the largest, 1.875.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct E4m3b15(u8);

/// An OCP MX FP4 E2M1 number, 0, 0.5, 1, 1.5, 2, 3, 4 or 6 with a sign, in the lower half of a byte; the upper half is ignored.
/// NaN becomes 6. Packed, two of them are a `u8`: [`E2m1::pair`], [`E2m1::unpair`].
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct E2m1(u8);

/// An OCP MX E8M0 scale: a power of two from 2^-127 to 2^127, or NaN. It has no sign and no zero: of a number it is the
/// magnitude, and of 0 the smallest power.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct E8m0(u8);

macro_rules! narrow {
    ($ty:ident, $largest:literal) => {
        impl $ty {
            const FORMAT: NarrowFloat = match DType::$ty.narrow_float() {
                Some(format) => format,
                None => panic!("it is a float of a byte or less"),
            };

            #[doc = concat!("The nearest number, ties to even, saturating at ", $largest, ".")]
            pub fn from_f32(value: f32) -> Self {
                Self::from_f64(value.into())
            }

            #[doc = concat!("The nearest number, ties to even, saturating at ", $largest, ".")]
            pub fn from_f64(value: f64) -> Self {
                Self(Self::FORMAT.encode(value))
            }

            /// The value, exactly.
            pub fn to_f32(self) -> f32 {
                self.to_f64() as f32
            }

            /// The value, exactly.
            pub fn to_f64(self) -> f64 {
                Self::FORMAT.decode(self.0)
            }

            /// The number with these bits.
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// The bits.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// Is it NaN?
            pub fn is_nan(self) -> bool {
                self.to_f64().is_nan()
            }
        }

        impl PartialEq for $ty {
            fn eq(&self, other: &Self) -> bool {
                self.to_f64() == other.to_f64()
            }
        }

        impl PartialOrd for $ty {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                self.to_f64().partial_cmp(&other.to_f64())
            }
        }

        impl From<$ty> for f32 {
            fn from(value: $ty) -> f32 {
                value.to_f32()
            }
        }

        impl From<$ty> for f64 {
            fn from(value: $ty) -> f64 {
                value.to_f64()
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_f32().fmt(f)
            }
        }

        impl fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }
    };
}

narrow!(E4m3, "448");
narrow!(E5m2, "57344");
narrow!(E4m3b15, "1.875");
narrow!(E2m1, "6");
narrow!(E8m0, "2^127");

impl E2m1 {
    /// Two numbers in a byte, the first in its lower half, as memory has them and
    /// [`unpack_e2m1`](super::Tensor::unpack_e2m1) takes them apart.
    pub const fn pair(low: E2m1, high: E2m1) -> u8 {
        low.0 & 15 | high.0 << 4
    }

    /// The two numbers of a byte, that of its lower half first.
    pub const fn unpair(byte: u8) -> [E2m1; 2] {
        [E2m1(byte & 15), E2m1(byte >> 4)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_saturate_and_nan_stays() {
        let bits = |value: f32| E4m3::from_f32(value).to_bits();
        assert_eq!(bits(1e9), bits(448.0));
        assert_eq!(bits(f32::NEG_INFINITY), bits(-448.0));
        assert_eq!(E5m2::from_f32(1e9).to_bits(), 0x7b);
        assert_eq!(E5m2::from_bits(0x7b).to_string(), "57344");
        assert!(E4m3::from_f32(f32::NAN).is_nan());
        assert_eq!(E5m2::from_bits(0x7c).to_string(), "inf");
        assert_eq!(E4m3::from_bits(0x01).to_string(), "0.001953125");
        assert_eq!(E2m1::from_f32(-7.5).to_string(), "-6");
        assert_eq!(E2m1::from_f32(f32::NAN).to_string(), "6");
        assert_eq!(E4m3b15::from_f32(3.0).to_string(), "1.875");
        assert_eq!(E8m0::from_f32(-0.75).to_string(), "0.5");
        assert_eq!(E8m0::from_f32(-0.8).to_string(), "1");
        assert!(E8m0::from_f32(f32::NAN).is_nan());
        assert_eq!(E8m0::from_bits(0).to_f32().to_bits(), 0x0040_0000);
    }

    #[test]
    fn every_byte_is_two_numbers_of_four_bits() {
        for byte in 0..=255 {
            let [low, high] = E2m1::unpair(byte);
            assert_eq!(E2m1::pair(low, high), byte);
            assert_eq!(E2m1::from_f64(high.to_f64()).to_bits(), byte >> 4);
        }
    }
}
