//! Conversions.
//!
//! A conversion is up to three steps: the source widened to 32 or 64 bits, the conversion itself, and the result
//! narrowed to its type and extended to its register.

mod forms;

use forms::{
    NARROW, clamp, each_mode, extend, f32_pair, f32_to_short, f64_to_int, int_to_float, is_signed,
    pair_to_pair, relu_pair, short_to_f32, widen_word,
};

use super::float::{mode, round_to_integral};
use crate::decode::decoder::{Decoded, Decoder};
use crate::lanes::{Bf16, Exec, F16, Slots, lanes};
use crate::numeric::format::Format;
use crate::numeric::{Mode, half, integer, single};
use crate::program::{Cell, File};
use ptx::{Cvt, CvtPack, Dest, Operand, Rounding, Type, Visit};

impl Visit<Cvt> for Decoder<'_> {
    fn visit(&mut self, i: &Cvt) -> Decoded {
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
}

impl Decoder<'_> {
    fn unsupported(i: &Cvt) -> String {
        format!(
            "the emulator does not support this conversion from .{} to .{}",
            i.src_ty.text(),
            i.dst_ty.text()
        )
    }

    /// A new slot with the result of `exec` on slot `a`.
    fn step(&mut self, exec: Exec, file: File, a: u32) -> u32 {
        let d = self.new_slots(file, 1);
        self.lanes(exec, Slots::unary(d, a));
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
        let slots = Slots::unary(cell.slot, slot);
        self.lanes(exec, slots);
        if !narrow {
            self.note_copy((exec, slots), [cell.file, file], true);
        }
        Ok(())
    }

    fn cvt_integers(&mut self, i: &Cvt) -> Decoded {
        let mut slot = self.cvt_source(i)?;
        let mut file = Self::file(i.src_ty);
        if file == File::Word && (i.dst_ty.bits() == 64 || i.sat) {
            let (signed, from) = (is_signed(i.src_ty), slot);
            let exec = widen_word(signed);
            slot = self.step(exec, File::Double, from);
            let step = (exec, Slots::unary(slot, from));
            self.note_copy(step, [File::Double, File::Word], signed);
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
        self.lanes(exec, Slots::unary(d, slot));
        self.saturate_float(i, d)
    }

    fn saturate_float(&mut self, i: &Cvt, d: u32) -> Decoded {
        let in_place = Slots::unary(d, d);
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
            self.lanes(exec, Slots::unary(d, a));
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
            (Type::Tf32, Type::F32) => {
                forms::f32_to_tf32(i.rounding).ok_or_else(|| Self::unsupported(i))?
            }
            (Type::F32, src) => short_to_f32(src).ok_or_else(|| Self::unsupported(i))?,
            (dst, Type::F32) => f32_to_short(dst, mode(i.rounding), i.satfinite)
                .ok_or_else(|| Self::unsupported(i))?,
            _ => return self.cvt_short_floats(i, slot, d),
        };
        self.lanes(exec, Slots::unary(d, slot));
        if i.ftz && i.dst_ty == Type::F32 {
            self.lanes(
                lanes!(|a: f32| -> f32 { single::flush(single::canonical(a)) }),
                Slots::unary(d, d),
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
        self.lanes(exec, Slots::unary(d, slot));
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
        self.lanes(exec, Slots::binary(d, a, b));
        Ok(())
    }
}

impl Visit<CvtPack> for Decoder<'_> {
    /// Two integers, clamped, below the low bits of c.
    fn visit(&mut self, i: &CvtPack) -> Decoded {
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
            _ => return Err("the emulator does not support this cvt.pack".to_owned()),
        };
        let (a, b) = (self.source(i.a, Type::S32)?, self.source(i.b, Type::S32)?);
        let c = self.source(i.c.unwrap_or(Operand::Int(0)), Type::B32)?;
        let d = self.target(i.dst, Type::B32)?;
        self.lanes(exec, Slots::ternary(d, a, b, c));
        Ok(())
    }
}
