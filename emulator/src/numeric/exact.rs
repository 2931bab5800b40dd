//! Sums, products and quotients that can be rounded once more without harm.
//!
//! A result rounded *to odd* in `f64` still says on which side of every `f32` (or shorter) boundary the exact value
//! lies, so rounding it again gives the correctly rounded value in every mode (53 >= 2 * 24 + 2).

/// The neighbour of `nearest` with an odd last bit that encloses `nearest + error`, or `nearest` when that is exact.
#[inline(always)]
pub(crate) fn to_odd(nearest: f64, error: f64) -> f64 {
    let bits = nearest.to_bits();
    let inexact = error != 0.0 && error.is_finite() && nearest.is_finite();
    let step = if (error > 0.0) == (nearest > 0.0) {
        1
    } else {
        u64::MAX
    };
    let odd = if bits & 1 == 0 {
        bits.wrapping_add(step)
    } else {
        bits
    };
    if inexact {
        f64::from_bits(odd)
    } else {
        nearest
    }
}

/// `a + b` with the error that rounding made (Knuth's two-sum).
#[inline(always)]
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let virtual_b = sum - a;
    let error = (a - (sum - virtual_b)) + (b - virtual_b);
    (sum, error)
}

/// `a + b`, rounded to odd.
#[inline(always)]
pub(crate) fn add(a: f64, b: f64) -> f64 {
    let (sum, error) = two_sum(a, b);
    to_odd(sum, error)
}

/// `a * b + c` for values whose product `f64` holds exactly (`f32` and shorter), rounded to odd.
#[inline(always)]
pub(crate) fn fma(a: f64, b: f64, c: f64) -> f64 {
    add(a * b, c)
}

/// `a / b` for `f32` values, rounded to odd.
pub(crate) fn div(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    let remainder = (-quotient).mul_add(b, a);
    to_odd(quotient, if b < 0.0 { -remainder } else { remainder })
}

/// The square root of an `f32` value, rounded to odd.
pub(crate) fn sqrt(a: f64) -> f64 {
    let root = a.sqrt();
    to_odd(root, (-root).mul_add(root, a))
}

/// `value + error` in `mode`, given `value` rounded to nearest and the sign of the error.
pub(crate) fn adjust(value: f64, error: f64, mode: super::Mode) -> f64 {
    use super::Mode;
    if error == 0.0 || error.is_nan() || !value.is_finite() {
        return value;
    }
    match mode {
        Mode::Down if error < 0.0 => value.next_down(),
        Mode::Up if error > 0.0 => value.next_up(),
        Mode::Zero if value > 0.0 && error < 0.0 => value.next_down(),
        Mode::Zero if value < 0.0 && error > 0.0 => value.next_up(),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Mode, format::Format};
    use super::*;

    fn random_f32(state: &mut u64) -> f32 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let bits = (*state >> 32) as u32;
        // Exponents close to one another make rounding interesting.
        let exponent = if *state & 0x100 == 0 {
            100 + (bits >> 23) % 50
        } else {
            bits >> 23 & 0xff
        };
        f32::from_bits(bits & 0x807f_ffff | exponent << 23)
    }

    #[test]
    fn results_rounded_twice_are_those_of_the_host() {
        let mut state = 7;
        for _ in 0..300_000 {
            let (a, b, c) = (
                random_f32(&mut state),
                random_f32(&mut state),
                random_f32(&mut state),
            );
            let [x, y, z] = [a, b, c].map(f64::from);
            let check = |name: &str, ours: f64, host: f32| {
                let same = ours as f32 == host || (ours.is_nan() && host.is_nan());
                assert!(same, "{name} {a:e} {b:e} {c:e}: {ours:e} {host:e}");
            };
            check("fma", fma(x, y, z), a.mul_add(b, c));
            check("add", add(x, y), a + b);
            check("div", div(x, y), a / b);
            check("sqrt", sqrt(x.abs()), a.abs().sqrt());
        }
    }

    #[test]
    fn directed_roundings_enclose_the_exact_value() {
        let third = div(1.0, 3.0);
        let down = f32::from_bits(Format::F32.round(third, Mode::Down));
        let up = f32::from_bits(Format::F32.round(third, Mode::Up));
        assert_eq!(down.next_up().to_bits(), up.to_bits());
        assert!(f64::from(down) * 3.0 < 1.0 && f64::from(up) * 3.0 > 1.0);
        let tiny = add(1.0, f64::from(f32::from_bits(1)));
        assert_eq!(
            f32::from_bits(Format::F32.round(tiny, Mode::Up)).to_bits(),
            1.0f32.next_up().to_bits()
        );
        assert_eq!(
            f32::from_bits(Format::F32.round(tiny, Mode::Zero)).to_bits(),
            1.0f32.to_bits()
        );
    }
}
