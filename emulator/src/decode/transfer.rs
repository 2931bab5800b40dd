//! Moves, selections and addresses between state spaces.

use super::decoder::{Decoded, Decoder};
use crate::lanes::{Exec, Slots, lanes};
use crate::program::File;
use crate::program::windows;
use ptx::{
    Cvta, CvtaSpace, Dest, GetCtaRank, Isspacep, Mapa, Mov, Operand, Selp, Slct, Type, Visit,
};

fn copy(file: File) -> Exec {
    match file {
        File::Word => lanes!(|a: u32| -> u32 { a }),
        File::Double => lanes!(|a: u64| -> u64 { a }),
        File::Predicate => |regs, slots, mask| {
            let value = regs.predicates[slots.a as usize];
            regs.put_predicate(slots.d, mask, value);
        },
    }
}

impl Visit<Mov> for Decoder<'_> {
    fn visit(&mut self, mov: &Mov) -> Decoded {
        match (&mov.dst.0[..], &mov.src.0[..]) {
            ([dst], [src]) if mov.ty == Type::B128 => self.move_wide(*dst, *src),
            ([dst], [src]) => {
                let a = self.move_source(*src, mov.ty)?;
                let d = self.target(*dst, mov.ty)?;
                let file = Self::file(mov.ty);
                let step = (copy(file), Slots::unary(d, a));
                self.lanes(step.0, step.1);
                // A number without a sign may have wrapped.
                if mov.ty.bits() >= 32 && mov.ty != Type::U32 {
                    self.note_copy(step, [file, file], true);
                }
                Ok(())
            }
            ([dst], sources) => self.pack(mov.ty, *dst, sources),
            (dsts, [src]) => self.unpack(mov.ty, dsts, *src),
            _ => Err("a move between two lists of registers".to_owned()),
        }
    }
}

impl Decoder<'_> {
    /// An address may be 64 bits wide in a register of 32 (`mov.u32 %r, smem`), as all shared ones fit.
    fn move_source(&mut self, operand: Operand, ty: Type) -> Decoded<u32> {
        self.source(operand, ty)
    }

    fn move_wide(&mut self, dst: Dest, src: Operand) -> Decoded {
        let (Some(dst), Some(src)) = (dst.reg(), src.reg()) else {
            return Err("a 128-bit move needs two registers".to_owned());
        };
        let ((_, d), (_, a)) = (self.register(dst)?, self.register(src)?);
        for half in 0..2 {
            self.lanes(copy(File::Double), Slots::unary(d + half, a + half));
        }
        Ok(())
    }

    /// `mov.b32 d, {a, b}`: the first part becomes the low bits.
    fn pack(&mut self, ty: Type, dst: Dest, sources: &[Operand]) -> Decoded {
        let part_bits = ty.bits() / sources.len() as u32;
        if ty == Type::B128 {
            let Some((_, d)) = dst.reg().map(|reg| self.register(reg)).transpose()? else {
                return Ok(());
            };
            for (half, &source) in sources.iter().enumerate() {
                let a = self.source(source, Type::B64)?;
                self.lanes(copy(File::Double), Slots::unary(d + half as u32, a));
            }
            return Ok(());
        }
        let exec = match (ty.bits(), sources.len()) {
            (32, 2) => lanes!(|a: u16, b: u16| -> u32 { u32::from(a) | u32::from(b) << 16 }),
            (32, 4) => lanes!(|a: u16, b: u16, c: u16, e: u16| -> u32 {
                u32::from(a & 0xff)
                    | u32::from(b & 0xff) << 8
                    | u32::from(c & 0xff) << 16
                    | u32::from(e & 0xff) << 24
            }),
            (16, 2) => lanes!(|a: u16, b: u16| -> u16 { a & 0xff | b << 8 }),
            (64, 2) => lanes!(|a: u32, b: u32| -> u64 { u64::from(a) | u64::from(b) << 32 }),
            (64, 4) => lanes!(|a: u16, b: u16, c: u16, e: u16| -> u64 {
                u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32 | u64::from(e) << 48
            }),
            _ => return Err("such a list cannot be packed".to_owned()),
        };
        let part = if part_bits == 32 {
            Type::B32
        } else {
            Type::B16
        };
        let mut slots = [0; 4];
        for (slot, &source) in slots.iter_mut().zip(sources) {
            *slot = self.source(source, part)?;
        }
        let d = self.target(dst, ty)?;
        let [a, b, c, e] = slots;
        self.lanes(exec, Slots { d, a, b, c, e });
        Ok(())
    }

    /// `mov.b32 {a, b}, s`: the low bits become the first part.
    fn unpack(&mut self, ty: Type, dsts: &[Dest], src: Operand) -> Decoded {
        if ty == Type::B128 {
            let Some((_, a)) = src.reg().map(|reg| self.register(reg)).transpose()? else {
                return Err("a 128-bit value must be a register".to_owned());
            };
            for (half, &dst) in dsts.iter().enumerate() {
                let d = self.target(dst, Type::B64)?;
                self.lanes(copy(File::Double), Slots::unary(d, a + half as u32));
            }
            return Ok(());
        }
        let a = self.source(src, ty)?;
        // A part may overwrite the source, so that the source is kept first.
        let file = Self::file(ty);
        let kept = self.new_slots(file, 1);
        self.lanes(copy(file), Slots::unary(kept, a));
        let part_bits = ty.bits() / dsts.len() as u32;
        let part = if part_bits == 32 {
            Type::B32
        } else {
            Type::B16
        };
        for (index, &dst) in dsts.iter().enumerate() {
            if dst == Dest::Sink {
                continue;
            }
            let d = self.target(dst, part)?;
            let exec = unpack_part(ty.bits(), part_bits, index)?;
            self.lanes(exec, Slots::unary(d, kept));
        }
        Ok(())
    }
}

