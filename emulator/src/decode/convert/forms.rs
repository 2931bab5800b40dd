//! The steps of conversions, for each combination of types and rounding.

use crate::decode::decoder::Decoded;
use crate::lanes::{Bf16, Exec, F16, lanes};
use crate::numeric::format::Format;
use crate::numeric::{Mode, half, integer, single};
use ptx::{Rounding, Type, TypeKind};

/// One [`Exec`] for each rounding mode.
macro_rules! each_mode {
    ($mode:expr, |$a:ident: $ta:ty, $m:ident| -> $td:ty { $($body:tt)* }) => {
        match $mode {
            Mode::NearestEven => lanes!(|$a: $ta| -> $td { let $m = Mode::NearestEven; $($body)* }),
            Mode::NearestAway => lanes!(|$a: $ta| -> $td { let $m = Mode::NearestAway; $($body)* }),
            Mode::Zero => lanes!(|$a: $ta| -> $td { let $m = Mode::Zero; $($body)* }),
            Mode::Down => lanes!(|$a: $ta| -> $td { let $m = Mode::Down; $($body)* }),
            Mode::Up => lanes!(|$a: $ta| -> $td { let $m = Mode::Up; $($body)* }),
        }
    };
}

pub(super) use each_mode;

pub(super) fn is_signed(ty: Type) -> bool {
    ty.kind() == TypeKind::Signed
}

/// Extends the low bits of a word to 32.
pub(super) fn extend(ty: Type) -> Exec {
    match (ty.bits(), is_signed(ty)) {
        (8, false) => lanes!(|a: u32| -> u32 { a & 0xff }),
        (8, true) => lanes!(|a: u32| -> i32 { i32::from(a as i8) }),
        (16, false) => lanes!(|a: u32| -> u32 { a & 0xffff }),
        (16, true) => lanes!(|a: u32| -> i32 { i32::from(a as i16) }),
        _ => lanes!(|a: u32| -> u32 { a }),
    }
}

/// Clamps a 64-bit integer to the range of `ty`.
pub(super) fn clamp(ty: Type, from_signed: bool) -> Exec {
    macro_rules! form {
        ($to:ty) => {
            if from_signed {
                lanes!(|a: i64| -> i64 {
                    i128::from(a).clamp(<$to>::MIN as i128, <$to>::MAX as i128) as i64
                })
            } else {
                lanes!(|a: u64| -> u64 { u128::from(a).min(<$to>::MAX as u128) as u64 })
            }
        };
    }
    match (ty.bits(), is_signed(ty)) {
        (8, false) => form!(u8),
        (8, true) => form!(i8),
        (16, false) => form!(u16),
        (16, true) => form!(i16),
        (32, false) => form!(u32),
        (32, true) => form!(i32),
        (_, false) => form!(u64),
        (_, true) => form!(i64),
    }
}

pub(super) fn widen_word(signed: bool) -> Exec {
    if signed {
        lanes!(|a: i32| -> i64 { a.into() })
    } else {
        lanes!(|a: u32| -> u64 { a.into() })
    }
}

pub(super) const NARROW: fn() -> Exec = || lanes!(|a: u64| -> u32 { a as u32 });

/// A short float as f32.
pub(super) fn short_to_f32(ty: Type) -> Option<Exec> {
    Some(match ty {
        Type::F16 => lanes!(|a: F16| -> f32 { single::canonical(half::f16_to_f32(a.0)) }),
        Type::Bf16 => lanes!(|a: Bf16| -> f32 { half::bf16_to_f32(a.0) }),
        _ => return None,
    })
}

