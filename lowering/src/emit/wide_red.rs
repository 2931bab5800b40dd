//! Atomic additions of floats whose results are unused, several neighbours at a time (PTX ISA 9.7.13.6: `red` with
//! vectors, and with two halves of a word). Each element is a step of its own, as if they were done one by one. A run that
//! its mask cuts is done one by one, apart from the others.

use ir::elem::{DType, Elem};
use ir::ops::atomic::AtomicRmw;
use ptx::{Addr, AtomOp, Operand, Predicate, Reg, Space, Type, VecWidth};

use crate::analysis::access::GlobalPlan;

use super::Emitter;
use super::atomic::{access_sem, scope};
use super::code::Code;
use super::element::Element;
use super::global::{Mask, Part, moved};

/// Additions to the elements of one run.
struct Addition<'o> {
    op: &'o AtomicRmw,
    elem: Elem,
    /// The threads that own their elements; none when all do.
    owner: Option<Reg>,
    to: Addr,
    values: Vec<Element>,
}

impl Emitter<'_> {
    /// Adds whole runs at once: of an atomic whose plan has vectors.
    pub(super) fn add_runs(&mut self, op: &AtomicRmw, plan: &GlobalPlan) {
        let elem = self.elem(op.value);
        let (pointers, values) = (self.elements(op.ptr), self.elements(op.value));
        let masks = op.mask.expand().map(|mask| self.elements(mask));
        let owner = self.owner_of(op.ptr);
        for run in &plan.runs {
            let addition = Addition {
                op,
                elem,
                owner,
                to: self.code.address(pointers[run[0]]),
                values: run.iter().map(|&r| values[r]).collect(),
            };
            let mask = masks
                .as_ref()
                .map(|masks| Mask::of_run(plan.access.cut, run, masks));
            self.code.add_run(&addition, mask.as_ref());
        }
    }
}

impl Code {
    fn add_run(&mut self, addition: &Addition<'_>, mask: Option<&Mask>) {
        match self.part_of(mask) {
            Part::None => self.skip_access(),
            Part::All => self.add_whole(addition, None),
            Part::Where(p) => self.add_whole(addition, Some(p)),
            Part::Each(mask) => {
                let all = self.all_of(mask);
                self.add_whole(addition, Some(all));
                self.add_cut(addition, mask, all);
            }
        }
    }

    /// All elements of a run where the predicate holds.
    fn add_whole(&mut self, addition: &Addition<'_>, p: Option<Reg>) {
        let (op, ty) = match addition.elem {
            Elem::Data(DType::F32) => (AtomOp::Add, Type::F32),
            Elem::Data(DType::F16) => (AtomOp::AddNoFtz, Type::F16x2),
            _ => (AtomOp::AddNoFtz, Type::Bf16x2),
        };
        let words: Vec<Operand> = if ty == Type::F32 {
            let elements = addition.values.iter();
            elements
                .map(|&e| self.whole(e, addition.elem).into())
                .collect()
        } else {
            let words = self.pack_words(&addition.values, addition.elem);
            words.into_iter().map(|w| self.word_register(w)).collect()
        };
        self.push_red(addition, (op, ty), addition.to, &words, p);
    }

    /// The elements of a run that its mask cuts, behind the end of the kernel.
    fn add_cut(&mut self, addition: &Addition<'_>, mask: &Mask, all: Reg) {
        let (op, ty) = match addition.elem {
            Elem::Data(DType::F32) => (AtomOp::Add, Type::F32),
            Elem::Data(DType::F16) => (AtomOp::AddNoFtz, Type::F16),
            _ => (AtomOp::AddNoFtz, Type::Bf16),
        };
        let (cut, back) = (self.label("cut"), self.label("whole"));
        self.branch(Some(Predicate::not(all)), cut, false);
        self.bind(back);
        self.in_cold(|code| {
            code.bind(cut);
            for (at, (&m, &value)) in mask.each.iter().zip(&addition.values).enumerate() {
                let p = code.whole(m, Elem::I1);
                let word = [code.whole(value, addition.elem).into()];
                let to = moved(addition.to, at, addition.elem);
                code.push_red(addition, (op, ty), to, &word, Some(p));
            }
            code.branch(None, back, false);
        });
    }

    fn push_red(
        &mut self,
        addition: &Addition<'_>,
        (op, ty): (AtomOp, Type),
        to: Addr,
        words: &[Operand],
        p: Option<Reg>,
    ) {
        let guard = match (p, addition.owner) {
            (Some(p), Some(owner)) => Some(self.both(p, owner)),
            (p, owner) => p.or(owner),
        };
        let red = ptx::Red {
            sem: Some(access_sem(addition.op.semantics)),
            scope: Some(scope(addition.op.scope)),
            space: Some(Space::Global),
            vec: VecWidth::of_len(words.len()),
            ..ptx::Red::new(op, ty, to, words.iter().copied().collect::<ptx::Values>())
        };
        self.push_guarded(guard.map(Predicate::is), red);
    }

    fn word_register(&mut self, word: Operand) -> Operand {
        match word {
            Operand::Reg(_) => word,
            other => self.mov(Type::B32, other).into(),
        }
    }
}
