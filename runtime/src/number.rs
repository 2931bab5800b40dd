//! Values wide enough to hold any element, for references and comparisons.

use gluon_lang::lang::{E2m1, E4m3, E4m3b15, E5m2, E8m0};
use half::{bf16, f16};
use ir::nearest::{nearest_bf16, nearest_f16};

/// A number that holds every element type's values exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A float; every float type up to `f64` fits.
    Float(f64),
    /// An integer; every integer type up to 64 bits fits.
    Int(i128),
}

impl Number {
    /// The value as a float; integers above 2⁵³ are rounded.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Float(value) => value,
            Number::Int(value) => value as f64,
        }
    }

    /// The value as an integer, if it is one.
    fn to_int(self) -> Option<i128> {
        match self {
            Number::Int(value) => Some(value),
            Number::Float(value) => {
                (value.fract() == 0.0 && value.abs() < 1e30).then_some(value as i128)
            }
        }
    }
}

/// What a reference may be computed in: any number type, the wider the better.
pub trait Reference: Copy + Send {
    /// The value, exactly.
    fn number(self) -> Number;
}

/// How a result is judged in its own type.
pub trait Rounding: Reference {
    /// The value of this type nearest to `number`; none for an integer type that does not hold it.
    fn nearest(number: Number) -> Option<Self>;

    /// Bytes that no kernel writes by chance are all this one: a NaN for floats, a rare pattern for integers.
    const POISON: u8;

    /// Whether every byte is [`POISON`](Rounding::POISON).
    fn is_poison(self) -> bool;

    /// Whether a poisoned element is certain not to have been written: no operation produces a NaN of all ones.
    const POISON_IS_PROOF: bool;

    /// The value's place among the values of its type, so that neighbours differ by 1. NaN has none.
    fn place(self) -> Option<i128>;
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl Reference for $ty {
            fn number(self) -> Number {
                Number::Int(self.into())
            }
        }

        impl Rounding for $ty {
            fn nearest(number: Number) -> Option<Self> {
                <$ty>::try_from(number.to_int()?).ok()
            }

            const POISON: u8 = 0xa5;

            fn is_poison(self) -> bool {
                self.to_ne_bytes().iter().all(|byte| *byte == Self::POISON)
            }

            const POISON_IS_PROOF: bool = false;

