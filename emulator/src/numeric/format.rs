//! Binary floating-point formats: rounding into them and widening out of them.

use super::Mode;

/// A binary floating-point format of at most 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// Bits of the exponent field.
    pub(crate) exponent_bits: u32,
    /// Bits of the mantissa field.
    pub(crate) mantissa_bits: u32,
    /// The largest exponent field holds infinity and NaN; otherwise only the pattern of all ones is NaN.
    pub(crate) has_infinity: bool,
}

impl Format {
    pub(crate) const F32: Self = Self {
        exponent_bits: 8,
        mantissa_bits: 23,
        has_infinity: true,
    };
    pub(crate) const F16: Self = Self {
        exponent_bits: 5,
        mantissa_bits: 10,
        has_infinity: true,
    };
    pub(crate) const BF16: Self = Self {
        exponent_bits: 8,
        mantissa_bits: 7,
        has_infinity: true,
    };
    pub(crate) const E4M3: Self = Self {
        exponent_bits: 4,
        mantissa_bits: 3,
        has_infinity: false,
    };
    pub(crate) const E5M2: Self = Self {
        exponent_bits: 5,
        mantissa_bits: 2,
        has_infinity: true,
    };

    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// The sign bit.
    pub(crate) const fn sign(self) -> u32 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// The pattern of plus infinity, or of the first magnitude that is too large.
    const fn overflow(self) -> u32 {
        if self.has_infinity {
            ((1 << self.exponent_bits) - 1) << self.mantissa_bits
        } else {
            (1 << (self.exponent_bits + self.mantissa_bits)) - 1
        }
    }

    /// The largest finite magnitude.
    pub(crate) const fn max_finite(self) -> u32 {
        self.overflow() - 1
    }

    /// The NaN that the hardware produces: sign clear, all other bits set.
    pub(crate) const fn nan(self) -> u32 {
        self.sign() - 1
    }

    /// Is `bits` a NaN of this format?
    pub(crate) const fn is_nan(self, bits: u32) -> bool {
        let magnitude = bits & (self.sign() - 1);
        if self.has_infinity {
            magnitude > self.overflow()
        } else {
            magnitude == self.overflow()
        }
    }

    /// Rounds `significand * 2^exponent`, plus something below its last bit when `sticky`.
    pub(crate) fn round_parts(
        self,
        negative: bool,
        significand: u64,
        exponent: i32,
        sticky: bool,
        mode: Mode,
    ) -> u32 {
        let sign = if negative { self.sign() } else { 0 };
        if significand == 0 {
            return sign;
        }
        let top = exponent + 63 - significand.leading_zeros() as i32;
        let lowest = 1 - self.bias();
        let unit = top.max(lowest) - self.mantissa_bits as i32;
        let (kept, half, above_half, rest) = shift_out(significand, unit - exponent, sticky);
        let up = mode.rounds_up(negative, kept & 1 == 1, above_half, half, rest);
        let rounded = kept + u64::from(up);
        let field = if top < lowest {
            0
        } else {
            (top + self.bias() - 1) as u64
        };
        // A normal significand carries its leading one into the exponent field, which is why the field is one less.
        let magnitude = (field << self.mantissa_bits) + rounded;
        if magnitude < u64::from(self.overflow()) {
            return sign | magnitude as u32;
        }
        let grows = mode.rounds_up(negative, true, true, true, true);
        let limit = if grows && self.has_infinity {
            self.overflow()
        } else {
            self.max_finite()
        };
        sign | limit
    }

    /// Rounds `value`; a NaN becomes the format's own.
    pub(crate) fn round(self, value: f64, mode: Mode) -> u32 {
        let bits = value.to_bits();
        let negative = bits >> 63 != 0;
        if value.is_nan() {
            return self.nan();
        }
        if value.is_infinite() {
            let limit = if self.has_infinity {
                self.overflow()
            } else {
                self.max_finite()
            };
            return limit | if negative { self.sign() } else { 0 };
        }
        let field = (bits >> 52 & 0x7ff) as i32;
        let fraction = bits & ((1 << 52) - 1);
        let significand = if field == 0 {
            fraction
        } else {
            fraction | 1 << 52
        };
        self.round_parts(negative, significand, field.max(1) - 1075, false, mode)
    }

    /// As [`round`](Self::round), but a NaN keeps its sign and the top of its payload, as conversions from f64 do.
    pub(crate) fn narrow(self, value: f64, mode: Mode) -> u32 {
        if !value.is_nan() {
            return self.round(value, mode);
        }
        let bits = value.to_bits();
        let sign = if bits >> 63 != 0 { self.sign() } else { 0 };
        let payload = (bits >> (52 - self.mantissa_bits)) as u32 & ((1 << self.mantissa_bits) - 1);
        sign | self.overflow() | payload | 1 << (self.mantissa_bits - 1)
    }

    /// As [`round`](Self::round), and magnitudes above the largest finite one become it.
    pub(crate) fn round_saturating(self, value: f64, mode: Mode) -> u32 {
        let bits = self.round(value, mode);
        let magnitude = bits & (self.sign() - 1);
        if !self.is_nan(bits) && magnitude > self.max_finite() {
            return bits & self.sign() | self.max_finite();
        }
        bits
    }

