//! Atomic operations, above all on global memory (PTX ISA 9.7.13.5): each element once, by one thread that holds it, and its result
//! broadcast to the others.
//!
//! `.release` and `.acquire` order the accesses of one thread. For those of the partition a barrier stands before a release and
//! after an acquire, since causality order passes through barriers (PTX ISA 8.9).

use ir::elem::{DType, Elem};
use ir::entity::Inst;
use ir::ops::atomic::{AtomicCas, AtomicLoad, AtomicOp, AtomicRmw, AtomicStore, Scope, Semantics};
use ptx::{AccessSem, Addr, AtomOp, Compare, Operand, Predicate, Reg, RegClass, Space, Type};

use super::code::Code;
use super::element::{Element, class};
use super::vector::{Shape, plain_load, plain_store};
use super::{Emitted, Emitter, Lower};

impl Lower for AtomicRmw {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(self.value);
        let (pointers, values) = (cx.elements(self.ptr), cx.elements(self.value));
        let ty = word(self.op, elem);
        let wants_result = cx.is_used(cx.func.result(inst));
        cx.barrier_before_release(self.semantics);
        let plan = cx.global_plan(inst);
        if plan.access.bytes > plan.access.elem_bytes {
            cx.add_runs(self, &plan);
            cx.broadcast_to_copies(inst, Vec::new(), self.scratch);
            return Ok(());
        }
        let mut known = Vec::new();
        for turn in cx.turns(self.ptr, self.mask.expand()) {
            let to = cx.code.address(pointers[turn.register]);
            let value = cx.code.atomic_word(values[turn.register], elem, ty);
            let step = Step {
                semantics: self.semantics,
                scope: self.scope,
                space: Space::Global,
                guard: turn.guard,
                to,
            };
            let old = wants_result.then(|| cx.code.preset(ty, turn.guard));
            cx.code.read_modify_write(self.op, elem, value, &step, old);
            let element = old.map(|old| cx.code.from_atomic_word(old, elem));
            known.extend(element.map(|element| (turn.register, element)));
        }
        let is_synchronized = cx.broadcast_to_copies(inst, known, self.scratch);
        cx.barrier_after_acquire(self.semantics, is_synchronized);
        Ok(())
    }
}

impl Lower for AtomicCas {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(self.value);
        let pointers = cx.elements(self.ptr);
        let (compares, values) = (cx.elements(self.compare), cx.elements(self.value));
        let ty = match elem.bits() {
            16 => Type::B16,
            bits => word_of(bits),
        };
        cx.barrier_before_release(self.semantics);
        let mut known = Vec::new();
        for turn in cx.turns(self.ptr, self.mask.expand()) {
            let to = cx.code.address(pointers[turn.register]);
            let compare = cx.code.atomic_word(compares[turn.register], elem, ty);
            let value = cx.code.atomic_word(values[turn.register], elem, ty);
            let old = cx.code.preset(ty, turn.guard);
            let cas = ptx::Atom {
                sem: Some(access_sem(self.semantics)),
                scope: Some(scope(self.scope)),
                space: Some(Space::Global),
                c: Some(value),
                ..ptx::Atom::new(AtomOp::Cas, ty, old, to, compare)
            };
            cx.code.push_guarded(turn.guard, cas);
            known.push((turn.register, cx.code.from_atomic_word(old, elem)));
        }
        let is_synchronized = cx.broadcast_to_copies(inst, known, self.scratch);
        cx.barrier_after_acquire(self.semantics, is_synchronized);
        Ok(())
    }
}

impl Lower for AtomicLoad {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(cx.func.result(inst));
        let pointers = cx.elements(self.ptr);
        let like = ptx::Ld {
            sem: Some(access_sem(self.semantics)),
            scope: Some(scope(self.scope)),
            ..plain_load(Space::Global)
        };
        let shape = Shape::new(elem, 1);
        let mut known = Vec::new();
        for turn in cx.turns(self.ptr, self.mask.expand()) {
            let from = cx.code.address(pointers[turn.register]);
            let regs = [cx.guarded_result(elem, turn.guard)];
            cx.code.load_into(shape, &regs, from, turn.guard, &like);
            known.push((turn.register, cx.code.vector_elements(shape, &regs)[0]));
        }
        let is_synchronized = cx.broadcast_to_copies(inst, known, self.scratch);
        cx.barrier_after_acquire(self.semantics, is_synchronized);
        Ok(())
    }
}

