//! Conversions.
//!
//! A conversion is up to three steps: the source widened to 32 or 64 bits, the conversion itself, and the result
//! narrowed to its type and extended to its register.

use super::float::{mode, round_to_integral};
use super::{Decoded, Decoder};
use crate::lanes::{Bf16, Exec, F16, Slots, lanes};
use crate::numeric::format::Format;
use crate::numeric::{Mode, half, integer, single};
use crate::program::{Cell, File};
use ptx::{Cvt, CvtPack, Dest, Operand, Rounding, Type, TypeKind};

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

fn is_signed(ty: Type) -> bool {
    ty.kind() == TypeKind::Signed
}

/// Extends the low bits of a word to 32.
fn extend(ty: Type) -> Exec {
    match (ty.bits(), is_signed(ty)) {
        (8, false) => lanes!(|a: u32| -> u32 { a & 0xff }),
        (8, true) => lanes!(|a: u32| -> i32 { i32::from(a as i8) }),
        (16, false) => lanes!(|a: u32| -> u32 { a & 0xffff }),
        (16, true) => lanes!(|a: u32| -> i32 { i32::from(a as i16) }),
        _ => lanes!(|a: u32| -> u32 { a }),
    }
}

/// Clamps a 64-bit integer to the range of `ty`.
fn clamp(ty: Type, from_signed: bool) -> Exec {
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

fn widen_word(signed: bool) -> Exec {
    if signed {
        lanes!(|a: i32| -> i64 { a.into() })
    } else {
        lanes!(|a: u32| -> u64 { a.into() })
    }
}

const NARROW: fn() -> Exec = || lanes!(|a: u64| -> u32 { a as u32 });

/// A short float as f32.
fn short_to_f32(ty: Type) -> Option<Exec> {
    Some(match ty {
        Type::F16 => lanes!(|a: F16| -> f32 { single::canonical(half::f16_to_f32(a.0)) }),
        Type::Bf16 => lanes!(|a: Bf16| -> f32 { half::bf16_to_f32(a.0) }),
        _ => return None,
    })
}

/// f32 to a short float, in a 16-bit register.
fn f32_to_short(ty: Type, mode: Mode, saturate: bool) -> Option<Exec> {
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
fn f32_pair(ty: Type, mode: Mode, saturate: bool) -> Option<Exec> {
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
fn pair_to_pair(dst: Type, src: Type) -> Option<Exec> {
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
fn int_to_float(wide: bool, signed: bool, ty: Type, mode: Mode) -> Option<Exec> {
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
fn f64_to_int(ty: Type, mode: Mode, from_f64: bool) -> Exec {
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
fn relu_pair(ty: Type) -> Decoded<Exec> {
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

impl Decoder<'_> {
    pub(crate) fn cvt(&mut self, i: &Cvt) -> Decoded {
        if let Some(b) = i.b {
            return self.cvt_two(i, b);
        }
        match (i.dst_ty.is_float(), i.src_ty.is_float()) {
            (false, false) => self.cvt_integers(i),
            (true, false) => self.cvt_to_float(i),
            (false, true) => self.cvt_to_integer(i),
            (true, true) => self.cvt_floats(i),
        }
    }

    fn unsupported(i: &Cvt) -> String {
        format!(
            "the emulator has no such conversion from .{} to .{}",
            i.src_ty.text(),
            i.dst_ty.text()
        )
    }

    /// A new slot with the result of `exec` on slot `a`.
    fn step(&mut self, exec: Exec, file: File, a: u32) -> u32 {
        let d = self.new_slots(file, 1);
        self.lanes(
            exec,
            Slots {
                d,
                a,
                ..Slots::default()
            },
        );
        d
    }

    /// The source in a word, or in a double when its type has 64 bits; integers below 32 bits are extended.
    fn cvt_source(&mut self, i: &Cvt) -> Decoded<u32> {
        let cell = self.cell(i.a, i.src_ty)?;
        let wants_double = i.src_ty.bits() == 64;
        let slot = match (cell.file, wants_double) {
            (File::Double, false) => self.step(NARROW(), File::Word, cell.slot),
            _ => cell.slot,
        };
        if !i.src_ty.is_float() && i.src_ty.bits() < 32 {
            return Ok(self.step(extend(i.src_ty), File::Word, slot));
        }
        Ok(slot)
    }

    /// Writes an integer in `slot` of `file` to the destination: narrowed to its type, extended to its register.
    fn cvt_finish(&mut self, dst: Dest, ty: Type, file: File, slot: u32) -> Decoded {
        let Some(reg) = dst.reg() else { return Ok(()) };
        let cell: Cell = self.cell(Operand::Reg(reg), ty)?;
        let narrow = ty.bits() < 64;
        let slot = if narrow && file == File::Double {
            self.step(NARROW(), File::Word, slot)
        } else {
            slot
        };
        let slot = if ty.bits() < 32 {
            self.step(extend(ty), File::Word, slot)
        } else {
            slot
        };
        let exec = match (cell.file, narrow) {
            (File::Double, true) => widen_word(is_signed(ty)),
            (File::Double, false) => lanes!(|a: u64| -> u64 { a }),
            _ if cell.bits == 16 => lanes!(|a: u32| -> u32 { a & 0xffff }),
            _ => lanes!(|a: u32| -> u32 { a }),
        };
        self.lanes(
            exec,
            Slots {
                d: cell.slot,
                a: slot,
                ..Slots::default()
            },
        );
        Ok(())
    }

    fn cvt_integers(&mut self, i: &Cvt) -> Decoded {
        let mut slot = self.cvt_source(i)?;
        let mut file = Self::file(i.src_ty);
        if file == File::Word && (i.dst_ty.bits() == 64 || i.sat) {
            slot = self.step(widen_word(is_signed(i.src_ty)), File::Double, slot);
            file = File::Double;
        }
        if i.sat {
            slot = self.step(clamp(i.dst_ty, is_signed(i.src_ty)), File::Double, slot);
        }
        self.cvt_finish(i.dst, i.dst_ty, file, slot)
    }

    fn cvt_to_float(&mut self, i: &Cvt) -> Decoded {
        let slot = self.cvt_source(i)?;
        let wide = i.src_ty.bits() == 64;
        let exec = int_to_float(wide, is_signed(i.src_ty), i.dst_ty, mode(i.rounding));
        let exec = exec.ok_or_else(|| Self::unsupported(i))?;
        let d = self.target(i.dst, i.dst_ty)?;
        self.lanes(
            exec,
            Slots {
                d,
                a: slot,
                ..Slots::default()
            },
        );
        self.saturate_float(i, d)
    }

    fn saturate_float(&mut self, i: &Cvt, d: u32) -> Decoded {
        let in_place = Slots {
            d,
            a: d,
            ..Slots::default()
        };
        if i.sat {
            let exec = match i.dst_ty {
                Type::F32 => lanes!(|a: f32| -> f32 { single::saturate(a) }),
                Type::F64 => lanes!(|a: f64| -> f64 { if a > 0.0 { a.min(1.0) } else { 0.0 } }),
                Type::F16 => lanes!(|a: F16| -> F16 {
                    F16(half::f32_to_f16(single::saturate(half::f16_to_f32(a.0))))
                }),
                _ => return Err(Self::unsupported(i)),
            };
            self.lanes(exec, in_place);
        }
        if i.relu {
            // The sign bit decides, but a NaN stays (PTX ISA 9.7.9.21).
            let exec = match i.dst_ty {
                Type::F16 => lanes!(|a: u16| -> u16 {
                    if a & 0x8000 != 0 && a & 0x7fff <= 0x7c00 {
                        0
                    } else {
                        a
                    }
                }),
                Type::Bf16 => lanes!(|a: u16| -> u16 {
                    if a & 0x8000 != 0 && a & 0x7fff <= 0x7f80 {
                        0
                    } else {
                        a
                    }
                }),
                _ => return Err(Self::unsupported(i)),
            };
            self.lanes(exec, in_place);
        }
        Ok(())
    }

    fn cvt_to_integer(&mut self, i: &Cvt) -> Decoded {
        let slot = self.cvt_source(i)?;
        let mode = mode(i.rounding);
        if i.src_ty == Type::F32 && mode == Mode::Zero && matches!(i.dst_ty, Type::S32 | Type::U32)
        {
            let exec = if i.dst_ty == Type::S32 {
                lanes!(|a: f32| -> i32 { a as i32 })
            } else {
                lanes!(|a: f32| -> u32 { a as u32 })
            };
            let whole = self.step(exec, File::Word, slot);
            return self.cvt_finish(i.dst, i.dst_ty, File::Word, whole);
        }
        let wide = match i.src_ty {
            Type::F64 => slot,
            Type::F32 if i.ftz => self.step(
                lanes!(|a: f32| -> f64 { f64::from(single::flush(a)) }),
                File::Double,
                slot,
            ),
            Type::F32 => self.step(lanes!(|a: f32| -> f64 { a.into() }), File::Double, slot),
            ty => {
                let short = short_to_f32(ty).ok_or_else(|| Self::unsupported(i))?;
                let single = self.step(short, File::Word, slot);
                self.step(lanes!(|a: f32| -> f64 { a.into() }), File::Double, single)
            }
        };
        let whole = self.step(
            f64_to_int(i.dst_ty, mode, i.src_ty == Type::F64),
            File::Double,
            wide,
        );
        self.cvt_finish(i.dst, i.dst_ty, File::Double, whole)
    }

    fn cvt_floats(&mut self, i: &Cvt) -> Decoded {
        if let Some(exec) = pair_to_pair(i.dst_ty, i.src_ty) {
            let mut a = self.source(i.a, i.src_ty)?;
            if i.relu {
                a = self.step(relu_pair(i.src_ty)?, File::Word, a);
            }
            let d = self.target(i.dst, i.dst_ty)?;
            self.lanes(
                exec,
                Slots {
                    d,
                    a,
                    ..Slots::default()
                },
            );
            return Ok(());
        }
        let mut slot = self.cvt_source(i)?;
        if i.ftz && i.src_ty == Type::F32 && i.dst_ty != Type::F64 {
            slot = self.step(
                lanes!(|a: f32| -> f32 { single::flush(a) }),
                File::Word,
                slot,
            );
        }
        let d = self.target(i.dst, i.dst_ty)?;
        let exec = match (i.dst_ty, i.src_ty) {
            (Type::F32, Type::F32) => self.f32_to_f32(i)?,
            (Type::F64, Type::F64) => match mode(i.rounding) {
                mode if i.rounding.is_some() => {
                    each_mode!(mode, |a: f64, m| -> f64 { integer::round_integral(a, m) })
                }
                _ => lanes!(|a: f64| -> f64 { a }),
            },
            (Type::F64, Type::F32) if i.ftz => {
                lanes!(|a: f32| -> f64 { f64::from(single::flush(a)) })
            }
            (Type::F64, Type::F32) => lanes!(|a: f32| -> f64 { a.into() }),
            (Type::F32, Type::F64) => {
                each_mode!(mode(i.rounding), |a: f64, m| -> u32 {
                    Format::F32.narrow(a, m)
                })
            }
            (Type::Tf32, Type::F32) => Self::f32_to_tf32(i)?,
            (Type::F32, src) => short_to_f32(src).ok_or_else(|| Self::unsupported(i))?,
            (dst, Type::F32) => f32_to_short(dst, mode(i.rounding), i.satfinite)
                .ok_or_else(|| Self::unsupported(i))?,
            _ => return self.cvt_short_floats(i, slot, d),
        };
        self.lanes(
            exec,
            Slots {
                d,
                a: slot,
                ..Slots::default()
            },
        );
        if i.ftz && i.dst_ty == Type::F32 {
            self.lanes(
                lanes!(|a: f32| -> f32 { single::flush(single::canonical(a)) }),
                Slots {
                    d,
                    a: d,
                    ..Slots::default()
                },
            );
        }
        self.saturate_float(i, d)
    }

    /// f16 and bf16 with f64, and each rounded to an integral value of its own type.
    fn cvt_short_floats(&mut self, i: &Cvt, slot: u32, d: u32) -> Decoded {
        let rounding = mode(i.rounding);
        let exec = match (i.dst_ty, i.src_ty) {
            (Type::F64, Type::F16) => lanes!(|a: F16| -> f64 { half::f16_to_f32(a.0).into() }),
            (Type::F64, Type::Bf16) => lanes!(|a: Bf16| -> f64 { half::bf16_to_f32(a.0).into() }),
            (Type::F16, Type::F64) => {
                each_mode!(rounding, |a: f64, m| -> u32 { Format::F16.narrow(a, m) })
            }
            (Type::Bf16, Type::F64) => {
                each_mode!(rounding, |a: f64, m| -> u32 { Format::BF16.narrow(a, m) })
            }
            (Type::F16, Type::F16) if i.rounding.is_some() => {
                each_mode!(rounding, |a: F16, m| -> F16 {
                    F16(half::f64_to_f16(integer::round_integral(
                        half::f16_to_f32(a.0).into(),
                        m,
                    )))
                })
            }
            (Type::Bf16, Type::Bf16) if i.rounding.is_some() => {
                each_mode!(rounding, |a: Bf16, m| -> Bf16 {
                    Bf16(half::f64_to_bf16(integer::round_integral(
                        half::bf16_to_f32(a.0).into(),
                        m,
                    )))
                })
            }
            (Type::F16, Type::F16) => {
                lanes!(|a: u16| -> u16 { if a & 0x7fff > 0x7c00 { 0x7fff } else { a } })
            }
            (Type::Bf16, Type::Bf16) => {
                lanes!(|a: u16| -> u16 { if a & 0x7fff > 0x7f80 { 0x7fff } else { a } })
            }
            (Type::Bf16, Type::F16) => {
                each_mode!(rounding, |a: F16, m| -> u32 {
                    Format::BF16.round(half::f16_to_f32(a.0).into(), m)
                })
            }
            (Type::F16, Type::Bf16) => {
                each_mode!(rounding, |a: Bf16, m| -> u32 {
                    Format::F16.round(half::bf16_to_f32(a.0).into(), m)
                })
            }
            _ => return Err(Self::unsupported(i)),
        };
        self.lanes(
            exec,
            Slots {
                d,
                a: slot,
                ..Slots::default()
            },
        );
        self.saturate_float(i, d)
    }

    fn f32_to_f32(&mut self, i: &Cvt) -> Decoded<Exec> {
        Ok(match i.rounding {
            Some(rounding @ (Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi)) => {
                round_to_integral(mode(Some(rounding)), i.ftz)
            }
            None => lanes!(|a: f32| -> f32 { a }),
            Some(_) => return Err(Self::unsupported(i)),
        })
    }

    /// tf32 keeps ten bits of the mantissa, in the upper bits of a word.
    fn f32_to_tf32(i: &Cvt) -> Decoded<Exec> {
        Ok(match i.rounding {
            Some(Rounding::Rna) => lanes!(|a: f32| -> u32 {
                let rounded = a.to_bits().wrapping_add(0x1000) & !0x1fff;
                if a.is_finite() {
                    rounded
                } else {
                    a.to_bits() & !0x1fff | u32::from(a.is_nan()) << 22
                }
            }),
            Some(Rounding::Rn) => lanes!(|a: f32| -> u32 {
                let bits = a.to_bits();
                let rounded = bits.wrapping_add(0x0fff + (bits >> 13 & 1)) & !0x1fff;
                if a.is_finite() {
                    rounded
                } else {
                    bits & !0x1fff | u32::from(a.is_nan()) << 22
                }
            }),
            Some(Rounding::Rz) => {
                lanes!(|a: f32| -> u32 { a.to_bits() & !0x1fff | u32::from(a.is_nan()) << 22 })
            }
            _ => return Err(Self::unsupported(i)),
        })
    }

    fn cvt_two(&mut self, i: &Cvt, b: Operand) -> Decoded {
        let exec =
            f32_pair(i.dst_ty, mode(i.rounding), i.satfinite).filter(|_| i.src_ty == Type::F32);
        let exec = exec.ok_or_else(|| Self::unsupported(i))?;
        let (mut a, mut b) = (self.source(i.a, Type::F32)?, self.source(b, Type::F32)?);
        if i.relu {
            let clamp = lanes!(|a: f32| -> f32 { single::max_nan(a, 0.0) });
            a = self.step(clamp, File::Word, a);
            b = self.step(clamp, File::Word, b);
        }
        let d = self.target(i.dst, i.dst_ty)?;
        self.lanes(
            exec,
            Slots {
                d,
                a,
                b,
                ..Slots::default()
            },
        );
        Ok(())
    }

    /// Two integers, clamped, below the low bits of c.
    pub(crate) fn cvt_pack(&mut self, i: &CvtPack) -> Decoded {
        let exec = match (i.dst_ty, i.c_ty) {
            (Type::U16, None) => lanes!(|a: i32, b: i32| -> u32 {
                (a.clamp(0, 0xffff) as u32) << 16 | b.clamp(0, 0xffff) as u32
            }),
            (Type::S16, None) => lanes!(|a: i32, b: i32| -> u32 {
                (a.clamp(-0x8000, 0x7fff) as u32) << 16 | b.clamp(-0x8000, 0x7fff) as u32 & 0xffff
            }),
            (Type::U8, Some(_)) => lanes!(|a: i32, b: i32, c: u32| -> u32 {
                c << 16 | (a.clamp(0, 255) as u32) << 8 | b.clamp(0, 255) as u32
            }),
            (Type::S8, Some(_)) => lanes!(|a: i32, b: i32, c: u32| -> u32 {
                c << 16 | (a.clamp(-128, 127) as u32 & 0xff) << 8 | b.clamp(-128, 127) as u32 & 0xff
            }),
            _ => return Err("the emulator has no such cvt.pack".to_owned()),
        };
        let (a, b) = (self.source(i.a, Type::S32)?, self.source(i.b, Type::S32)?);
        let c = self.source(i.c.unwrap_or(Operand::Int(0)), Type::B32)?;
        let d = self.target(i.dst, Type::B32)?;
        self.lanes(exec, Slots { d, a, b, c, e: 0 });
        Ok(())
    }
}
