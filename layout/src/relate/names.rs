//! Names of maps: a layout that has the same bases.

use crate::{Axis, DistributedLinear, Layout, LinearLayout};

impl DistributedLinear {
    /// The layout of `warps` warps whose bases are those of `map`, a map from (register, lane, warp, block) to tensor
    /// dimensions.
    pub fn from_map(map: &LinearLayout, warps: u32) -> Self {
        Self {
            register: map.basis_coords(Axis::Register),
            lane: map.basis_coords(Axis::Lane),
            warp: map.basis_coords(Axis::Warp),
            block: map.basis_coords(Axis::Block),
            warps,
        }
    }
}

/// A name for the map of what `source` became: the candidate that has the same bases, else the bases themselves.
pub(super) fn named_or_linear(
    map: &LinearLayout,
    shape: &[u32],
    source: &Layout,
    candidates: impl IntoIterator<Item = Layout>,
) -> Layout {
    let same = |layout: &Layout| {
        layout.warps() == source.warps() && layout.linear(shape).is_ok_and(|linear| linear == *map)
    };
    candidates
        .into_iter()
        .find(same)
        .unwrap_or_else(|| linear_like(map, source).into())
}

/// The bases of the map, for the warps of `source`, which it was made of.
pub(super) fn linear_like(map: &LinearLayout, source: &Layout) -> DistributedLinear {
    let all = map.in_size(Axis::Warp);
    DistributedLinear::from_map(map, source.warps().unwrap_or(all))
}
