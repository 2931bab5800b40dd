//! Gathers: by shuffles where a warp holds all that it looks up and they cost less, else through shared memory.

use ir::Func;
use ir::ops::gather::Gather;
use layout::Axis;

use super::lookup::Lookup;
use super::numbering::held_bytes;
use super::{Asked, BarrierScope, NeedsScratch, ScratchNeed, bits_along};

/// How a gather gets at its source.
pub(crate) struct GatherWay {
    /// By shuffles, if this is given; else through its scratch.
    pub(crate) lookup: Option<Lookup>,
    /// What it needs for that.
    pub(crate) need: ScratchNeed,
}

/// How this gather gets at its source; by nothing where its layouts do not fit, which the verifier reports.
pub(crate) fn way(func: &Func, op: &Gather) -> GatherWay {
    let nothing = GatherWay {
        lookup: None,
        need: ScratchNeed::default(),
    };
    let tensors = (
        func.ty(op.source).as_tensor(),
        func.ty(op.indices).as_tensor(),
    );
    let (Some(source), Some(indices)) = tensors else {
        return nothing;
    };
    let maps = (
        source.layout.linear(&source.shape),
        indices.layout.linear(&indices.shape),
    );
    let (Ok(from), Ok(at)) = maps else {
        return nothing;
    };
    // A lookup tells registers apart by bits of an index, and across a cut not all that these name exist.
    let is_cut = from.is_cut() || at.is_cut();
    let lookup = Lookup::new(&from, &at, op.axis as usize).filter(|_| !is_cut);
    // Only owners write, so no warp may hold copies of what another one owns, nor be idle until partitions begin.
    let stays_in_warp =
        lookup.is_some() && from.free_mask(Axis::Warp) == 0 && func.launch_warps() == func.warps;
    let lookup = lookup.filter(|lookup| lookup.is_worthwhile(&from, &at, source.elem));
    if lookup.is_some() {
        return GatherWay { lookup, ..nothing };
    }
    let is_split = !bits_along(&from, Axis::Block, op.axis as usize).is_empty();
    let need = ScratchNeed {
        bytes: held_bytes(&from, source.elem),
        scope: match (stays_in_warp, is_split) {
            (_, true) => BarrierScope::Cluster,
            (true, _) => BarrierScope::Warp,
            _ => BarrierScope::Cta,
        },
        ..ScratchNeed::default()
    };
    GatherWay { lookup, need }
}

impl NeedsScratch for Gather {
    const HAS_SCRATCH: bool = true;

    fn need(&self, asked: &Asked<'_>) -> ScratchNeed {
        way(asked.func, self).need
    }
}
