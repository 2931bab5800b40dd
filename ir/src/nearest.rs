//! The 16-bit floats nearest to numbers of 64 bits. The conversions of `half` look at the upper 32 bits alone, and take what
//! lies a little above the middle of two neighbours for the middle.

use half::{bf16, f16};

/// The nearest binary16, ties to even.
pub fn nearest_f16(value: f64) -> f16 {
    f16::from_f32(rounded_to_odd(value))
}

/// The nearest bfloat16, ties to even.
pub fn nearest_bf16(value: f64) -> bf16 {
    bf16::from_f32(rounded_to_odd(value))
}

/// One of the two neighbouring binary32 numbers: where it is not exact, the one whose last bit is set. No shorter number, and
/// no middle of two, has that bit, so that what is rounded next is rounded as if it were exact.
fn rounded_to_odd(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near).to_bits() == value.to_bits() || !near.is_finite() {
        return near;
    }
    let is_above = f64::from(near).abs() > value.abs();
    f32::from_bits((near.to_bits() - u32::from(is_above)) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Between two neighbours, the middle goes to the even one and the least more or less to the nearer one.
    fn check(low: f64, high: f64, is_low_even: bool, nearest: impl Fn(f64) -> f64) {
        let check = |x: f64, wanted: f64| assert_eq!(nearest(x).to_bits(), wanted.to_bits(), "{x}");
        let middle = f64::midpoint(low, high);
        check(low, low);
        check(middle.next_down(), low);
        check(middle, if is_low_even { low } else { high });
        check(middle.next_up(), high);
        check(-middle.next_up(), -high);
    }

    #[test]
    fn neighbours_of_the_middle_are_distinguished_from_it() {
        for bits in 0..0x7bff_u16 {
            let of = |bits| f16::from_bits(bits).to_f64();
            let nearest = |x| nearest_f16(x).to_f64();
            check(of(bits), of(bits + 1), bits & 1 == 0, nearest);
        }
        for bits in 0..0x7f7f_u16 {
            let of = |bits| bf16::from_bits(bits).to_f64();
            let nearest = |x| nearest_bf16(x).to_f64();
            check(of(bits), of(bits + 1), bits & 1 == 0, nearest);
        }
    }

    #[test]
    fn the_ends_are_infinite() {
        assert_eq!(nearest_f16(65519.9), f16::MAX);
        assert_eq!(nearest_f16(65520.0), f16::INFINITY);
        assert_eq!(nearest_bf16(-1e300), bf16::NEG_INFINITY);
        assert_eq!(nearest_bf16(f64::MIN_POSITIVE), bf16::ZERO);
        assert!(nearest_f16(f64::NAN).is_nan());
    }
}
