//! Instructions whose result depends on their operands alone: each is computed once where it is known already.

use ptx::{
    Binary, BinaryOp, Compare, Cvt, Inst, Mov, Operand, PairDest, Reg, RegClass, Rounding, Selp,
    Setp, Ternary, TernaryOp, Type, Unary, UnaryOp,
};

use super::Code;
use super::key::{Key, Kind, key};

impl Code {
    /// The register that holds what `key` says, computed by `make` unless it is known.
    pub(in crate::emit) fn pure(
        &mut self,
        key: Key,
        class: RegClass,
        make: impl FnOnce(Reg) -> Inst,
    ) -> Reg {
        if let Some(reg) = self.known(&key) {
            return reg;
        }
        let reg = self.reg(class);
        self.push(make(reg));
        self.remember(key, reg);
        reg
    }

    /// Two registers that one instruction writes.
    pub(in crate::emit) fn pure_pair(
        &mut self,
        keys: [Key; 2],
        class: RegClass,
        make: impl FnOnce(Reg, Reg) -> Inst,
    ) -> [Reg; 2] {
        if let (Some(first), Some(second)) = (self.known(&keys[0]), self.known(&keys[1])) {
            return [first, second];
        }
        let regs = [self.reg(class), self.reg(class)];
        self.push(make(regs[0], regs[1]));
        self.remember(keys[0], regs[0]);
        self.remember(keys[1], regs[1]);
        regs
    }

    pub(in crate::emit) fn binary(
        &mut self,
        op: BinaryOp,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
    ) -> Reg {
        self.binary_with(Binary::new(op, ty, ptx::Dest::Sink, a, b))
    }

    /// The same with modifiers; the destination is filled in.
    pub(in crate::emit) fn binary_with(&mut self, inst: Binary) -> Reg {
        let class = inst.op.result_class(inst.ty);
        let detail = u32::from(inst.ftz)
            | u32::from(inst.nan) << 1
            | u32::from(inst.sat) << 2
            | u32::from(inst.relu) << 3
            | u32::from(inst.xorsign_abs) << 16
            | inst.precision.map_or(0, |p| 1 + p as u32) << 4
            | inst.rounding.map_or(0, |r| 1 + r as u32) << 8;
        let key = key(
            Kind::Binary,
            inst.op as u8,
            inst.ty,
            detail,
            &[inst.a, inst.b],
        );
        self.pure(key, class, |reg| {
            Binary {
                dst: reg.into(),
                ..inst
            }
            .into()
        })
    }

    pub(in crate::emit) fn unary(&mut self, op: UnaryOp, ty: Type, a: impl Into<Operand>) -> Reg {
        self.unary_with(Unary::new(op, ty, ptx::Dest::Sink, a))
    }

    pub(in crate::emit) fn unary_with(&mut self, inst: Unary) -> Reg {
        let class = RegClass::of(inst.op.result_type(inst.ty));
        let detail = u32::from(inst.ftz)
            | u32::from(inst.approx) << 1
            | inst.rounding.map_or(0, |r| 1 + r as u32) << 8;
        let key = key(Kind::Unary, inst.op as u8, inst.ty, detail, &[inst.a]);
        self.pure(key, class, |reg| {
            Unary {
                dst: reg.into(),
                ..inst
            }
            .into()
        })
    }

    pub(in crate::emit) fn ternary(
        &mut self,
        op: TernaryOp,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        c: impl Into<Operand>,
    ) -> Reg {
        self.ternary_with(Ternary::new(op, ty, ptx::Dest::Sink, a, b, c))
    }

    pub(in crate::emit) fn ternary_with(&mut self, inst: Ternary) -> Reg {
        let class = inst.op.result_class(inst.ty);
        let detail = u32::from(inst.ftz)
            | u32::from(inst.sat) << 1
            | u32::from(inst.relu) << 2
            | inst.rounding.map_or(0, |r| 1 + r as u32) << 8;
        let key = key(
            Kind::Ternary,
            inst.op as u8,
            inst.ty,
            detail,
            &[inst.a, inst.b, inst.c],
        );
        self.pure(key, class, |reg| {
            Ternary {
                dst: reg.into(),
                ..inst
            }
            .into()
        })
    }

