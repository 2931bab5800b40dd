//! f32 and f64 arithmetic in the roundings that the host does not have.

use super::format::Format;
use super::{Mode, exact, single, wide};

fn to_f32(value: f64, mode: Mode) -> f32 {
    f32::from_bits(Format::F32.round(value, mode))
}

/// `a + b`. Rounding down is rounding up of the negated operands, which also gives a sum of zero its sign.
pub(crate) fn add32(a: f32, b: f32, mode: Mode) -> f32 {
    if mode == Mode::Down {
        return single::canonical(-add32(-a, -b, Mode::Up));
    }
    to_f32(exact::add(a.into(), b.into()), mode)
}

/// `a * b`
pub(crate) fn mul32(a: f32, b: f32, mode: Mode) -> f32 {
    to_f32(f64::from(a) * f64::from(b), mode)
}

/// `a / b`
pub(crate) fn div32(a: f32, b: f32, mode: Mode) -> f32 {
    to_f32(exact::div(a.into(), b.into()), mode)
}

/// `a * b + c`
pub(crate) fn fma32(a: f32, b: f32, c: f32, mode: Mode) -> f32 {
    if mode == Mode::Down {
        return single::canonical(-fma32(-a, b, -c, Mode::Up));
    }
    to_f32(exact::fma(a.into(), b.into(), c.into()), mode)
}

/// The square root of `a`.
pub(crate) fn sqrt32(a: f32, mode: Mode) -> f32 {
    to_f32(exact::sqrt(a.into()), mode)
}

/// Directed results of finite operands come from exact arithmetic; all others are those of the host.
fn exactly(mode: Mode, operands: &[f64]) -> bool {
    mode != Mode::NearestEven && operands.iter().all(|operand| operand.is_finite())
}

/// `a + b`
pub(crate) fn add64(a: f64, b: f64, mode: Mode) -> f64 {
    if exactly(mode, &[a, b]) {
        wide::add(a, b, mode)
    } else {
        a + b
    }
}

/// `a * b`
pub(crate) fn mul64(a: f64, b: f64, mode: Mode) -> f64 {
    if exactly(mode, &[a, b]) {
        wide::mul(a, b, mode)
    } else {
        a * b
    }
}

/// `a / b`
pub(crate) fn div64(a: f64, b: f64, mode: Mode) -> f64 {
    if exactly(mode, &[a, b]) && b != 0.0 {
        wide::div(a, b, mode)
    } else {
        a / b
    }
}

/// `a * b + c`
pub(crate) fn fma64(a: f64, b: f64, c: f64, mode: Mode) -> f64 {
    if exactly(mode, &[a, b, c]) {
        wide::fma(a, b, c, mode)
    } else {
        a.mul_add(b, c)
    }
}

/// The square root of `a`.
pub(crate) fn sqrt64(a: f64, mode: Mode) -> f64 {
    if exactly(mode, &[a]) && a >= 0.0 {
        wide::sqrt(a, mode)
    } else {
        a.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_zero_have_the_sign_of_the_mode() {
        assert_eq!(add32(1.0, -1.0, Mode::Down).to_bits(), 0x8000_0000);
        assert_eq!(add32(1.0, -1.0, Mode::Zero).to_bits(), 0);
        assert_eq!(add32(0.0, 0.0, Mode::Down).to_bits(), 0);
        assert_eq!(fma32(2.0, 3.0, -6.0, Mode::Down).to_bits(), 0x8000_0000);
        assert_eq!(add64(1.0, -1.0, Mode::Down).to_bits(), 1 << 63);
    }

    #[test]
    fn directed_results_enclose_the_nearest() {
        let mut state = 3u64;
        for _ in 0..20_000 {
            let mut next = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                f64::from_bits(state >> 12 | (1010 + (state >> 20) % 26) << 52 | state << 63)
            };
            let (a, b, c) = (next(), next(), next());
            for f in [
                |a, b, _, mode| add64(a, b, mode),
                |a, b, _, mode| mul64(a, b, mode),
                |a, b, _, mode| div64(a, b, mode),
                fma64,
            ] as [fn(f64, f64, f64, Mode) -> f64; 4]
            {
                let (down, nearest, up) = (
                    f(a, b, c, Mode::Down),
                    f(a, b, c, Mode::NearestEven),
                    f(a, b, c, Mode::Up),
                );
                assert!(down <= nearest && nearest <= up, "{down} {nearest} {up}");
                assert!(down == up || down.next_up() == up, "{down:e} {up:e}");
                let zero = f(a, b, c, Mode::Zero);
                assert_eq!(zero, if nearest > 0.0 { down } else { up });
            }
        }
    }

    #[test]
    fn overflow_stops_at_the_largest_number() {
        assert_eq!(mul64(1e200, 1e200, Mode::Zero), f64::MAX);
        assert_eq!(mul64(1e200, 1e200, Mode::Up), f64::INFINITY);
        assert_eq!(mul32(1e30, 1e30, Mode::Down), f32::MAX);
        assert_eq!(div32(1.0, 0.0, Mode::Zero), f32::INFINITY);
    }
}
