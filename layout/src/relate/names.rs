//! Names of maps: a layout that has the same bases.

use crate::{Axis, DistributedLinear, Layout, LinearLayout};

impl DistributedLinear {
    /// The layout whose bases are those of `map`, a map from (register, lane, warp, block) to tensor dimensions.
    pub fn from_map(map: &LinearLayout) -> Self {
        Self {
            register: map.basis_coords(Axis::Register),
            lane: map.basis_coords(Axis::Lane),
            warp: map.basis_coords(Axis::Warp),
            block: map.basis_coords(Axis::Block),
        }
    }
}

/// A name for the map: the candidate that has the same bases, else the bases themselves.
pub(super) fn named_or_linear(
    map: &LinearLayout,
    shape: &[u32],
    candidates: impl IntoIterator<Item = Layout>,
) -> Layout {
    let same = |layout: &Layout| layout.linear(shape).is_ok_and(|linear| linear == *map);
    candidates
        .into_iter()
        .find(same)
        .unwrap_or_else(|| DistributedLinear::from_map(map).into())
}
