//! How floats of a byte or less are laid out: the one place that host types, constants and conversions by integer code take it from.
//!
//! All are stored, moved, compared on the host and converted, never computed with. A conversion rounds to nearest, ties to the
//! even code, and saturates to the largest finite number.

use crate::elem::DType;

/// A float of at most 8 bits, in the low bits of a byte; the bits above are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NarrowFloat {
    /// Its bits, without those of the byte above.
    pub bits: u32,
    /// Is the highest of them a sign? Without one there are no zero and no subnormal numbers either: codes are exponents.
    pub is_signed: bool,
    /// Bits of the mantissa.
    pub mantissa_bits: u32,
    /// What is added to an exponent.
    pub bias: i32,
    /// The code of the largest finite number.
    pub largest: u8,
    /// The code of infinity, without its sign.
    pub infinity: Option<u8>,
    /// What NaN becomes: the code of NaN, or of the largest number where there is none.
    pub of_nan: u8,
}

const E4M3: NarrowFloat = NarrowFloat {
    bits: 8,
    is_signed: true,
    mantissa_bits: 3,
    bias: 7,
    largest: 0x7e,
    infinity: None,
    of_nan: 0x7f,
};

const E5M2: NarrowFloat = NarrowFloat {
    mantissa_bits: 2,
    bias: 15,
    largest: 0x7b,
    infinity: Some(0x7c),
    ..E4M3
};

const E4M3B15: NarrowFloat = NarrowFloat {
    bias: 15,
    largest: 0x7f,
    ..E4M3
};

const E2M1: NarrowFloat = NarrowFloat {
    bits: 4,
    is_signed: true,
    mantissa_bits: 1,
    bias: 1,
    largest: 7,
    infinity: None,
    of_nan: 7,
};

const E8M0: NarrowFloat = NarrowFloat {
    bits: 8,
    is_signed: false,
    mantissa_bits: 0,
    bias: 127,
    largest: 0xfe,
    infinity: None,
    of_nan: 0xff,
};

impl DType {
    /// How it is laid out, if it is a float of a byte or less.
    pub const fn narrow_float(self) -> Option<NarrowFloat> {
        Some(match self {
            DType::E4m3 => E4M3,
            DType::E5m2 => E5M2,
            DType::E4m3b15 => E4M3B15,
            DType::E2m1 => E2M1,
            DType::E8m0 => E8M0,
            _ => return None,
        })
    }
}

impl NarrowFloat {
    /// The bit of the sign; 0 where there is none.
    pub const fn sign(&self) -> u8 {
        if self.is_signed {
            1 << (self.bits - 1)
        } else {
            0
        }
    }

    /// The number with this code, exactly.
    pub fn decode(&self, code: u8) -> f64 {
        let magnitude = code & (0xff >> (8 - self.bits)) & !self.sign();
        let sign = if code & self.sign() == 0 { 1.0 } else { -1.0 };
        if Some(magnitude) == self.infinity {
            return sign * f64::INFINITY;
        }
        if magnitude > self.largest {
            return f64::NAN;
        }
        let exponent = i32::from(magnitude >> self.mantissa_bits);
        let one = 1_u32 << self.mantissa_bits;
        let mantissa = u32::from(magnitude) & (one - 1);
        let is_subnormal = self.is_signed && exponent == 0;
        let steps = if is_subnormal {
            mantissa
        } else {
            mantissa + one
        };
        let power = exponent.max(i32::from(self.is_signed)) - self.bias;
        sign * f64::from(steps) * 2f64.powi(power - self.mantissa_bits as i32)
    }

    /// The code of the nearest number.
    pub fn encode(&self, value: f64) -> u8 {
        if value.is_nan() {
            return self.of_nan;
        }
        let sign = if value.is_sign_negative() {
            self.sign()
        } else {
            0
        };
        let magnitude = value.abs();
        if magnitude >= self.decode(self.largest) {
            return sign | self.largest;
        }
        let smallest_exponent = i32::from(self.is_signed) - self.bias;
        if !self.is_signed {
            return nearest_power(magnitude, smallest_exponent);
        }
        // Below the smallest normal number the spacing stays that of the smallest normal ones.
        let exponent = exponent_of(magnitude).max(smallest_exponent);
        let spacing = 2f64.powi(exponent - self.mantissa_bits as i32);
        let steps = (magnitude / spacing).round_ties_even() as u32;
        // Steps of the lowest normal binade start at 2^mantissa_bits, so a carry into the next binade adds up by itself.
        let binade = (exponent - smallest_exponent) as u32;
        sign | ((binade << self.mantissa_bits) + steps) as u8
    }
}

