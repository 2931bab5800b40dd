//! Atomics with results: the owner of an element broadcasts its result through shared memory where other warps hold copies.

use ir::Type;
use ir::ops::atomic::{AtomicCas, AtomicLoad, AtomicRmw, SmemAtomicFetch};
use ir::ops::poll::AtomicPoll;
use layout::Axis;

use super::numbering::Numbering;
use super::{Asked, BarrierScope, NeedsScratch, ScratchNeed};

macro_rules! results_go_to_copies {
    ($($op:ident)*) => {$(
        impl NeedsScratch for $op {
            const HAS_SCRATCH: bool = true;

            fn need(&self, asked: &Asked<'_>) -> ScratchNeed {
                result_to_copies(asked)
            }
        }
    )*};
}

results_go_to_copies! { AtomicRmw AtomicCas AtomicLoad AtomicPoll SmemAtomicFetch }

fn result_to_copies(asked: &Asked<'_>) -> ScratchNeed {
    let func = asked.func;
    let result = func.result(asked.inst);
    let (elem, elements, is_in_warps) = match func.ty(result) {
        Type::Tensor(t) => {
            let Ok(map) = t.layout.linear(&t.shape) else {
                return ScratchNeed::default();
            };
            let is_copied = map.free_mask(Axis::Warp) != 0;
            let slots = Numbering::of_elements(&map).count();
            (t.elem, slots, is_copied || asked.is_followed())
        }
        Type::Scalar(elem) => {
            let is_in_warps = func.warps_at(asked.inst) > 1 || asked.is_followed();
            (*elem, 1, is_in_warps)
        }
        _ => return ScratchNeed::default(),
    };
    if !is_in_warps || !asked.is_used(result) {
        return ScratchNeed::default();
    }
    ScratchNeed {
        bytes: elements * elem.bytes(),
        scope: BarrierScope::Cta,
        ..ScratchNeed::default()
    }
}
