//! Reductions: each warp leaves one partial result per element of the result and per warp along the axis, and each CTA sends
//! one to every other along the axis.

use ir::elem::Elem;
use ir::ops::reduce::Reduce;
use layout::{Axis, LinearLayout};
use target::WIDEST_ACCESS_BYTES;

use super::numbering::Numbering;
use super::{Area, Asked, BarrierScope, NeedsScratch, ScratchNeed, bits_along, map_and_elems};

/// How many parts make up a result, and the shared memory that they go through.
pub(crate) struct Sizes {
    /// Numbers the results of a CTA.
    pub(crate) results: Numbering,
    /// How many warps of a CTA hold parts of one result.
    pub(crate) warp_parts: u32,
    /// The slots of a result's parts, a power of two: some have none where warps are no power of two.
    pub(crate) slots: u32,
    /// If several CTAs hold parts of one result, the memory of their exchange, and where it begins.
    pub(crate) exchange: Option<(u32, Area)>,
    /// Bytes in all.
    bytes: u32,
}

impl Sizes {
    /// The sizes for a reduction along `axis` of tensors of one layout.
    pub(crate) fn new(map: &LinearLayout, axis: usize, elems: &[Elem], is_repeated: bool) -> Sizes {
        let results = Numbering::of_results(map, axis);
        let slots = 1 << bits_along(map, Axis::Warp, axis).len();
        let warp_parts = match map.divided() {
            // The number of the set has the highest bits.
            Some((dim, sets)) if dim == axis => slots / sets.next_power_of_two() * sets,
            _ => slots,
        };
        let mut bytes: u32 = 0;
        if warp_parts > 1 {
            for elem in elems {
                // Each operand's part begins where the widest access can.
                bytes = bytes.next_multiple_of(WIDEST_ACCESS_BYTES)
                    + results.count() * slots * elem.bytes();
            }
        }
        let cta_parts = 1 << bits_along(map, Axis::Block, axis).len();
        let exchange = (cta_parts > 1).then(|| {
            let start = bytes.next_multiple_of(WIDEST_ACCESS_BYTES);
            let area = Area::new(elems, results.counts(), cta_parts, is_repeated);
            bytes = start + area.bytes();
            (start, area)
        });
        Sizes {
            results,
            warp_parts,
            slots,
            exchange,
            bytes,
        }
    }
}

impl NeedsScratch for Reduce {
    const HAS_SCRATCH: bool = true;

    fn need(&self, asked: &Asked<'_>) -> ScratchNeed {
        let Some((map, elems)) = map_and_elems(asked.func, &self.operands) else {
            return ScratchNeed::default();
        };
        let sizes = Sizes::new(&map, self.axis as usize, &elems, asked.is_repeated());
        let exchange = sizes.exchange.iter();
        ScratchNeed {
            bytes: sizes.bytes,
            scope: if sizes.warp_parts > 1 {
                BarrierScope::Cta
            } else {
                BarrierScope::None
            },
            mbarriers: exchange
                .flat_map(|(start, area)| area.mbarriers().map(move |at| start + at))
                .collect(),
        }
    }
}