/// f32 to a short float, in a 16-bit register.
pub(super) fn f32_to_short(ty: Type, mode: Mode, saturate: bool) -> Option<Exec> {
    Some(match (ty, saturate) {
        (Type::F16, false) if mode == Mode::NearestEven => {
            lanes!(|a: f32| -> F16 { F16(half::f32_to_f16(a)) })
        }
        (Type::Bf16, false) if mode == Mode::NearestEven => {
            lanes!(|a: f32| -> Bf16 { Bf16(half::f32_to_bf16(a)) })
        }
        (Type::F16, false) => each_mode!(mode, |a: f32, m| -> F16 {
            F16(Format::F16.round(a.into(), m) as u16)
        }),
        (Type::Bf16, false) => each_mode!(mode, |a: f32, m| -> Bf16 {
            Bf16(Format::BF16.round(a.into(), m) as u16)
        }),
        (Type::F16, true) => {
            each_mode!(mode, |a: f32, m| -> F16 {
                F16(Format::F16.round_saturating(a.into(), m) as u16)
            })
        }
        (Type::Bf16, true) => {
            each_mode!(mode, |a: f32, m| -> Bf16 {
                Bf16(Format::BF16.round_saturating(a.into(), m) as u16)
            })
        }
        _ => return None,
    })
}

/// Two f32 to a packed pair; the first goes to the upper half.
pub(super) fn f32_pair(ty: Type, mode: Mode, saturate: bool) -> Option<Exec> {
    macro_rules! form {
        ($format:expr, $bits:expr, $round:ident, $mode:expr) => {
            lanes!(|a: f32, b: f32| -> u32 {
                $format.$round(f64::from(b), $mode) | $format.$round(f64::from(a), $mode) << $bits
            })
        };
    }
    Some(match (ty, mode, saturate) {
        (Type::F16x2, Mode::NearestEven, false) => lanes!(|a: f32, b: f32| -> u32 {
            u32::from(half::f32_to_f16(b)) | u32::from(half::f32_to_f16(a)) << 16
        }),
        (Type::Bf16x2, Mode::NearestEven, false) => lanes!(|a: f32, b: f32| -> u32 {
            u32::from(half::f32_to_bf16(b)) | u32::from(half::f32_to_bf16(a)) << 16
        }),
        (Type::F16x2, Mode::Zero, false) => form!(Format::F16, 16, round, Mode::Zero),
        (Type::Bf16x2, Mode::Zero, false) => form!(Format::BF16, 16, round, Mode::Zero),
        (Type::F16x2, Mode::NearestEven, true) => {
            form!(Format::F16, 16, round_saturating, Mode::NearestEven)
        }
        (Type::Bf16x2, Mode::NearestEven, true) => {
            form!(Format::BF16, 16, round_saturating, Mode::NearestEven)
        }
        (Type::F16x2, Mode::Zero, true) => form!(Format::F16, 16, round_saturating, Mode::Zero),
        (Type::Bf16x2, Mode::Zero, true) => form!(Format::BF16, 16, round_saturating, Mode::Zero),
        (Type::E4m3x2, Mode::NearestEven, true) => {
            form!(Format::E4M3, 8, round_saturating, Mode::NearestEven)
        }
        (Type::E5m2x2, Mode::NearestEven, true) => {
            form!(Format::E5M2, 8, round_saturating, Mode::NearestEven)
        }
        _ => return None,
    })
}

/// Between packed pairs of f16 and of 8-bit floats.
pub(super) fn pair_to_pair(dst: Type, src: Type) -> Option<Exec> {
    macro_rules! narrow {
        ($format:expr) => {
            lanes!(|a: u32| -> u32 {
                let low = f64::from(half::f16_to_f32(a as u16));
                let high = f64::from(half::f16_to_f32((a >> 16) as u16));
                $format.round_saturating(low, Mode::NearestEven)
                    | $format.round_saturating(high, Mode::NearestEven) << 8
            })
        };
    }
    macro_rules! widen {
        ($format:expr) => {
            lanes!(|a: u32| -> u32 {
                let low = half::f64_to_f16($format.widen(a & 0xff));
                let high = half::f64_to_f16($format.widen(a >> 8 & 0xff));
                u32::from(low) | u32::from(high) << 16
            })
        };
    }
    Some(match (dst, src) {
        (Type::E4m3x2, Type::F16x2) => narrow!(Format::E4M3),
        (Type::E5m2x2, Type::F16x2) => narrow!(Format::E5M2),
        (Type::F16x2, Type::E4m3x2) => widen!(Format::E4M3),
        (Type::F16x2, Type::E5m2x2) => widen!(Format::E5M2),
        _ => return None,
    })
}

