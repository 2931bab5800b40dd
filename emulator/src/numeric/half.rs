//! Fast conversions of the 16-bit formats, which run for every lane of every access.

use super::Mode;
use super::format::Format;

/// The value of an f16 pattern; exact, without a branch, so that lane loops become vector code.
#[inline(always)]
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff) << 13;
    // Scaling by 2^112 moves the exponent's bias and makes subnormals normal.
    let scaled = f32::from_bits(magnitude) * f32::from_bits(0x7780_0000);
    let special = if bits & 0x7c00 == 0x7c00 {
        0x7f80_0000
    } else {
        0
    };
    f32::from_bits(scaled.to_bits() | special | u32::from(bits & 0x8000) << 16)
}

/// The value of a bf16 pattern; exact.
#[inline(always)]
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds to the nearest bf16, ties to even; NaN becomes `0x7fff`.
#[inline(always)]
pub(crate) fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    if value.is_nan() {
        0x7fff
    } else {
        rounded as u16
    }
}

/// Rounds to the nearest f16, ties to even; NaN becomes `0x7fff`.
#[inline(always)]
pub(crate) fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let normal =
        (magnitude.wrapping_add(0x0fff + (magnitude >> 13 & 1)) >> 13).wrapping_sub(0x1c000);
    // Adding one half puts the last bit of a subnormal f16 at the last bit of the f32, which rounds it.
    let subnormal = (f32::from_bits(magnitude) + 0.5)
        .to_bits()
        .wrapping_sub(0x3f00_0000);
    let finite = if magnitude < 0x3880_0000 {
        subnormal
    } else {
        normal
    };
    let rounded = if magnitude >= 0x477f_f000 {
        0x7c00
    } else {
        finite
    };
    if value.is_nan() {
        0x7fff
    } else {
        sign | rounded as u16
    }
}

/// Rounds an f64 that is exact or rounded to odd to the nearest f16.
#[inline(always)]
pub(crate) fn f64_to_f16(value: f64) -> u16 {
    Format::F16.round(value, Mode::NearestEven) as u16
}

/// Rounds an f64 that is exact or rounded to odd to the nearest bf16.
#[inline(always)]
pub(crate) fn f64_to_bf16(value: f64) -> u16 {
    Format::BF16.round(value, Mode::NearestEven) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widening_agrees_with_the_general_format() {
        for bits in 0..=u16::MAX {
            let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
            assert!(
                same(f16_to_f32(bits).into(), Format::F16.widen(bits.into())),
                "{bits:#x}"
            );
            assert!(
                same(bf16_to_f32(bits).into(), Format::BF16.widen(bits.into())),
                "{bits:#x}"
            );
        }
    }

    #[test]
    fn narrowing_agrees_with_the_general_format() {
        let mut bits = 0u32;
        loop {
            let value = f32::from_bits(bits);
            let wide = f64::from(value);
            assert_eq!(
                u32::from(f32_to_f16(value)),
                Format::F16.round(wide, Mode::NearestEven),
                "{bits:#x}"
            );
            assert_eq!(
                u32::from(f32_to_bf16(value)),
                Format::BF16.round(wide, Mode::NearestEven),
                "{bits:#x}"
            );
            let (next, wrapped) = bits.overflowing_add(4093);
            if wrapped {
                return;
            }
            bits = next;
        }
    }
}