impl Lower for AtomicStore {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(self.value);
        let (pointers, values) = (cx.elements(self.ptr), cx.elements(self.value));
        let like = ptx::St {
            sem: Some(access_sem(self.semantics)),
            scope: Some(scope(self.scope)),
            ..plain_store(Space::Global)
        };
        cx.barrier_before_release(self.semantics);
        for turn in cx.turns(self.ptr, self.mask.expand()) {
            let to = cx.code.address(pointers[turn.register]);
            let value = [values[turn.register]];
            cx.code
                .store(Shape::new(elem, 1), &value, to, turn.guard, &like);
        }
        Ok(())
    }
}

/// Where and how one atomic step is done.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) semantics: Semantics,
    pub(super) scope: Scope,
    pub(super) space: Space,
    pub(super) guard: Option<Predicate>,
    pub(super) to: Addr,
}

impl Emitter<'_> {
    fn barrier_before_release(&mut self, semantics: Semantics) {
        if matches!(semantics, Semantics::Release | Semantics::AcqRel) {
            self.sync_partition();
        }
    }

    pub(super) fn barrier_after_acquire(&mut self, semantics: Semantics, is_synchronized: bool) {
        if !is_synchronized && matches!(semantics, Semantics::Acquire | Semantics::AcqRel) {
            self.sync_partition();
        }
    }
}

impl Code {
    /// A register for the word that was in memory: 0 in threads that do nothing.
    pub(super) fn preset(&mut self, ty: Type, guard: Option<Predicate>) -> Reg {
        let class = RegClass::of(ty);
        let reg = self.reg(class);
        if guard.is_some() {
            let zero = match class {
                RegClass::F32 => Operand::F32(0),
                RegClass::F64 => Operand::F64(0),
                _ => Operand::Int(0),
            };
            self.copy(reg, zero);
        }
        reg
    }

    /// Does one step; what was there goes to `old` if that is given.
    pub(super) fn read_modify_write(
        &mut self,
        op: AtomicOp,
        elem: Elem,
        value: Operand,
        step: &Step,
        old: Option<Reg>,
    ) {
        if !is_float_extreme(op, elem) {
            let (op, ty) = operation(op, elem);
            self.atom(op, ty, value, step, old);
            return;
        }
        // Floats of one sign are ordered as integers, those below zero the other way round; and any positive one is above
        // any negative one as a signed integer, and below it as an unsigned one.
        let (signed, unsigned) = if elem.bits() == 64 {
            (Type::S64, Type::U64)
        } else {
            (Type::S32, Type::U32)
        };
        let is_negative = self.setp(Compare::Lt, signed, value, Operand::Int(0));
        let is_positive = self.unary(ptx::UnaryOp::Not, Type::Pred, is_negative);
        let (positive, negative) = if op == AtomicOp::Max {
            (AtomOp::Max, AtomOp::Min)
        } else {
            (AtomOp::Min, AtomOp::Max)
        };
        let ways = [
            (is_positive, positive, signed),
            (is_negative, negative, unsigned),
        ];
        for (sign, op, ty) in ways {
            let guard = step.guard.map_or(sign, |guard| self.both(sign, guard.reg));
            let guard = Some(Predicate::is(guard));
            self.atom(op, ty, value, &Step { guard, ..*step }, old);
        }
    }

    fn atom(&mut self, op: AtomOp, ty: Type, value: Operand, step: &Step, old: Option<Reg>) {
        let is_red = old.is_none()
            && op != AtomOp::Exch
            && matches!(step.semantics, Semantics::Relaxed | Semantics::Release);
        let (sem, space) = (Some(access_sem(step.semantics)), Some(step.space));
        let scope = Some(scope(step.scope));
        if is_red {
            let red = ptx::Red {
                sem,
                scope,
                space,
                ..ptx::Red::new(op, ty, step.to, value)
            };
            self.push_guarded(step.guard, red);
            return;
        }
        let old = old.unwrap_or_else(|| self.reg(RegClass::of(ty)));
        let atom = ptx::Atom {
            sem,
            scope,
            space,
            ..ptx::Atom::new(op, ty, old, step.to, value)
        };
        self.push_guarded(step.guard, atom);
    }