/// A 32- or 64-bit integer to a float.
pub(super) fn int_to_float(wide: bool, signed: bool, ty: Type, mode: Mode) -> Option<Exec> {
    macro_rules! form {
        ($from:ty) => {
            match ty {
                Type::F32 => each_mode!(mode, |a: $from, m| -> u32 {
                    integer::int_to_format(a.into(), Format::F32, m)
                }),
                Type::F16 => each_mode!(mode, |a: $from, m| -> u32 {
                    integer::int_to_format(a.into(), Format::F16, m)
                }),
                Type::Bf16 => {
                    each_mode!(mode, |a: $from, m| -> u32 {
                        integer::int_to_format(a.into(), Format::BF16, m)
                    })
                }
                Type::F64 => each_mode!(mode, |a: $from, m| -> f64 {
                    integer::int_to_f64(a.into(), m)
                }),
                _ => return None,
            }
        };
    }
    Some(match (wide, signed) {
        (false, true) if ty == Type::F32 && mode == Mode::NearestEven => {
            lanes!(|a: i32| -> f32 { a as f32 })
        }
        (false, false) if ty == Type::F32 && mode == Mode::NearestEven => {
            lanes!(|a: u32| -> f32 { a as f32 })
        }
        (false, true) => form!(i32),
        (false, false) => form!(u32),
        (true, true) => form!(i64),
        (true, false) => form!(u64),
    })
}

/// An f64 to an integer of at most 64 bits; `wide` says that source or destination has 64 bits, which decides NaN.
pub(super) fn f64_to_int(ty: Type, mode: Mode, from_f64: bool) -> Exec {
    macro_rules! form {
        ($bits:expr, $signed:expr) => {
            if from_f64 {
                each_mode!(mode, |a: f64, m| -> u64 {
                    integer::float_to_int(a, m, $bits, $signed, true)
                })
            } else {
                each_mode!(mode, |a: f64, m| -> u64 {
                    integer::float_to_int(a, m, $bits, $signed, $bits == 64)
                })
            }
        };
    }
    match (ty.bits(), is_signed(ty)) {
        (8, false) => form!(8, false),
        (8, true) => form!(8, true),
        (16, false) => form!(16, false),
        (16, true) => form!(16, true),
        (32, false) => form!(32, false),
        (32, true) => form!(32, true),
        (_, false) => form!(64, false),
        (_, true) => form!(64, true),
    }
}

/// Zeroes what is negative in a pair of f16; NaN stays.
pub(super) fn relu_pair(ty: Type) -> Decoded<Exec> {
    if ty != Type::F16x2 {
        return Err(format!("the emulator has no .relu on .{}", ty.text()));
    }
    Ok(lanes!(|a: u32| -> u32 {
        let one = |half: u32| {
            if half & 0x8000 != 0 && half & 0x7fff <= 0x7c00 {
                0
            } else {
                half
            }
        };
        one(a & 0xffff) | one(a >> 16) << 16
    }))
}

/// tf32 keeps ten bits of the mantissa, in the upper bits of a word.
pub(super) fn f32_to_tf32(rounding: Option<Rounding>) -> Option<Exec> {
    Some(match rounding {
        Some(Rounding::Rna) => lanes!(|a: f32| -> u32 {
            let rounded = a.to_bits().wrapping_add(0x1000) & !0x1fff;
            if a.is_finite() {
                rounded
            } else {
                a.to_bits() & !0x1fff | u32::from(a.is_nan()) << 22
            }
        }),
        Some(Rounding::Rn) => {
            lanes!(|a: f32| -> u32 { crate::numeric::tf32_to_nearest(a.to_bits()) })
        }
        Some(Rounding::Rz) => {
            lanes!(|a: f32| -> u32 { a.to_bits() & !0x1fff | u32::from(a.is_nan()) << 22 })
        }
        _ => return None,
    })
}
