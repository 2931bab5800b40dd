//! f64 arithmetic on integers of 128 bits, for the roundings that the host does not have. Exact also where results
//! are subnormal, where errors themselves are too small to be represented.

use super::Mode;

/// A finite number: `significand * 2^exponent`. The last bit of the significand also stands for anything below it.
#[derive(Clone, Copy, Debug)]
struct Wide {
    negative: bool,
    significand: u128,
    exponent: i32,
}

/// Where the leading bit of a normalised significand is; one bit above it is left for a carry.
const TOP: i32 = 125;

impl Wide {
    fn of(value: f64) -> Self {
        let bits = value.to_bits();
        let field = (bits >> 52 & 0x7ff) as i32;
        let fraction = u128::from(bits & ((1 << 52) - 1));
        let significand = if field == 0 {
            fraction
        } else {
            fraction | 1 << 52
        };
        Self {
            negative: bits >> 63 != 0,
            significand,
            exponent: field.max(1) - 1075,
        }
    }

    /// The same value with its leading bit at [`TOP`]; the value is not zero.
    fn normalised(self) -> Self {
        let shift = TOP - (127 - self.significand.leading_zeros() as i32);
        Self {
            significand: self.significand << shift,
            exponent: self.exponent - shift,
            ..self
        }
    }

    /// Shifts right by `amount`; bits that fall out leave a mark in the last one.
    fn shifted(self, amount: i32) -> Self {
        let amount = amount.min(127) as u32;
        let lost = self.significand & ((1 << amount) - 1) != 0;
        let significand = self.significand >> amount | u128::from(lost);
        Self {
            significand,
            exponent: self.exponent + amount as i32,
            ..self
        }
    }

    fn round(self, mode: Mode) -> f64 {
        let sign = u64::from(self.negative) << 63;
        if self.significand == 0 {
            return f64::from_bits(sign);
        }
        let top = self.exponent + 127 - self.significand.leading_zeros() as i32;
        let shift = top.max(-1022) - 52 - self.exponent;
        let (kept, half, above_half, rest) = if shift <= 0 {
            ((self.significand << -shift) as u64, false, false, false)
        } else if shift > 127 {
            (0, false, false, true)
        } else {
            let cut = self.significand & ((1 << shift) - 1);
            let middle = 1u128 << (shift - 1);
            (
                (self.significand >> shift) as u64,
                cut == middle,
                cut > middle,
                cut != 0,
            )
        };
        let up = mode.rounds_up(self.negative, kept & 1 == 1, above_half, half, rest);
        // The leading one of a normal significand carries into the exponent field, which is one less for that.
        let field = if top < -1022 { 0 } else { (top + 1022) as u64 };
        let magnitude = (field << 52) + kept + u64::from(up);
        if magnitude < f64::INFINITY.to_bits() {
            return f64::from_bits(sign | magnitude);
        }
        let grows = mode.rounds_up(self.negative, true, true, true, true);
        let limit = if grows { f64::INFINITY } else { f64::MAX };
        f64::from_bits(sign | limit.to_bits())
    }

    fn times(self, other: Self) -> Self {
        Self {
            negative: self.negative != other.negative,
            significand: self.significand * other.significand,
            exponent: self.exponent + other.exponent,
        }
    }

    fn plus(self, other: Self, mode: Mode) -> Self {
        let zero_sign = if self.negative == other.negative {
            self.negative
        } else {
            mode == Mode::Down
        };
        match (self.significand, other.significand) {
            (0, 0) => {
                return Self {
                    negative: zero_sign,
                    ..self
                };
            }
            (0, _) => return other,
            (_, 0) => return self,
            _ => {}
        }
        let (a, b) = (self.normalised(), other.normalised());
        let (large, small) = if (a.exponent, a.significand) >= (b.exponent, b.significand) {
            (a, b)
        } else {
            (b, a)
        };
        let small = small.shifted(large.exponent - small.exponent);
        if large.negative == small.negative {
            return Self {
                significand: large.significand + small.significand,
                ..large
            };
        }
        let significand = large.significand - small.significand;
        let negative = if significand == 0 {
            mode == Mode::Down
        } else {
            large.negative
        };
        Self {
            negative,
            significand,
            ..large
        }
    }
}

/// `a * b + c` of finite numbers.
pub(crate) fn fma(a: f64, b: f64, c: f64, mode: Mode) -> f64 {
    Wide::of(a)
        .times(Wide::of(b))
        .plus(Wide::of(c), mode)
        .round(mode)
}

/// `a + b` of finite numbers.
pub(crate) fn add(a: f64, b: f64, mode: Mode) -> f64 {
    Wide::of(a).plus(Wide::of(b), mode).round(mode)
}