fn exponent_of(magnitude: f64) -> i32 {
    (magnitude.to_bits() >> 52) as i32 - 1023
}

/// The code of the power of two nearest to a number below the largest one.
fn nearest_power(magnitude: f64, smallest_exponent: i32) -> u8 {
    let exponent = exponent_of(magnitude).max(smallest_exponent);
    let code = exponent - smallest_exponent;
    let middle = 1.5 * 2f64.powi(exponent);
    let is_up = magnitude > middle || magnitude.total_cmp(&middle).is_eq() && code % 2 == 1;
    (code + i32::from(is_up)) as u8
}

#[cfg(test)]
#[allow(
    clippy::float_cmp,
    reason = "the numbers of a format are compared exactly"
)]
mod tests {
    use super::*;

    fn narrow() -> impl Iterator<Item = (DType, NarrowFloat)> {
        DType::ALL
            .into_iter()
            .filter_map(|dtype| Some((dtype, dtype.narrow_float()?)))
    }

    /// The nearest representable number by search over all codes, ties to the even code.
    fn nearest(format: &NarrowFloat, value: f64) -> u8 {
        let magnitude = value.abs();
        let off = |code: u8| (format.decode(code) - magnitude).abs();
        let best = (0..=format.largest)
            .min_by(|&a, &b| off(a).total_cmp(&off(b)).then((a & 1).cmp(&(b & 1))))
            .expect("a format has numbers");
        let sign = if value.is_sign_negative() {
            format.sign()
        } else {
            0
        };
        best | sign
    }

    #[test]
    fn conversion_rounds_to_the_nearest() {
        for (dtype, format) in narrow() {
            let codes = 0..=(0xff_u8 >> (8 - format.bits));
            for code in codes {
                let value = format.decode(code);
                if value.is_finite() {
                    assert_eq!(format.encode(value), code, "{dtype} {value}");
                }
            }
            let last = format.decode(format.largest);
            // Every middle of two neighbours, and the numbers next to it.
            for code in 0..format.largest {
                let middle = f64::midpoint(format.decode(code), format.decode(code + 1));
                for x in [middle.next_down(), middle, middle.next_up()] {
                    for x in [x, -x] {
                        assert_eq!(format.encode(x), nearest(&format, x), "{dtype} {x:e}");
                    }
                }
            }
            for step in 0..20_000 {
                let value = (f64::from(step) - 10_000.0) * 1.1e-4 * last;
                assert_eq!(
                    format.encode(value),
                    nearest(&format, value),
                    "{dtype} {value}"
                );
                let small = value * 1e-5;
                assert_eq!(
                    format.encode(small),
                    nearest(&format, small),
                    "{dtype} {small}"
                );
            }
        }
    }

    #[test]
    fn numbers_of_the_specifications() {
        let of = |dtype: DType, code| dtype.narrow_float().expect("it is narrow").decode(code);
        let e2m1: Vec<f64> = (0..8).map(|code| of(DType::E2m1, code)).collect();
        assert_eq!(e2m1, [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
        assert_eq!(
            of(DType::E2m1, 0xff),
            -6.0,
            "the upper half of the byte is ignored"
        );
        assert_eq!(of(DType::E8m0, 127), 1.0);
        assert_eq!(of(DType::E8m0, 0), 2f64.powi(-127));
        assert_eq!(of(DType::E8m0, 254), 2f64.powi(127));
        assert!(of(DType::E8m0, 255).is_nan());
        assert_eq!(of(DType::E4m3, 0x7e), 448.0);
        assert_eq!(of(DType::E5m2, 0x7b), 57344.0);
        assert!(of(DType::E5m2, 0xfc).is_infinite());
        assert_eq!(of(DType::E4m3b15, 0x7f), 1.875);
        assert_eq!(of(DType::E4m3b15, 1), 2f64.powi(-17));
    }

    #[test]
    fn the_ends_saturate() {
        let of = |dtype: DType, x| dtype.narrow_float().expect("it is narrow").encode(x);
        for (dtype, format) in narrow() {
            assert_eq!(of(dtype, f64::INFINITY), format.largest, "{dtype}");
            assert_eq!(of(dtype, 1e300), format.largest, "{dtype}");
            assert_eq!(of(dtype, f64::NEG_INFINITY), format.largest | format.sign());
            assert_eq!(of(dtype, f64::NAN), format.of_nan, "{dtype}");
            assert_eq!(of(dtype, 1e-300), 0, "{dtype}");
            assert_eq!(of(dtype, -0.0), format.sign(), "{dtype}");
        }
    }
}
