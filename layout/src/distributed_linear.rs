//! Any distributed layout, given by its bases.

use std::fmt;

use super::text::write_call;
use super::{Axis, Dims, LayoutError, rules};

/// A distributed layout by its bases over GF(2): the coordinate of an element is the XOR of the bases of all bits set
/// in its register, lane, warp and CTA numbers. Lists are from bit 0 upward; a zero basis means copies.
///
/// The bases cover a natural shape; a larger tensor repeats it in further registers, a smaller one broadcasts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DistributedLinear {
    /// One basis per bit of the register number.
    pub register: Vec<Dims>,
    /// One basis per bit of the lane: always five.
    pub lane: Vec<Dims>,
    /// One basis per bit of the warp number.
    pub warp: Vec<Dims>,
    /// One basis per bit of the CTA number, in elements.
    pub block: Vec<Dims>,
}

impl DistributedLinear {
    /// A layout from its bases; each list may hold arrays, slices or [`Dims`].
    pub fn new<B: Into<Dims>>(
        register: impl IntoIterator<Item = B>,
        lane: impl IntoIterator<Item = B>,
        warp: impl IntoIterator<Item = B>,
        block: impl IntoIterator<Item = B>,
    ) -> Self {
        Self {
            register: register.into_iter().map(Into::into).collect(),
            lane: lane.into_iter().map(Into::into).collect(),
            warp: warp.into_iter().map(Into::into).collect(),
            block: block.into_iter().map(Into::into).collect(),
        }
    }

    /// The number of dimensions, read from the lane bases.
    pub fn rank(&self) -> usize {
        self.lane.first().map_or(0, Dims::rank)
    }

    /// The lists with their names.
    pub(super) fn groups(&self) -> [(Axis, &[Dims]); 4] {
        [
            (Axis::Register, &self.register),
            (Axis::Lane, &self.lane),
            (Axis::Warp, &self.warp),
            (Axis::Block, &self.block),
        ]
    }

    pub(super) fn check(&self) -> Result<(), LayoutError> {
        const NAME: &str = "Linear";
        if self.lane.len() != 5 {
            return Err(LayoutError::BasisCount {
                layout: NAME,
                axis: Axis::Lane,
                found: self.lane.len(),
                wanted: 5,
            });
        }
        let count = |bases: &[Dims]| 1_u64.checked_shl(bases.len() as u32).unwrap_or(u64::MAX);
        rules::rank(NAME, self.rank())?;
        rules::per_thread(NAME, "register", count(&self.register))?;
        rules::warps(NAME, count(&self.warp))?;
        rules::block_count(NAME, &self.block)?;
        rules::permutation_bases(NAME, self.rank(), &self.groups())
    }
}

impl fmt::Display for DistributedLinear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_call(f, "Linear", |args| {
            args.bases("register", &self.register)?;
            args.bases("lane", &self.lane)?;
            args.bases("warp", &self.warp)?;
            args.bases("block", &self.block)
        })
    }
}