/// `a * b` of finite numbers.
pub(crate) fn mul(a: f64, b: f64, mode: Mode) -> f64 {
    Wide::of(a).times(Wide::of(b)).round(mode)
}

/// `a / b` of finite numbers; `b` is not zero.
pub(crate) fn div(a: f64, b: f64, mode: Mode) -> f64 {
    let (a, b) = (Wide::of(a), Wide::of(b));
    let negative = a.negative != b.negative;
    if a.significand == 0 {
        return Wide { negative, ..a }.round(mode);
    }
    let a = a.normalised();
    let (quotient, rest) = (a.significand / b.significand, a.significand % b.significand);
    let significand = quotient << 1 | u128::from(rest != 0);
    Wide {
        negative,
        significand,
        exponent: a.exponent - b.exponent - 1,
    }
    .round(mode)
}

/// The square root of a finite number that is not negative.
pub(crate) fn sqrt(a: f64, mode: Mode) -> f64 {
    let a = Wide::of(a);
    if a.significand == 0 {
        return a.round(mode);
    }
    let a = a.normalised();
    let a = if a.exponent % 2 == 0 {
        a
    } else {
        Wide {
            significand: a.significand << 1,
            exponent: a.exponent - 1,
            ..a
        }
    };
    let root = a.significand.isqrt();
    let significand = root << 1 | u128::from(root * root != a.significand);
    Wide {
        negative: false,
        significand,
        exponent: a.exponent / 2 - 1,
    }
    .round(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> impl FnMut() -> f64 {
        let mut state = 11u64;
        move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let bits = state ^ state >> 29;
            // Subnormal, close to one, and anything.
            let bits = match state >> 61 {
                0 | 1 => bits & 0x800f_ffff_ffff_ffff,
                2 | 3 => bits & 0x800f_ffff_ffff_ffff | (1000 + (state >> 40) % 50) << 52,
                4 => bits & 0x8000_0000_0000_00ff,
                _ => bits,
            };
            Some(f64::from_bits(bits))
                .filter(|value| value.is_finite())
                .unwrap_or(1.5)
        }
    }

    #[test]
    fn nearest_results_are_those_of_the_host() {
        let mut next = numbers();
        let near = Mode::NearestEven;
        for _ in 0..200_000 {
            let (a, b, c) = (next(), next(), next());
            let same = |name: &str, ours: f64, host: f64| {
                assert_eq!(
                    ours.to_bits(),
                    host.to_bits(),
                    "{name} {a:e} {b:e} {c:e}: {ours:e} {host:e}"
                );
            };
            same("add", add(a, b, near), a + b);
            same("mul", mul(a, b, near), a * b);
            same("fma", fma(a, b, c, near), a.mul_add(b, c));
            same("sqrt", sqrt(a.abs(), near), a.abs().sqrt());
            if b != 0.0 {
                same("div", div(a, b, near), a / b);
            }
        }
    }

    #[test]
    fn directed_results_are_neighbours_of_the_nearest() {
        let mut next = numbers();
        for _ in 0..100_000 {
            let (a, b, c) = (next(), next(), next());
            let results = |mode| {
                [
                    add(a, b, mode),
                    mul(a, b, mode),
                    fma(a, b, c, mode),
                    sqrt(a.abs(), mode),
                ]
            };
            let (down, up, zero) = (results(Mode::Down), results(Mode::Up), results(Mode::Zero));
            for (index, near) in results(Mode::NearestEven).into_iter().enumerate() {
                let (down, up) = (down[index], up[index]);
                assert!(
                    down <= near && near <= up,
                    "{a:e} {b:e} {c:e}: {down:e} {near:e} {up:e}"
                );
                assert!(
                    down == up || down.next_up() == up,
                    "{a:e} {b:e} {c:e}: {down:e} {up:e}"
                );
                assert_eq!(zero[index], if down >= 0.0 { down } else { up });
            }
        }
    }

    /// As an H200 gave them.
    #[test]
    fn subnormal_results_are_exact() {
        let check = |ours: f64, bits: u64| assert_eq!(ours.to_bits(), bits);
        let tiny = f64::from_bits;
        check(
            mul(tiny(1), tiny(0x40ef_fdff_ffff_ffff), Mode::Zero),
            0xffef,
        );
        check(mul(tiny(1), tiny(1), Mode::Up), 1);
        check(div(tiny(1), tiny(0x41), Mode::Down), 0x3f8f_81f8_1f81_f81f);
        check(
            fma(tiny(1), tiny(0x40), tiny(0xc3e0_0000_0000_0000), Mode::Up),
            0xc3df_ffff_ffff_ffff,
        );
        check(sqrt(tiny(0x3f), Mode::Down), 0x1e8f_bfbf_7ebc_755e);
    }
}
