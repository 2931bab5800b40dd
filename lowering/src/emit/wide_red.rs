//! Atomic additions of floats whose results nobody takes, several neighbours at a time (PTX ISA 9.7.13.7: `red` with
//! vectors, and with two halves of a word). Each element is a step of its own, as if they were done one by one.

use gluon_lang::elem::{DType, Elem};
use gluon_lang::ops::atomic::{AtomicOp, AtomicRmw, Semantics};
use ptx::{AtomOp, Space, Type, VecWidth};

use super::Emitter;
use super::atomic::{access_sem, scope};
use super::element::Element;
use super::global::Cut;

impl Emitter<'_> {
    /// Adds whole runs at once where that can be. `false`, and nothing is emitted, where it cannot.
    pub(super) fn add_runs(&mut self, op: &AtomicRmw) -> bool {
        let elem = self.elem(op.value);
        let is_addition = op.op == AtomicOp::Add
            && matches!(elem, Elem::Data(DType::F32 | DType::F16 | DType::Bf16))
            && matches!(op.semantics, Semantics::Relaxed | Semantics::Release);
        if !is_addition || self.func.ty(op.ptr).as_tensor().is_none() {
            return false;
        }
        let runs = self.runs(op.ptr, op.mask.expand(), elem);
        let is_wide = runs.groups.iter().any(|run| run.len() > 1);
        if !is_wide || runs.cut != Cut::Nowhere {
            return false;
        }
        let (pointers, values) = (self.elements(op.ptr), self.elements(op.value));
        let turns = self.turns(op.ptr, op.mask.expand());
        for run in &runs.groups {
            // The mask is one for the whole run; where it is false everywhere, no register has a turn.
            let Some(turn) = turns.iter().find(|turn| turn.register == run[0]) else {
                continue;
            };
            let elements: Vec<Element> = run.iter().map(|&r| values[r]).collect();
            let to = self.code.address(pointers[run[0]]);
            let (kind, ty, words) = match elem {
                Elem::Data(DType::F32) => {
                    let words = elements.iter().map(|&e| self.code.whole(e, elem).into());
                    (AtomOp::Add, Type::F32, words.collect())
                }
                elem => {
                    let ty = if elem == Elem::Data(DType::F16) {
                        Type::F16x2
                    } else {
                        Type::Bf16x2
                    };
                    (
                        AtomOp::AddNoFtz,
                        ty,
                        self.code.packed_registers(&elements, elem),
                    )
                }
            };
            let red = ptx::Red {
                sem: Some(access_sem(op.semantics)),
                scope: Some(scope(op.scope)),
                space: Some(Space::Global),
                vec: VecWidth::of_len(words.len()),
                ..ptx::Red::new(kind, ty, to, words.into_iter().collect::<ptx::Values>())
            };
            self.code.push_guarded(turn.guard, red);
        }
        true
    }
}

impl super::code::Code {
    /// Elements of 16 bits, two to a register.
    fn packed_registers(&mut self, elements: &[Element], elem: Elem) -> Vec<ptx::Operand> {
        let words = self.pack_words(elements, elem);
        let in_register = |word| match word {
            ptx::Operand::Reg(_) => word,
            other => self.mov(Type::B32, other).into(),
        };
        words.into_iter().map(in_register).collect()
    }
}
