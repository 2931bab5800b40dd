//! PTX statements in the making: registers, scopes in which equal computations share one register, a prologue that runs
//! once, and cold blocks behind the end.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use ptx::{
    Binary, BinaryOp, Compare, Cvt, EntryBuilder, Inst, Instruction, Label, LocId, Mov, Operand,
    PairDest, Predicate, Reg, RegClass, Rounding, Selp, Setp, Stmt, Ternary, TernaryOp, Type,
    Unary, UnaryOp,
};

use super::partition::Partition;

/// What makes two pure instructions equal: everything but the register that they write.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    kind: u8,
    op: u8,
    ty: u8,
    detail: u32,
    operands: [(u8, u64); 3],
}

/// Keys are small and well spread; `SipHash` would cost more than the rest of the emission of an instruction.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

type Known = HashMap<Key, Reg, BuildHasherDefault<KeyHasher>>;

/// The statements of one kernel, in the order in which they will stand.
pub(super) struct Code {
    /// Registers, labels, parameters and places.
    pub(super) entry: EntryBuilder,
    prologue: Vec<Stmt>,
    body: Vec<Stmt>,
    cold: Vec<Stmt>,
    /// Computations that are visible here, the innermost scope last. The first scope is that of the prologue.
    scopes: Vec<Known>,
    into: Target,
    loc: Option<LocId>,
    /// Who runs the statements.
    pub(super) partition: Partition,
}

/// Which list statements go to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Prologue,
    Body,
    Cold,
}

impl Code {
    pub(super) fn new(name: &str, partition: Partition) -> Code {
        Code {
            entry: EntryBuilder::new(name),
            prologue: Vec::new(),
            body: Vec::new(),
            cold: Vec::new(),
            scopes: vec![Known::default(), Known::default()],
            into: Target::Body,
            loc: None,
            partition,
        }
    }

    /// The place of the statements that follow.
    pub(super) fn set_loc(&mut self, loc: Option<LocId>) {
        self.loc = loc;
    }

    fn list(&mut self) -> &mut Vec<Stmt> {
        match self.into {
            Target::Prologue => &mut self.prologue,
            Target::Body => &mut self.body,
            Target::Cold => &mut self.cold,
        }
    }

    /// Appends an instruction.
    pub(super) fn push(&mut self, inst: impl Into<Inst>) {
        self.push_guarded(None, inst);
    }

    /// Appends an instruction that only threads with a true guard execute.
    pub(super) fn push_guarded(&mut self, guard: Option<Predicate>, inst: impl Into<Inst>) {
        // What every thread does once before everything else belongs to no line of the author's.
        let loc = if self.into == Target::Prologue {
            None
        } else {
            self.loc
        };
        let inst = inst.into();
        self.list()
            .push(Stmt::Inst(Instruction { guard, inst, loc }));
    }

    pub(super) fn bind(&mut self, label: Label) {
        self.list().push(Stmt::Label(label));
    }

    /// Asks ptxas to leave the loop whose label stands before as it is.
    pub(super) fn keep_rolled(&mut self) {
        self.list().push(Stmt::Pragma("nounroll".into()));
    }

    pub(super) fn label(&mut self, hint: &str) -> Label {
        self.entry.new_label(hint)
    }

    pub(super) fn reg(&mut self, class: RegClass) -> Reg {
        self.entry.new_reg(class)
    }

    pub(super) fn class(&self, reg: Reg) -> RegClass {
        self.entry.class(reg)
    }

    /// Runs `make` with statements going to the prologue, where only parameters and special registers are known.
    pub(super) fn in_prologue<T>(&mut self, make: impl FnOnce(&mut Code) -> T) -> T {
        let inner = self.scopes.split_off(1);
        let into = std::mem::replace(&mut self.into, Target::Prologue);
        let result = make(self);
        self.into = into;
        self.scopes.extend(inner);
        result
    }

    /// Opens a scope: what is computed in it is forgotten when it closes.
    pub(super) fn open(&mut self) {
        self.scopes.push(Known::default());
    }

    pub(super) fn close(&mut self) {
        self.scopes.pop();
    }

    /// Runs `make` with statements going behind the end of the kernel, in a scope of their own.
    pub(super) fn in_cold<T>(&mut self, make: impl FnOnce(&mut Code) -> T) -> T {
        let into = std::mem::replace(&mut self.into, Target::Cold);
        self.open();
        let result = make(self);
        self.close();
        self.into = into;
        result
    }

    fn known(&self, key: &Key) -> Option<Reg> {
        self.scopes
            .iter()
            .rev()
            .find_map(|scope| scope.get(key))
            .copied()
    }

