//! What emission issued for an access, held against its plan: the cost reports count what is planned, so that is what must
//! run.

use ir::entity::Inst;
use ptx::{Operand, Space};

use super::Emitter;
use super::code::Mark;
use crate::analysis::access::{AccessPlan, Cut, Memory};

impl Emitter<'_> {
    /// Asserts that what an instruction issued since `mark` is what the analysis of accesses says.
    ///
    /// # Panics
    /// When it is not, which is a bug of emission.
    pub(super) fn check_issued(&self, inst: Inst, mark: &Mark) {
        let Some(plan) = self.accesses.plan(inst) else {
            return;
        };
        let bytes = self
            .code
            .since(mark)
            .filter(|inst| {
                !plan.is_atomic || matches!(inst, ptx::Inst::Atom(_) | ptx::Inst::Red(_))
            })
            .filter_map(|inst| moved(inst, plan.memory));
        let bytes: Vec<u32> = bytes.collect();
        let skipped = self.code.skipped_since(mark);
        assert!(
            is_as_planned(&plan, &bytes, skipped),
            "bug in emission: `{}` issued accesses of {bytes:?} bytes and left out {skipped}, and {plan:?} was planned",
            self.func.op(inst).rules().mnemonic()
        );
    }
}

/// Whole accesses as wide and as many as planned, of which the mask is known to forbid `skipped`; elements by themselves
/// only beside those that the mask may split.
fn is_as_planned(plan: &AccessPlan, issued: &[u32], skipped: u32) -> bool {
    let whole = issued.iter().filter(|bytes| **bytes == plan.bytes).count() as u32;
    let single = issued.len() as u32 - whole;
    let elements = plan.bytes / plan.elem_bytes;
    let is_of_elements = issued
        .iter()
        .all(|&bytes| bytes == plan.bytes || bytes == plan.elem_bytes);
    let may_be_split = plan.cut != Cut::Nowhere && single.is_multiple_of(elements);
    is_of_elements
        && whole + skipped * plan.instructions == plan.runs * plan.instructions
        && (single == 0 || may_be_split && single <= whole * elements)
}

/// The bytes that a thread moves by an instruction to or from a memory; none if it does not.
fn moved(inst: &ptx::Inst, memory: Memory) -> Option<u32> {
    let (space, bytes) = match inst {
        ptx::Inst::Ld(ld) => (ld.space?, ld.ty.bytes() * count(ld.vec)),
        ptx::Inst::St(st) => (st.space?, st.ty.bytes() * count(st.vec)),
        ptx::Inst::Atom(atom) => (atom.space?, atom.ty.bytes()),
        ptx::Inst::Red(red) => (red.space?, red.ty.bytes() * count(red.vec)),
        ptx::Inst::StAsync(st) => (Space::SharedCluster, st.ty.bytes() * count(st.vec)),
        ptx::Inst::Ldmatrix(load) => (Space::Shared, 4 * load.count.registers() as u32),
        ptx::Inst::Stmatrix(store) => (Space::Shared, 4 * store.count.registers() as u32),
        ptx::Inst::CpAsync(copy) => match copy.bytes {
            Operand::Int(bytes) => (Space::Global, bytes as u32),
            _ => return None,
        },
        _ => return None,
    };
    let is_there = match memory {
        Memory::Global => space == Space::Global,
        Memory::Shared => matches!(space, Space::Shared | Space::SharedCluster),
    };
    is_there.then_some(bytes)
}

fn count(vec: Option<ptx::VecWidth>) -> u32 {
    vec.map_or(1, |vec| vec.len() as u32)
}
