//! The 8-bit floats, on the host: stored, converted and compared, never computed with.
//!
//! Conversion rounds to nearest, ties to even, and saturates to the largest finite number, as `cvt.rn.satfinite` does
//! (PTX ISA, `cvt`); NaN stays NaN.

use std::fmt;

/// An OCP FP8 E4M3 number: 4 exponent bits of bias 7, 3 mantissa bits, no infinity, largest 448.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct E4m3(u8);

/// An OCP FP8 E5M2 number: 5 exponent bits of bias 15, 2 mantissa bits, largest 57344.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct E5m2(u8);

/// How a narrow float is laid out in its byte.
struct Format {
    mantissa_bits: u32,
    bias: i32,
    /// The byte, without its sign, of the largest finite number.
    largest: u8,
    /// The byte of NaN.
    nan: u8,
}

const E4M3: Format = Format {
    mantissa_bits: 3,
    bias: 7,
    largest: 0x7e,
    nan: 0x7f,
};

const E5M2: Format = Format {
    mantissa_bits: 2,
    bias: 15,
    largest: 0x7b,
    nan: 0x7f,
};

impl Format {
    fn decode(&self, bits: u8) -> f32 {
        let magnitude = bits & 0x7f;
        let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
        if magnitude > self.largest {
            let is_infinity = self.mantissa_bits == 2 && magnitude == 0x7c;
            return sign * if is_infinity { f32::INFINITY } else { f32::NAN };
        }
        let exponent = i32::from(magnitude >> self.mantissa_bits);
        let mantissa = f32::from(magnitude & ((1 << self.mantissa_bits) - 1));
        let scale = 2f32.powi(exponent.max(1) - self.bias - self.mantissa_bits as i32);
        let hidden = if exponent == 0 {
            0.0
        } else {
            (1u32 << self.mantissa_bits) as f32
        };
        sign * (hidden + mantissa) * scale
    }

    fn encode(&self, value: f64) -> u8 {
        if value.is_nan() {
            return self.nan;
        }
        let sign = u8::from(value.is_sign_negative()) << 7;
        let magnitude = value.abs();
        if magnitude >= f64::from(self.decode(self.largest)) {
            return sign | self.largest;
        }
        // Below the smallest normal number the spacing stays that of the smallest normal ones.
        let smallest_exponent = 1 - self.bias;
        let exponent = (magnitude.to_bits() >> 52) as i32 - 1023;
        let exponent = exponent.max(smallest_exponent);
        let spacing = 2f64.powi(exponent - self.mantissa_bits as i32);
        let steps = (magnitude / spacing).round_ties_even() as u32;
        // Steps of the lowest normal binade start at 2^mantissa_bits, so a carry into the next binade adds up by itself.
        let binade = (exponent - smallest_exponent) as u32;
        sign | ((binade << self.mantissa_bits) + steps) as u8
    }
}

macro_rules! fp8 {
    ($ty:ident, $format:ident, $width:literal) => {
        impl $ty {
            #[doc = concat!("The nearest number, ties to even, saturating at ", $width, ".")]
            pub fn from_f32(value: f32) -> Self {
                Self($format.encode(value.into()))
            }

            #[doc = concat!("The nearest number, ties to even, saturating at ", $width, ".")]
            pub fn from_f64(value: f64) -> Self {
                Self($format.encode(value))
            }

            /// The value, exactly.
            pub fn to_f32(self) -> f32 {
                $format.decode(self.0)
            }

            /// The value, exactly.
            pub fn to_f64(self) -> f64 {
                self.to_f32().into()
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
                self.to_f32().is_nan()
            }
        }

        impl PartialEq for $ty {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $ty {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
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

fp8!(E4m3, E4M3, "448");
fp8!(E5m2, E5M2, "57344");

#[cfg(test)]
mod tests {
    use super::*;

    /// The nearest representable number by search over all bytes, ties to the even byte.
    fn nearest(format: &Format, value: f64) -> u8 {
        let magnitude = value.abs();
        let best = (0..=format.largest)
            .min_by(|&a, &b| {
                let off = |bits| (f64::from(format.decode(bits)) - magnitude).abs();
                (off(a), a & 1)
                    .partial_cmp(&(off(b), b & 1))
                    .expect("distances between numbers are numbers")
            })
            .expect("a format has numbers");
        best | u8::from(value.is_sign_negative()) << 7
    }

    fn check(format: &Format) {
        for bits in 0..=255u8 {
            let value = f64::from(format.decode(bits));
            if value.is_finite() {
                assert_eq!(format.encode(value), bits, "{value}");
            }
        }
        for step in 0..20_000 {
            let value = (f64::from(step) - 10_000.0) * 0.053;
            assert_eq!(format.encode(value), nearest(format, value), "{value}");
            let small = value * 1e-5;
            assert_eq!(format.encode(small), nearest(format, small), "{small}");
        }
    }

    #[test]
    fn conversion_rounds_to_the_nearest() {
        check(&E4M3);
        check(&E5M2);
    }

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
    }
}
