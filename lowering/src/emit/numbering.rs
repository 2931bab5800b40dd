//! Numbers for places of a tensor, made of some bits of their coordinates.

use gluon_lang::layout::{Axis, LinearLayout};

/// Coordinate bits that number places, the lowest first. Other bits tell apart what has one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbering(Vec<u32>);

impl Numbering {
    /// The numbering by these bits of packed coordinates.
    pub(super) fn new(bits: impl IntoIterator<Item = u32>) -> Numbering {
        Numbering(bits.into_iter().collect())
    }

    /// Numbers in row-major order the results of a reduction along `axis` that one CTA holds.
    pub(super) fn of_results(map: &LinearLayout, axis: usize) -> Numbering {
        let elsewhere = held_by_ctas(map);
        let dims = (0..map.outs().len()).rev().filter(|dim| *dim != axis);
        let bits = dims.flat_map(|dim| bits_of(map, dim));
        Numbering::new(bits.filter(|bit| elsewhere >> bit & 1 == 0))
    }

    /// How many numbers there are.
    pub(super) fn count(&self) -> u32 {
        1 << self.0.len()
    }

    /// The number of a packed place.
    pub(super) fn number(&self, packed: u64) -> u32 {
        let bits = self.0.iter().enumerate();
        bits.map(|(to, from)| ((packed >> from & 1) as u32) << to)
            .sum()
    }
}

/// The bits of the packed coordinate that belong to dimension `dim`, the lowest first.
pub(super) fn bits_of(map: &LinearLayout, dim: usize) -> std::ops::Range<u32> {
    let first = map.out_shift(Axis::dim(dim));
    first..first + map.out_bits(Axis::dim(dim))
}

/// The bits of the packed coordinate that the CTA's rank decides.
pub(super) fn held_by_ctas(map: &LinearLayout) -> u64 {
    map.bases(Axis::Block)
        .iter()
        .fold(0, |all, basis| all | basis)
}
