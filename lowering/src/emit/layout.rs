//! Layout conversions, as they are planned in `gluon_lang::layout::convert`: registers renamed, words exchanged between
//! the lanes of a warp, or a trip through shared memory.

use gluon_lang::diag::{Code as ErrorCode, Diagnostic};
use gluon_lang::entity::Inst;
use gluon_lang::layout::convert::{Conversion, ConversionPlan, PerThread};
use gluon_lang::ops::flow;
use gluon_lang::ops::layout::{ConvertLayout, SetLayout};
use ptx::{BinaryOp, Operand, Special, Type};

use super::code::Code;
use super::element::Element;
use super::{Emitted, Emitter, Lower, scratch};

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
        let values = match &plan.conversion {
            Conversion::Registers => elements.to_vec(),
            Conversion::Shuffle(shuffle) => cx.shuffle(shuffle, elem, &elements),
            Conversion::Shared(shared) => {
                let is_repeated = flow::is_in_loop(cx.func, inst);
                cx.exchange(shared, elem, &elements, self.scratch.start, is_repeated)
            }
        };
        let picked = plan.results.iter().map(|&value| values[value as usize]);
        cx.set_result(inst, picked.collect::<Vec<Element>>());
        Ok(())
    }
}

/// The plan, held against the bytes that were planned for it: a kernel edited by hand may give too few.
fn plan_of(op: &ConvertLayout, inst: Inst, cx: &Emitter<'_>) -> Result<ConversionPlan, Diagnostic> {
    let fault =
        |message: String| Diagnostic::error(ErrorCode::BrokenRule, cx.func.place(inst), message);
    let (from, to) = (cx.tensor(op.operand), cx.tensor(cx.func.result(inst)));
    let plan = scratch::conversion(op, from, to).map_err(|error| fault(error.to_string()))?;
    let (needed, given) = (plan.scratch_bytes(), op.scratch.bytes);
    if needed > given {
        return Err(fault(format!(
            "this conversion needs {needed} bytes of scratch, and {given} are planned for it"
        )));
    }
    Ok(plan)
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