    /// An element in a register of the class that an atomic instruction of this type takes.
    pub(super) fn atomic_word(&mut self, element: Element, elem: Elem, ty: Type) -> Operand {
        match (class(elem), RegClass::of(ty)) {
            (have, wanted) if have == wanted => self.operand(element, elem),
            (_, RegClass::B16) => {
                let operand = self.operand(element, elem);
                self.convert(Type::U16, Type::U32, None, operand).into()
            }
            (_, wanted) => {
                let reg = self.whole(element, elem);
                self.mov_bits(wanted, reg).into()
            }
        }
    }

    /// The element that an atomic instruction left in a register.
    pub(super) fn from_atomic_word(&mut self, reg: Reg, elem: Elem) -> Element {
        match elem {
            Elem::Data(DType::I16) => self.convert(Type::S32, Type::S16, None, reg).into(),
            Elem::Data(DType::U16) => self.convert(Type::U32, Type::U16, None, reg).into(),
            _ if self.class(reg) != class(elem) => self.mov_bits(class(elem), reg).into(),
            _ => reg.into(),
        }
    }
}

fn is_float_extreme(op: AtomicOp, elem: Elem) -> bool {
    matches!(op, AtomicOp::Min | AtomicOp::Max) && elem.is_float()
}

/// The type of the registers that an operation works on.
pub(super) fn word(op: AtomicOp, elem: Elem) -> Type {
    if is_float_extreme(op, elem) {
        word_of(elem.bits())
    } else {
        operation(op, elem).1
    }
}

fn word_of(bits: u32) -> Type {
    if bits == 64 { Type::B64 } else { Type::B32 }
}

/// The instruction's operation and type.
fn operation(op: AtomicOp, elem: Elem) -> (AtomOp, Type) {
    let is_wide = elem.bits() == 64;
    let bits = word_of(elem.bits());
    let unsigned = if is_wide { Type::U64 } else { Type::U32 };
    let is_signed = matches!(elem, Elem::Data(d) if d.is_signed_int());
    let ordered = match (is_signed, is_wide) {
        (true, true) => Type::S64,
        (true, false) => Type::S32,
        (false, _) => unsigned,
    };
    match (op, elem) {
        (AtomicOp::Add, Elem::Data(DType::F16)) => (AtomOp::AddNoFtz, Type::F16),
        (AtomicOp::Add, Elem::Data(DType::Bf16)) => (AtomOp::AddNoFtz, Type::Bf16),
        (AtomicOp::Add, Elem::Data(DType::F32)) => (AtomOp::Add, Type::F32),
        (AtomicOp::Add, Elem::Data(DType::F64)) => (AtomOp::Add, Type::F64),
        (AtomicOp::Add, _) => (AtomOp::Add, unsigned),
        (AtomicOp::Min, _) => (AtomOp::Min, ordered),
        (AtomicOp::Max, _) => (AtomOp::Max, ordered),
        (AtomicOp::And, _) => (AtomOp::And, bits),
        (AtomicOp::Or, _) => (AtomOp::Or, bits),
        (AtomicOp::Xor, _) => (AtomOp::Xor, bits),
        (AtomicOp::Exchange, _) => (AtomOp::Exch, bits),
    }
}

pub(super) fn access_sem(semantics: Semantics) -> AccessSem {
    match semantics {
        Semantics::AcqRel => AccessSem::AcqRel,
        Semantics::Acquire => AccessSem::Acquire,
        Semantics::Release => AccessSem::Release,
        Semantics::Relaxed => AccessSem::Relaxed,
    }
}

pub(super) fn scope(scope: Scope) -> ptx::Scope {
    match scope {
        Scope::Gpu => ptx::Scope::Gpu,
        Scope::Cta => ptx::Scope::Cta,
        Scope::Cluster => ptx::Scope::Cluster,
        Scope::Sys => ptx::Scope::Sys,
    }
}