    /// `a * b + c` in one rounding.
    pub(in crate::emit) fn fma(
        &mut self,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        c: impl Into<Operand>,
    ) -> Reg {
        let inst = Ternary::new(TernaryOp::Fma, ty, ptx::Dest::Sink, a, b, c);
        self.ternary_with(Ternary {
            rounding: Some(Rounding::Rn),
            ..inst
        })
    }

    pub(in crate::emit) fn setp(
        &mut self,
        compare: Compare,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
    ) -> Reg {
        let (a, b) = (a.into(), b.into());
        let key = key(Kind::Compare, compare as u8, ty, 0, &[a, b]);
        self.pure(key, RegClass::Pred, |reg| {
            Setp::new(compare, ty, PairDest::from(reg), a, b).into()
        })
    }

    pub(in crate::emit) fn selp(
        &mut self,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        p: Reg,
    ) -> Reg {
        let (a, b) = (a.into(), b.into());
        let key = key(Kind::Select, 0, ty, 0, &[a, b, p.into()]);
        self.pure(key, RegClass::of(ty), |reg| {
            Selp::new(ty, reg, a, b, p).into()
        })
    }

    /// A conversion; its destination is filled in.
    pub(in crate::emit) fn cvt(&mut self, inst: Cvt) -> Reg {
        let class = RegClass::of(inst.dst_ty);
        let detail = inst.src_ty as u32
            | inst.rounding.map_or(0, |r| 1 + r as u32) << 8
            | u32::from(inst.ftz) << 16
            | u32::from(inst.sat) << 17
            | u32::from(inst.satfinite) << 18
            | u32::from(inst.relu) << 19;
        let second = inst.b.unwrap_or(Operand::Int(0));
        let key = key(
            Kind::Convert,
            u8::from(inst.b.is_some()),
            inst.dst_ty,
            detail,
            &[inst.a, second],
        );
        self.pure(key, class, |reg| {
            Cvt {
                dst: reg.into(),
                ..inst
            }
            .into()
        })
    }

    /// A plain conversion, with a rounding where PTX asks for one.
    pub(in crate::emit) fn convert(
        &mut self,
        to: Type,
        from: Type,
        rounding: Option<Rounding>,
        a: impl Into<Operand>,
    ) -> Reg {
        let inst = Cvt::new(to, from, ptx::Dest::Sink, a);
        self.cvt(Cvt { rounding, ..inst })
    }

    /// A value in a register of its own type.
    pub(in crate::emit) fn mov(&mut self, ty: Type, a: impl Into<Operand>) -> Reg {
        let a = a.into();
        let key = key(Kind::Move, 0, ty, 0, &[a]);
        self.pure(key, RegClass::of(ty), |reg| Mov::new(ty, reg, a).into())
    }

    /// `prmt`: bytes picked out of `b:a`.
    pub(in crate::emit) fn prmt(
        &mut self,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        selector: u32,
    ) -> Reg {
        let (a, b) = (a.into(), b.into());
        let key = key(Kind::Permute, 0, Type::B32, selector, &[a, b]);
        self.pure(key, RegClass::B32, |reg| {
            ptx::Prmt::new(reg, a, b, selector).into()
        })
    }

    /// A word from two 16-bit registers, or a pair of words from a 64-bit one, and the like.
    pub(in crate::emit) fn pack(&mut self, ty: Type, parts: &[Operand]) -> Reg {
        let key = key(Kind::Pack, 0, ty, 0, parts);
        let values: ptx::Values = parts.iter().copied().collect();
        self.pure(key, RegClass::of(ty), |reg| {
            Mov::new(ty, reg, values).into()
        })
    }

    /// The two halves of a register, low first.
    pub(in crate::emit) fn unpack(&mut self, ty: Type, reg: Reg) -> [Reg; 2] {
        let keys = [0, 1].map(|half| key(Kind::Unpack, half, ty, 0, &[reg.into()]));
        let class = if ty.bits() == 64 {
            RegClass::B32
        } else {
            RegClass::B16
        };
        self.pure_pair(keys, class, |low, high| {
            let parts: ptx::Dests = [low, high].into_iter().collect();
            Mov::new(ty, parts, reg).into()
        })
    }
}