impl Visit<Selp> for Decoder<'_> {
    fn visit(&mut self, selp: &Selp) -> Decoded {
        let (b, c) = (self.source(selp.a, selp.ty)?, self.source(selp.b, selp.ty)?);
        let a = self.source(selp.p, Type::Pred)?;
        let d = self.target(selp.dst, selp.ty)?;
        let exec: Exec = match Self::file(selp.ty) {
            File::Word => |regs, slots, mask| {
                let select = crate::lanes::spread(regs.predicates[slots.a as usize]);
                let (yes, no) = (&regs.words[slots.b as usize], &regs.words[slots.c as usize]);
                let mut out = crate::lanes::Lanes32([0; 32]);
                for lane in 0..32 {
                    out.0[lane] = yes.0[lane] & select[lane] | no.0[lane] & !select[lane];
                }
                regs.put32(slots.d, mask, &out);
            },
            File::Double => lanes!(|p: bool, a: u64, b: u64| -> u64 { if p { a } else { b } }),
            File::Predicate => {
                lanes!(|p: bool, a: bool, b: bool| -> bool { if p { a } else { b } })
            }
        };
        let slots = Slots::ternary(d, a, b, c);
        self.lanes(exec, slots);
        if selp.ty.bits() >= 32 {
            self.note_select((exec, slots), Self::file(selp.ty));
        }
        Ok(())
    }
}

impl Visit<Slct> for Decoder<'_> {
    fn visit(&mut self, slct: &Slct) -> Decoded {
        let (a, b) = (self.source(slct.a, slct.ty)?, self.source(slct.b, slct.ty)?);
        let c = self.source(slct.c, slct.c_ty)?;
        let d = self.target(slct.dst, slct.ty)?;
        let is_float = slct.c_ty == Type::F32;
        let exec = match (Self::file(slct.ty), is_float) {
            (File::Word, false) => {
                lanes!(|a: u32, b: u32, c: i32| -> u32 { if c >= 0 { a } else { b } })
            }
            (File::Word, true) => {
                lanes!(|a: u32, b: u32, c: f32| -> u32 { if c >= 0.0 { a } else { b } })
            }
            (_, false) => lanes!(|a: u64, b: u64, c: i32| -> u64 { if c >= 0 { a } else { b } }),
            (_, true) => lanes!(|a: u64, b: u64, c: f32| -> u64 { if c >= 0.0 { a } else { b } }),
        };
        self.lanes(exec, Slots::ternary(d, a, b, c));
        Ok(())
    }
}

impl Decoder<'_> {
    /// A cache policy: the emulator has no caches, and ignores its value.
    pub(crate) fn policy(&mut self, dst: Dest) -> Decoded {
        let a = self.source(Operand::Int(0), Type::B64)?;
        let d = self.target(dst, Type::B64)?;
        self.lanes(copy(File::Double), Slots::unary(d, a));
        Ok(())
    }
}

impl Visit<Cvta> for Decoder<'_> {
    fn visit(&mut self, cvta: &Cvta) -> Decoded {
        let a = self.source(cvta.a, cvta.ty)?;
        let d = self.target(cvta.dst, cvta.ty)?;
        if cvta.ty.bits() != 64 {
            return Err("generic addresses have 64 bits".to_owned());
        }
        let exec = match (cvta.space, cvta.to) {
            (CvtaSpace::Global, _) => copy(File::Double),
            (CvtaSpace::Shared | CvtaSpace::SharedCluster, false) => {
                lanes!(|a: u64| -> u64 { a + windows::SHARED })
            }
            (CvtaSpace::Local, false) => lanes!(|a: u64| -> u64 { a + windows::LOCAL }),
            (CvtaSpace::Const, false) => lanes!(|a: u64| -> u64 { a + windows::CONST }),
            (CvtaSpace::Param, false) => lanes!(|a: u64| -> u64 { a + windows::PARAM }),
            (CvtaSpace::Shared | CvtaSpace::SharedCluster, true) => {
                lanes!(|a: u64| -> u64 { a.wrapping_sub(windows::SHARED) })
            }
            (CvtaSpace::Local, true) => lanes!(|a: u64| -> u64 { a.wrapping_sub(windows::LOCAL) }),
            (CvtaSpace::Const, true) => lanes!(|a: u64| -> u64 { a.wrapping_sub(windows::CONST) }),
            (CvtaSpace::Param, true) => lanes!(|a: u64| -> u64 { a.wrapping_sub(windows::PARAM) }),
        };
        let slots = Slots::unary(d, a);
        self.lanes(exec, slots);
        if cvta.space == CvtaSpace::Global {
            self.note_copy((exec, slots), [File::Double; 2], true);
        }
        Ok(())
    }
}