            fn place(self) -> Option<i128> {
                Some(self.into())
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

impl Reference for usize {
    fn number(self) -> Number {
        Number::Int(self as i128)
    }
}

macro_rules! floats {
    ($($ty:ty, $bits:ty, $nearest:expr;)*) => {$(
        impl Reference for $ty {
            fn number(self) -> Number {
                Number::Float(self.into())
            }
        }

        impl Rounding for $ty {
            fn nearest(number: Number) -> Option<Self> {
                let nearest: fn(f64) -> $ty = $nearest;
                Some(nearest(number.to_f64()))
            }

            const POISON: u8 = 0xff;

            fn is_poison(self) -> bool {
                self.to_bits() == <$bits>::MAX
            }

            const POISON_IS_PROOF: bool = true;

            fn place(self) -> Option<i128> {
                if self.is_nan() {
                    return None;
                }
                let sign: $bits = 1 << (<$bits>::BITS - 1);
                let magnitude = i128::from(self.to_bits() & !sign);
                Some(if self.to_bits() & sign == 0 { magnitude } else { -magnitude })
            }
        }
    )*};
}

floats! {
    f16, u16, nearest_f16;
    bf16, u16, nearest_bf16;
    f32, u32, |value| value as f32;
    f64, u64, |value| value;
    E4m3, u8, E4m3::from_f64;
    E5m2, u8, E5m2::from_f64;
}

/// Floats of a byte or less whose codes are all numbers, or without a sign in the highest bit.
macro_rules! narrow_floats {
    ($($ty:ty, sign $sign:literal, poison $poison:literal, proof $proof:literal;)*) => {$(
        impl Reference for $ty {
            fn number(self) -> Number {
                Number::Float(self.into())
            }
        }

        impl Rounding for $ty {
            fn nearest(number: Number) -> Option<Self> {
                Some(<$ty>::from_f64(number.to_f64()))
            }

            const POISON: u8 = $poison;

            fn is_poison(self) -> bool {
                self.to_bits() == Self::POISON
            }

            const POISON_IS_PROOF: bool = $proof;

            fn place(self) -> Option<i128> {
                if self.is_nan() {
                    return None;
                }
                let magnitude = i128::from(self.to_bits() & !$sign);
                Some(if self.to_bits() & $sign == 0 { magnitude } else { -magnitude })
            }
        }
    )*};
}

narrow_floats! {
    E4m3b15, sign 0x80, poison 0xa5, proof false;
    // Its byte has no upper half.
    E2m1, sign 0x08, poison 0xf5, proof true;
    E8m0, sign 0x00, poison 0xa5, proof false;
}

impl Reference for bool {
    fn number(self) -> Number {
        Number::Int(self.into())
    }
}

impl Rounding for bool {
    fn nearest(number: Number) -> Option<Self> {
        match number.to_int()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Reads back as true, so an untouched element shows only where false is expected.
    const POISON: u8 = 0xa5;

    fn is_poison(self) -> bool {
        self
    }

    const POISON_IS_PROOF: bool = false;

    fn place(self) -> Option<i128> {
        Some(self.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_kept_exactly_and_out_of_range_is_none() {
        assert_eq!(u64::nearest(u64::MAX.number()), Some(u64::MAX));
        assert_eq!(i64::nearest(i64::MIN.number()), Some(i64::MIN));
        assert_eq!(i8::nearest(Number::Int(128)), None);
        assert_eq!(i32::nearest(Number::Float(3.0)), Some(3));
        assert_eq!(i32::nearest(Number::Float(3.5)), None);
        assert_eq!(i32::nearest(Number::Float(f64::NAN)), None);
        assert_eq!(bool::nearest(Number::Int(2)), None);
    }

    #[test]
    fn floats_round_to_nearest_even() {
        let half_way = 1.0 + f64::from(bf16::EPSILON) / 2.0;
        assert_eq!(
            bf16::nearest(Number::Float(half_way)),
            Some(bf16::from_f32(1.0))
        );
        assert_eq!(f32::nearest(Number::Float(1.0 + 2f64.powi(-24))), Some(1.0));
        assert_eq!(f16::nearest(Number::Float(65_520.0)), Some(f16::INFINITY));
        assert_eq!(f16::nearest(Number::Float(65_519.9)), Some(f16::MAX));
    }

    #[test]
    fn eight_bit_floats_are_judged_like_the_others() {
        assert_eq!(
            E4m3::nearest(Number::Float(1.0625)).map(E4m3::to_f32),
            Some(1.0),
            "ties to even"
        );
        assert_eq!(
            E4m3::nearest(Number::Int(-500)).map(E4m3::to_f32),
            Some(-448.0)
        );
        assert!(E4m3::from_bits(0xff).is_poison() && E5m2::from_bits(0xff).is_poison());
        assert_eq!(
            E2m1::nearest(Number::Float(2.5)).map(E2m1::to_f32),
            Some(2.0)
        );
        assert_eq!(E2m1::from_f32(-3.0).place(), Some(-5));
        assert_eq!(E8m0::nearest(Number::Int(-6)).map(E8m0::to_f32), Some(8.0));
        assert_eq!(E8m0::from_f32(8.0).place(), Some(130));
        assert_eq!(E4m3b15::from_f32(-1.875).place(), Some(-127));
        let next = |x: f32| E5m2::from_f32(x).place();
        assert_eq!(next(1.25).zip(next(1.0)).map(|(a, b)| a - b), Some(1));
    }

    #[test]
    fn neighbours_differ_by_one_across_zero_too() {
        assert_eq!(0.0f32.place(), (-0.0f32).place());
        assert_eq!(f32::from_bits(1).place(), Some(1));
        assert_eq!((-f32::from_bits(1)).place(), Some(-1));
        assert_eq!(
            f16::from_bits(0x3c01).place().unwrap() - f16::ONE.place().unwrap(),
            1
        );
        assert_eq!(f32::NAN.place(), None);
    }

    #[test]
    fn poison_is_recognised() {
        assert!(f32::from_bits(u32::MAX).is_poison() && f32::from_bits(u32::MAX).is_nan());
        assert!(!f32::NAN.is_poison());
        assert!(bf16::from_bits(0xffff).is_poison());
        assert!(i32::from_ne_bytes([0xa5; 4]).is_poison() && !(-1i32).is_poison());
    }
}
