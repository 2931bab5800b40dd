//! Layout conversions, as they are planned in `layout::convert`: registers renamed, words exchanged between
//! the lanes of a warp, or a trip through shared memory.

use diag::{Code as ErrorCode, Diagnostic};
use ir::elem::Elem;
use ir::entity::Inst;
use ir::ops::flow;
use ir::ops::layout::{ConvertLayout, SetLayout};
use layout::convert::{Conversion, ConversionPlan, PerThread, PieceConversion, Scope};
use ptx::{BinaryOp, Operand, Special, Type};

use super::code::Code;
use super::element::Element;
use super::{Emitted, Emitter, Lower};
use crate::analysis::scratch::conversion;

impl Lower for SetLayout {
    fn lower(&self, _: Inst, _: &mut Emitter<'_>) -> Emitted {
        panic!("the verifier leaves no `set_layout` once layouts are resolved");
    }
}

impl Lower for ConvertLayout {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let plan = plan_of(self, inst, cx)?;
        let elements = cx.elements(self.operand);
        let elem = cx.elem(self.operand);
        let is_repeated = flow::is_in_loop(cx.func, inst);
        let converted = cx.converted(&plan, elem, &elements, (self.scratch.start, is_repeated));
        cx.set_result(inst, converted);
        Ok(())
    }
}

impl Emitter<'_> {
    /// The elements in the registers of the result. `place` is where the scratch begins, and whether the same code may have
    /// run before.
    fn converted(
        &mut self,
        plan: &ConversionPlan,
        elem: Elem,
        elements: &[Element],
        place: (u32, bool),
    ) -> Vec<Element> {
        let values = match &plan.conversion {
            Conversion::Registers => elements.to_vec(),
            Conversion::Shuffle(shuffle) => self.shuffle(shuffle, elem, elements),
            Conversion::Shared(shared) => self.exchange(shared, elem, elements, place.0, place.1),
            Conversion::Pieces(pieces) => {
                let scope = plan.scope().unwrap_or(Scope::Warp);
                self.pieces(pieces, scope, elem, elements, place)
            }
        };
        let picked = plan.results.iter().map(|&value| values[value as usize]);
        picked.collect()
    }

    /// Pieces use the same scratch, one after another, with a barrier between them.
    fn pieces(
        &mut self,
        pieces: &[PieceConversion],
        scope: Scope,
        elem: Elem,
        elements: &[Element],
        place: (u32, bool),
    ) -> Vec<Element> {
        let mut values = Vec::new();
        let mut is_scratch_used = false;
        for piece in pieces {
            if matches!(piece.plan.conversion, Conversion::Shared(_)) {
                if is_scratch_used {
                    self.sync_scope(scope);
                }
                is_scratch_used = true;
            }
            let held = piece.registers.iter().map(|&r| elements[r as usize]);
            let held: Vec<Element> = held.collect();
            values.extend(self.converted(&piece.plan, elem, &held, place));
        }
        values
    }
}

/// The plan, whose scratch was checked before emission.
fn plan_of(op: &ConvertLayout, inst: Inst, cx: &Emitter<'_>) -> Result<ConversionPlan, Diagnostic> {
    let (from, to) = (cx.tensor(op.operand), cx.tensor(cx.func.result(inst)));
    conversion::plan(cx.func.target, op, from, to).map_err(|error| {
        Diagnostic::error(
            ErrorCode::BrokenRule,
            cx.func.place(inst),
            error.to_string(),
        )
    })
}

impl Code {
    /// A number that depends on the thread: the XOR of the entries of all bits set in its lane, warp and CTA.
    pub(super) fn per_thread(&mut self, number: &PerThread) -> Operand {
        let of_cta: Vec<u32> = number.lane.iter().chain(&number.warp).copied().collect();
        let in_cta = self.of_thread(&of_cta);
        if number.block.iter().all(|&entry| entry == 0) {
            return in_cta;
        }
        let of_block = self.of_block(&number.block);
        self.in_prologue(|code| {
            code.binary(BinaryOp::Xor, Type::B32, in_cta, of_block)
                .into()
        })
    }

    /// The XOR of the entries of all bits set in the CTA's rank in its cluster.
    pub(super) fn of_block(&mut self, entries: &[u32]) -> Operand {
        self.in_prologue(|code| {
            let rank = code.mov(Type::U32, Special::ClusterCtaRank);
            code.of_bits(rank, entries)
        })
    }

    /// The same number with these bits flipped.
    pub(super) fn flipped(&mut self, number: Operand, bits: u32) -> Operand {
        match (number, bits) {
            (number, 0) => number,
            (Operand::Int(value), bits) => Operand::Int(value ^ i64::from(bits)),
            _ => {
                self.in_prologue(|code| code.binary(BinaryOp::Xor, Type::B32, number, bits).into())
            }
        }
    }
}