impl Visit<Isspacep> for Decoder<'_> {
    fn visit(&mut self, isspacep: &Isspacep) -> Decoded {
        let a = self.source(isspacep.a, Type::B64)?;
        let d = self.target(isspacep.dst, Type::Pred)?;
        let exec = match isspacep.space {
            CvtaSpace::Global => {
                lanes!(|a: u64| -> bool { windows::of(a).0 == crate::program::AccessSpace::Global })
            }
            CvtaSpace::Shared => lanes!(|a: u64| -> bool { a >> 24 == windows::SHARED >> 24 }),
            CvtaSpace::SharedCluster => {
                lanes!(|a: u64| -> bool { a >> 32 == windows::SHARED >> 32 })
            }
            CvtaSpace::Local => lanes!(|a: u64| -> bool { a >> 32 == windows::LOCAL >> 32 }),
            CvtaSpace::Const => lanes!(|a: u64| -> bool { a >> 32 == windows::CONST >> 32 }),
            CvtaSpace::Param => lanes!(|a: u64| -> bool { a >> 32 == windows::PARAM >> 32 }),
        };
        self.lanes(exec, Slots::unary(d, a));
        Ok(())
    }
}

fn unpack_part(bits: u32, part_bits: u32, index: usize) -> Decoded<Exec> {
    Ok(match (bits, part_bits, index) {
        (64, 32, 0) => lanes!(|a: u64| -> u32 { a as u32 }),
        (64, 32, 1) => lanes!(|a: u64| -> u32 { (a >> 32) as u32 }),
        (64, 16, 0) => lanes!(|a: u64| -> u16 { a as u16 }),
        (64, 16, 1) => lanes!(|a: u64| -> u16 { (a >> 16) as u16 }),
        (64, 16, 2) => lanes!(|a: u64| -> u16 { (a >> 32) as u16 }),
        (64, 16, 3) => lanes!(|a: u64| -> u16 { (a >> 48) as u16 }),
        (32, 16, 0) => lanes!(|a: u32| -> u16 { a as u16 }),
        (32, 16, 1) => lanes!(|a: u32| -> u16 { (a >> 16) as u16 }),
        (32, 8, 0) => lanes!(|a: u32| -> u16 { (a & 0xff) as u16 }),
        (32, 8, 1) => lanes!(|a: u32| -> u16 { (a >> 8 & 0xff) as u16 }),
        (32, 8, 2) => lanes!(|a: u32| -> u16 { (a >> 16 & 0xff) as u16 }),
        (32, 8, 3) => lanes!(|a: u32| -> u16 { (a >> 24) as u16 }),
        (16, 8, 0) => lanes!(|a: u16| -> u16 { a & 0xff }),
        (16, 8, 1) => lanes!(|a: u16| -> u16 { a >> 8 }),
        _ => return Err("such a value cannot be unpacked".to_owned()),
    })
}

impl Visit<Mapa> for Decoder<'_> {
    /// The address in another CTA: its rank plus one stands above the address (see `program::windows`). A rank that no cluster has room for is that of
    /// a window that no CTA has.
    fn visit(&mut self, i: &Mapa) -> Decoded {
        let (a, b) = (self.source(i.a, i.ty)?, self.source(i.cta, Type::U32)?);
        let d = self.target(i.dst, i.ty)?;
        let exec = if Self::file(i.ty) == File::Double {
            lanes!(|a: u64, cta: u32| -> u64 {
                a & !0xff00_0000 | u64::from(cta.min(0xfe) + 1) << 24
            })
        } else {
            lanes!(|a: u32, cta: u32| -> u32 { a & !0xff00_0000 | (cta.min(0xfe) + 1) << 24 })
        };
        self.lanes(exec, Slots::binary(d, a, b));
        Ok(())
    }
}

impl Visit<GetCtaRank> for Decoder<'_> {
    fn visit(&mut self, i: &GetCtaRank) -> Decoded {
        let a = self.source(i.a, i.ty)?;
        let b = self.source(Operand::Special(ptx::Special::ClusterCtaRank), Type::U32)?;
        let d = self.target(i.dst, Type::U32)?;
        let exec = if Self::file(i.ty) == File::Double {
            lanes!(|a: u64, own: u32| -> u32 {
                if (a >> 24) as u8 == 0 {
                    own
                } else {
                    (a >> 24 & 0xff) as u32 - 1
                }
            })
        } else {
            lanes!(|a: u32, own: u32| -> u32 { if a >> 24 == 0 { own } else { (a >> 24) - 1 } })
        };
        self.lanes(exec, Slots::binary(d, a, b));
        Ok(())
    }
}