    /// The value of a pattern; exact.
    pub(crate) fn widen(self, bits: u32) -> f64 {
        let magnitude = bits & (self.sign() - 1);
        let negative = bits & self.sign() != 0;
        let value = if self.is_nan(bits) {
            f64::NAN
        } else if self.has_infinity && magnitude == self.overflow() {
            f64::INFINITY
        } else {
            let field = (magnitude >> self.mantissa_bits) as i32;
            let fraction = magnitude & ((1 << self.mantissa_bits) - 1);
            let significand = if field == 0 {
                fraction
            } else {
                fraction | 1 << self.mantissa_bits
            };
            let exponent = field.max(1) - self.bias() - self.mantissa_bits as i32;
            f64::from(significand) * f64::from_bits(((exponent + 1023) as u64) << 52)
        };
        if negative { -value } else { value }
    }

    /// Clears the sign-preserving magnitude of a subnormal pattern.
    pub(crate) const fn flush(self, bits: u32) -> u32 {
        if bits & (self.sign() - 1) < 1 << self.mantissa_bits {
            bits & self.sign()
        } else {
            bits
        }
    }
}

/// Shifts right by `amount`: what is kept, and whether what is cut off is exactly half, above half, not zero.
fn shift_out(significand: u64, amount: i32, sticky: bool) -> (u64, bool, bool, bool) {
    if amount <= 0 {
        return (significand << -amount, false, false, sticky);
    }
    if amount > 64 {
        return (0, false, false, true);
    }
    let wide = u128::from(significand);
    let cut = wide & ((1 << amount) - 1);
    let half = 1u128 << (amount - 1);
    let kept = (wide >> amount) as u64;
    (
        kept,
        cut == half && !sticky,
        cut > half || (cut == half && sticky),
        cut != 0 || sticky,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_survives_widening_and_rounding() {
        for format in [Format::F16, Format::BF16, Format::E4M3, Format::E5M2] {
            for bits in 0..format.sign() * 2 {
                for mode in [
                    Mode::NearestEven,
                    Mode::NearestAway,
                    Mode::Zero,
                    Mode::Down,
                    Mode::Up,
                ] {
                    let expected = if format.is_nan(bits) {
                        format.nan()
                    } else {
                        bits
                    };
                    assert_eq!(
                        format.round(format.widen(bits), mode),
                        expected,
                        "{format:?} {bits:#x} {mode:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn halfway_and_its_neighbours_round_as_the_mode_says() {
        for format in [Format::F16, Format::BF16, Format::E5M2, Format::E4M3] {
            for bits in 0..format.max_finite() {
                let (low, high) = (format.widen(bits), format.widen(bits + 1));
                let middle = f64::midpoint(low, high);
                let even = bits + (bits & 1);
                assert_eq!(format.round(middle, Mode::NearestEven), even);
                assert_eq!(format.round(middle, Mode::NearestAway), bits + 1);
                assert_eq!(format.round(middle, Mode::Zero), bits);
                assert_eq!(format.round(middle, Mode::Up), bits + 1);
                assert_eq!(format.round(-middle, Mode::Up), bits | format.sign());
                assert_eq!(
                    format.round(-middle, Mode::Down),
                    (bits + 1) | format.sign()
                );
                let above = middle + (high - low) / 1024.0;
                assert_eq!(format.round(above, Mode::NearestEven), bits + 1);
                let below = middle - (high - low) / 1024.0;
                assert_eq!(format.round(below, Mode::NearestEven), bits);
            }
        }
    }

    #[test]
    fn f32_rounding_is_that_of_the_host() {
        let mut state = 1u64;
        for _ in 0..200_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let exponent = 1023 - 160 + (state >> 33) % 320;
            let value = f64::from_bits(exponent << 52 | state >> 12 | state << 63);
            assert_eq!(
                Format::F32.round(value, Mode::NearestEven),
                (value as f32).to_bits(),
                "{value:e}"
            );
        }
    }

    #[test]
    fn nans_of_f64_keep_their_payload() {
        let narrow = |bits: u64| Format::F32.narrow(f64::from_bits(bits), Mode::Zero);
        assert_eq!(narrow(0x7ff8_0000_0000_0000), 0x7fc0_0000);
        assert_eq!(narrow(u64::MAX), 0xffff_ffff);
        assert_eq!(narrow(0xfff2_cdbf_287b_2df5), 0xffd6_6df9);
        assert_eq!(
            Format::F16.narrow(f64::from_bits(0x7ff1_9bf8_f4da_1288), Mode::Up),
            0x7e66
        );
    }

    #[test]
    fn overflow_rounds_as_the_mode_says() {
        assert_eq!(Format::F16.round(65520.0, Mode::NearestEven), 0x7c00);
        assert_eq!(Format::F16.round(65519.0, Mode::NearestEven), 0x7bff);
        assert_eq!(Format::F16.round(1e9, Mode::Zero), 0x7bff);
        assert_eq!(Format::F16.round(-1e9, Mode::Up), 0xfbff);
        assert_eq!(
            Format::F16.round_saturating(f64::INFINITY, Mode::NearestEven),
            0x7bff
        );
        assert_eq!(Format::E4M3.round(1e9, Mode::NearestEven), 0x7e);
        assert_eq!(Format::E4M3.round(464.1, Mode::NearestEven), 0x7e);
        assert_eq!(Format::E5M2.round_saturating(1e9, Mode::NearestEven), 0x7b);
        assert_eq!(Format::E4M3.round(f64::NAN, Mode::NearestEven), 0x7f);
    }
}
