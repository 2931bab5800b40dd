//! Scans: warps store the totals of their blocks, and CTAs send them, for every run of the coordinate that they hold.

use ir::ops::scan::Scan;

use super::runs::{self, Place};
use super::{Asked, BarrierScope, NeedsScratch, ScratchNeed, map_and_elems};

impl NeedsScratch for Scan {
    const HAS_SCRATCH: bool = true;

    fn need(&self, asked: &Asked<'_>) -> ScratchNeed {
        let Some((map, elems)) = map_and_elems(asked.func, &self.operands) else {
            return ScratchNeed::default();
        };
        let axis = self.axis as usize;
        let runs = runs::runs(&map, axis);
        let places = runs::places(&map, axis, &runs, &elems, asked.is_repeated());
        let areas = places.iter().filter_map(Place::area);
        ScratchNeed {
            bytes: places.iter().map(Place::end).max().unwrap_or(0),
            scope: if places.iter().any(|p| matches!(p, Place::Warps { .. })) {
                BarrierScope::Cta
            } else {
                BarrierScope::None
            },
            mbarriers: areas
                .flat_map(|(start, area)| area.mbarriers().map(move |at| start + at))
                .collect(),
        }
    }
}
