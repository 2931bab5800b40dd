//! Sorts: elements go through shared memory where warps or CTAs hold bits of the coordinate. Of an extent that is no power of two,
//! elements stand in places beyond its end between two steps, so that the buffers have room for the rounded shape.

use ir::elem::Elem;
use ir::ops::sort::Sort;
use layout::{Axis, LinearLayout};
use target::WIDEST_ACCESS_BYTES;

use super::numbering::held_bytes;
use super::{Asked, BarrierScope, NeedsScratch, ScratchNeed, bits_along, map_and_elems};

/// Where each operand begins in one of the two buffers, and the bytes of the buffer.
pub(crate) fn buffer(map: &LinearLayout, elems: &[Elem]) -> (Vec<u32>, u32) {
    let mut bytes = 0;
    let starts = elems.iter().map(|&elem| {
        let start = bytes;
        bytes += held_bytes(map, elem).next_multiple_of(WIDEST_ACCESS_BYTES);
        start
    });
    (starts.collect(), bytes)
}

impl NeedsScratch for Sort {
    const HAS_SCRATCH: bool = true;

    fn need(&self, asked: &Asked<'_>) -> ScratchNeed {
        let Some((map, elems)) = map_and_elems(asked.func, &self.operands) else {
            return ScratchNeed::default();
        };
        let is_moved_by = |axis| !bits_along(&map, axis, self.axis as usize).is_empty();
        let is_split = is_moved_by(Axis::Block);
        if !is_moved_by(Axis::Warp) && !is_split {
            return ScratchNeed::default();
        }
        ScratchNeed {
            bytes: 2 * buffer(&map, &elems).1,
            scope: if is_split {
                BarrierScope::Cluster
            } else {
                BarrierScope::Cta
            },
            ..ScratchNeed::default()
        }
    }
}
