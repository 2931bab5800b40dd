//! Operations on f32 that lane loops use: branch-free, so that the loops become vector code.

use super::exact;

/// The NaN that arithmetic on f32 gives (PTX ISA 9.7.3).
pub(crate) const NAN: u32 = 0x7fff_ffff;

/// Replaces any NaN by the one of the hardware.
#[inline(always)]
pub(crate) fn canonical(value: f32) -> f32 {
    f32::from_bits(if value.is_nan() { NAN } else { value.to_bits() })
}

/// `.ftz`: subnormals become zero with their sign.
#[inline(always)]
pub(crate) fn flush(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 {
        bits & 0x8000_0000
    } else {
        bits
    })
}

/// `.sat`: clamps to [0, 1]; NaN becomes zero.
#[inline(always)]
pub(crate) fn saturate(value: f32) -> f32 {
    let low = if value > 0.0 { value } else { 0.0 };
    if low < 1.0 { low } else { 1.0 }
}

/// The smaller one; a NaN loses against a number, and minus zero is below plus zero.
#[inline(always)]
pub(crate) fn min(a: f32, b: f32) -> f32 {
    let smaller = if a < b { a } else { b };
    let ordered = if a == b {
        f32::from_bits(a.to_bits() | b.to_bits())
    } else {
        smaller
    };
    let number = if b.is_nan() { a } else { ordered };
    canonical(if a.is_nan() { b } else { number })
}

/// The larger one; a NaN loses against a number, and plus zero is above minus zero.
#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> f32 {
    let larger = if a > b { a } else { b };
    let ordered = if a == b {
        f32::from_bits(a.to_bits() & b.to_bits())
    } else {
        larger
    };
    let number = if b.is_nan() { a } else { ordered };
    canonical(if a.is_nan() { b } else { number })
}

/// `min.NaN`: a NaN wins.
#[inline(always)]
pub(crate) fn min_nan(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::from_bits(NAN)
    } else {
        min(a, b)
    }
}

/// `max.NaN`: a NaN wins.
#[inline(always)]
pub(crate) fn max_nan(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::from_bits(NAN)
    } else {
        max(a, b)
    }
}

/// `a * b + c`, rounded once, to nearest.
#[inline(always)]
pub(crate) fn fma(a: f32, b: f32, c: f32) -> f32 {
    exact::fma(f64::from(a), f64::from(b), f64::from(c)) as f32
}

/// `div.approx`: by divisors above 2^126 the reciprocal is lost (PTX ISA 9.7.3.8).
#[inline(always)]
pub(crate) fn div_approx(a: f32, b: f32) -> f32 {
    let is_large = b.abs() > f32::from_bits(0x7e80_0000) && b.is_finite();
    let product = a * if b > 0.0 { 0.0 } else { -0.0 };
    if is_large { product } else { a / b }
}

/// `2^a`, computed in f64 and rounded once.
#[inline(always)]
pub(crate) fn exp2(a: f32) -> f32 {
    let clamped = f64::from(a).clamp(-300.0, 300.0);
    // Adding and taking away 1.5 * 2^52 rounds to an integer, which is also in the low bits of the sum.
    let shifted = clamped + 6_755_399_441_055_744.0;
    let fraction = clamped - (shifted - 6_755_399_441_055_744.0);
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    let x = fraction * std::f64::consts::LN_2;
    // The Taylor series to x^12: its error for |x| <= ln(2)/2 is below 2^-52.
    let mut sum = 1.0 / 479_001_600.0;
    for reciprocal in [
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        sum = sum * x + reciprocal;
    }
    (sum * scale) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp2_is_that_of_f64() {
        for step in -20_000..20_000 {
            let a = step as f32 * 0.008_13;
            let expected = f64::from(a).exp2();
            let error = (f64::from(exp2(a)) - f64::from(expected as f32)).abs();
            let unit = f64::from((expected as f32).next_up()) - f64::from(expected as f32);
            assert!(
                exp2(a) == expected as f32 || error <= unit,
                "{a}: {} {expected}",
                exp2(a)
            );
        }
        assert_eq!(exp2(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp2(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp2(128.0), f32::INFINITY);
        assert_eq!(exp2(-149.0), f32::from_bits(1));
        assert!(exp2(f32::NAN).is_nan());
        for power in -126..128 {
            assert_eq!(exp2(power as f32), 2f32.powi(power));
        }
    }

    #[test]
    fn min_and_max_order_zeros_and_ignore_nans() {
        let nan = f32::NAN;
        assert_eq!(min(0.0, -0.0).to_bits(), (-0.0f32).to_bits());
        assert_eq!(max(-0.0, 0.0).to_bits(), 0);
        assert_eq!(
            (min(nan, 1.0), min(1.0, nan), max(nan, 1.0), max(1.0, nan)),
            (1.0, 1.0, 1.0, 1.0)
        );
        assert_eq!(
            (min(nan, nan).to_bits(), max(nan, nan).to_bits()),
            (NAN, NAN)
        );
        assert_eq!(
            (min_nan(1.0, nan).to_bits(), max_nan(nan, 1.0).to_bits()),
            (NAN, NAN)
        );
        assert_eq!(
            (min(2.0, 3.0), max(2.0, 3.0), min(-2.0, -3.0)),
            (2.0, 3.0, -3.0)
        );
    }

    #[test]
    fn sat_clamps_and_ftz_flushes() {
        assert_eq!(
            (
                saturate(f32::NAN),
                saturate(-1.0),
                saturate(0.25),
                saturate(7.0)
            ),
            (0.0, 0.0, 0.25, 1.0)
        );
        assert_eq!(flush(f32::from_bits(0x8000_0001)).to_bits(), 0x8000_0000);
        assert_eq!(flush(f32::MIN_POSITIVE), f32::MIN_POSITIVE);
    }
}