    /// Enters that `reg` holds what `key` says.
    pub(super) fn remember(&mut self, key: Key, reg: Reg) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(key, reg);
        }
    }

    /// The register that holds what `key` says, computed by `make` unless it is known.
    pub(super) fn pure(
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
    pub(super) fn pure_pair(
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

    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
    ) -> Reg {
        self.binary_with(Binary::new(op, ty, ptx::Dest::Sink, a, b))
    }

    /// The same with modifiers; the destination is filled in.
    pub(super) fn binary_with(&mut self, inst: Binary) -> Reg {
        let wide = inst.op == BinaryOp::MulWide;
        let class = if wide {
            wide_class(inst.ty)
        } else {
            RegClass::of(inst.ty)
        };
        let detail = u32::from(inst.ftz)
            | u32::from(inst.nan) << 1
            | u32::from(inst.sat) << 2
            | inst.precision.map_or(0, |p| 1 + p as u32) << 4
            | inst.rounding.map_or(0, |r| 1 + r as u32) << 8;
        let key = key(1, inst.op as u8, inst.ty, detail, &[inst.a, inst.b]);
        self.pure(key, class, |reg| {
            Binary {
                dst: reg.into(),
                ..inst
            }
            .into()
        })
    }

    pub(super) fn unary(&mut self, op: UnaryOp, ty: Type, a: impl Into<Operand>) -> Reg {
        self.unary_with(Unary::new(op, ty, ptx::Dest::Sink, a))
    }

    pub(super) fn unary_with(&mut self, inst: Unary) -> Reg {
        let counts = matches!(
            inst.op,
            UnaryOp::Popc | UnaryOp::Clz | UnaryOp::Bfind | UnaryOp::BfindShiftAmount
        );
        let class = if counts {
            RegClass::B32
        } else {
            RegClass::of(inst.ty)
        };
        let detail = u32::from(inst.ftz)
            | u32::from(inst.approx) << 1
            | inst.rounding.map_or(0, |r| 1 + r as u32) << 8;
        let key = key(2, inst.op as u8, inst.ty, detail, &[inst.a]);
        self.pure(key, class, |reg| {
            Unary {
                dst: reg.into(),
                ..inst
            }
            .into()
        })
    }

    pub(super) fn ternary(
        &mut self,
        op: TernaryOp,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        c: impl Into<Operand>,
    ) -> Reg {
        self.ternary_with(Ternary::new(op, ty, ptx::Dest::Sink, a, b, c))
    }

    pub(super) fn ternary_with(&mut self, inst: Ternary) -> Reg {
        let wide = inst.op == TernaryOp::MadWide;
        let class = if wide {
            wide_class(inst.ty)
        } else {
            RegClass::of(inst.ty)
        };
        let detail = u32::from(inst.ftz) | inst.rounding.map_or(0, |r| 1 + r as u32) << 8;
        let key = key(3, inst.op as u8, inst.ty, detail, &[inst.a, inst.b, inst.c]);
        self.pure(key, class, |reg| {
            Ternary {
                dst: reg.into(),
                ..inst
            }
            .into()
        })
    }

    /// `a * b + c` in one rounding.
    pub(super) fn fma(
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

    pub(super) fn setp(
        &mut self,
        compare: Compare,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
    ) -> Reg {
        let (a, b) = (a.into(), b.into());
        let key = key(4, compare as u8, ty, 0, &[a, b]);
        self.pure(key, RegClass::Pred, |reg| {
            Setp::new(compare, ty, PairDest::from(reg), a, b).into()
        })
    }

    pub(super) fn selp(
        &mut self,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        p: Reg,
    ) -> Reg {
        let (a, b) = (a.into(), b.into());
        let key = key(5, 0, ty, 0, &[a, b, p.into()]);
        self.pure(key, RegClass::of(ty), |reg| {
            Selp::new(ty, reg, a, b, p).into()
        })
    }

    /// A conversion; its destination is filled in.
    pub(super) fn cvt(&mut self, inst: Cvt) -> Reg {
        let class = RegClass::of(inst.dst_ty);
        let detail = inst.src_ty as u32
            | inst.rounding.map_or(0, |r| 1 + r as u32) << 8
            | u32::from(inst.ftz) << 16
            | u32::from(inst.sat) << 17
            | u32::from(inst.satfinite) << 18;
        let second = inst.b.unwrap_or(Operand::Int(0));
        let key = key(
            6,
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
    pub(super) fn convert(
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
    pub(super) fn mov(&mut self, ty: Type, a: impl Into<Operand>) -> Reg {
        let a = a.into();
        let key = key(7, 0, ty, 0, &[a]);
        self.pure(key, RegClass::of(ty), |reg| Mov::new(ty, reg, a).into())
    }

    /// `prmt`: bytes picked out of `b:a`.
    pub(super) fn prmt(
        &mut self,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        selector: u32,
    ) -> Reg {
        let (a, b) = (a.into(), b.into());
        let key = key(8, 0, Type::B32, selector, &[a, b]);
        self.pure(key, RegClass::B32, |reg| {
            ptx::Prmt::new(reg, a, b, selector).into()
        })
    }

    /// A word from two 16-bit registers, or a pair of words from a 64-bit one, and the like.
    pub(super) fn pack(&mut self, ty: Type, parts: &[Operand]) -> Reg {
        let key = key(9, 0, ty, 0, parts);
        let values: ptx::Values = parts.iter().copied().collect();
        self.pure(key, RegClass::of(ty), |reg| {
            Mov::new(ty, reg, values).into()
        })
    }

    /// The two halves of a register, low first.
    pub(super) fn unpack(&mut self, ty: Type, reg: Reg) -> [Reg; 2] {
        let keys = [0, 1].map(|half| key(10, half, ty, 0, &[reg.into()]));
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

    /// Copies into a register that may be written more than once.
    pub(super) fn copy(&mut self, to: Reg, from: impl Into<Operand>) {
        let from = from.into();
        if from == Operand::Reg(to) {
            return;
        }
        let ty = move_type(self.class(to));
        self.push(Mov::new(ty, to, from));
    }

    pub(super) fn branch(&mut self, guard: Option<Predicate>, target: Label, is_uniform: bool) {
        let bra = ptx::Bra {
            uniform: is_uniform,
            ..ptx::Bra::new(target)
        };
        self.push_guarded(guard, bra);
    }

    /// The finished kernel.
    pub(super) fn finish(mut self) -> ptx::Entry {
        let lists = [self.prologue, self.body, self.cold];
        for statement in lists.into_iter().flatten() {
            match statement {
                Stmt::Label(label) => self.entry.bind(label),
                Stmt::Pragma(text) => self.entry.pragma(&text),
                Stmt::Comment(text) => self.entry.comment(&text),
                Stmt::Inst(i) => {
                    self.entry.set_loc(i.loc);
                    self.entry.push_guarded(i.guard, i.inst);
                }
            }
        }
        self.entry.finish()
    }

    /// All statements, to clean them up before the end.
    pub(super) fn lists_mut(&mut self) -> [&mut Vec<Stmt>; 3] {
        [&mut self.prologue, &mut self.body, &mut self.cold]
    }
}

/// The type that `mov` names for a register of a class.
pub(super) fn move_type(class: RegClass) -> Type {
    match class {
        RegClass::Pred => Type::Pred,
        RegClass::B16 => Type::B16,
        RegClass::B32 => Type::B32,
        RegClass::B64 => Type::B64,
        RegClass::B128 => Type::B128,
        RegClass::F32 => Type::F32,
        RegClass::F64 => Type::F64,
    }
}

fn wide_class(ty: Type) -> RegClass {
    if ty.bits() == 16 {
        RegClass::B32
    } else {
        RegClass::B64
    }
}

pub(super) fn key(kind: u8, op: u8, ty: Type, detail: u32, operands: &[Operand]) -> Key {
    let mut all = [(0, 0); 3];
    for (to, from) in all.iter_mut().zip(operands) {
        *to = operand_key(*from);
    }
    Key {
        kind,
        op,
        ty: ty as u8,
        detail,
        operands: all,
    }
}

fn operand_key(operand: Operand) -> (u8, u64) {
    match operand {
        Operand::Reg(reg) => (1, u64::from(reg.0)),
        Operand::Int(value) => (2, value as u64),
        Operand::F32(bits) => (3, u64::from(bits)),
        Operand::F64(bits) => (4, bits),
        Operand::Special(special) => (5, special as u64),
        Operand::Symbol(symbol, offset) => {
            let (kind, index) = match symbol {
                ptx::Symbol::Param(i) => (0, i),
                ptx::Symbol::Return(i) => (1, i),
                ptx::Symbol::Variable(i) => (2, i),
                ptx::Symbol::Global(i) => (3, i),
                ptx::Symbol::Function(i) => (4, i),
            };
            (6 + kind, u64::from(index) | u64::from(offset as u32) << 32)
        }
    }
}

impl Code {
    /// Code behind the end of the kernel that is entered at `label` and goes on at `back`.
    pub(super) fn out_of_line(&mut self, label: Label, back: Label, make: impl FnOnce(&mut Code)) {
        assert!(
            self.into != Target::Cold,
            "cold code has no cold code of its own"
        );
        self.in_cold(|code| {
            code.bind(label);
            make(code);
            code.branch(None, back, false);
        });
    }
}
