//! `ldexp` on the host, against integers.

use super::host::{Double, Single};
use crate::lang::functions::remainder;

/// `x 2^power`, where the host rounds once: in steps that are exact but the last.
#[test]
fn scaling_rounds_once() {
    for x in [
        1.0_f64,
        -1.5,
        1.999_999_9,
        5e-324,
        1.797e308,
        -3e-310,
        0.0,
        f64::INFINITY,
    ] {
        for power in [
            -2200, -2098, -1100, -1074, -1023, -1022, -3, 0, 7, 1023, 1024, 2000, 2098, 9000,
        ] {
            let power = f64::from(power);
            let found = remainder::ldexp(Double(x), Double(power)).0;
            let wanted = scaled_exactly(x, power as i32);
            assert_eq!(
                found.to_bits(),
                wanted.to_bits(),
                "{x:e} 2^{power}: {found:e}, not {wanted:e}"
            );
            let single = x as f32;
            let found = remainder::ldexp(Single(single), Single(power as f32)).0;
            let wanted = scaled_exactly(single.into(), (power as i32).clamp(-700, 700)) as f32;
            assert_eq!(
                found.to_bits(),
                wanted.to_bits(),
                "{single:e} 2^{power}: {found:e}, not {wanted:e}"
            );
        }
    }
}

/// By integers: the mantissa shifted, with ties to even.
fn scaled_exactly(x: f64, power: i32) -> f64 {
    if x == 0.0 || x.is_infinite() {
        return x;
    }
    let bits = x.abs().to_bits();
    let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
    let (mantissa, exponent) = if exponent == 0 {
        let shift = fraction.leading_zeros() as i32 - 11;
        (fraction << shift, 1 - shift)
    } else {
        (fraction | 1 << 52, exponent)
    };
    let exponent = exponent.saturating_add(power);
    let magnitude = if exponent >= 2047 {
        f64::INFINITY
    } else if exponent >= 1 {
        f64::from_bits((exponent as u64) << 52 | mantissa & ((1 << 52) - 1))
    } else {
        let down = (1 - exponent).min(63) as u32;
        let (kept, cut) = (mantissa >> down, mantissa & ((1 << down) - 1));
        let half = 1_u64 << (down - 1);
        let is_up = cut > half || cut == half && kept & 1 == 1;
        f64::from_bits(kept + u64::from(is_up))
    };
    magnitude.copysign(x)
}
