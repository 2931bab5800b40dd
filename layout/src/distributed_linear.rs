//! Any distributed layout, given by its bases.

use std::fmt;

use super::linear::cut::bits_below;
use super::text::write_call;
use super::{Axis, BasisFault, Dims, Extent, LayoutError, WarpSets, rules, sets_of};

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
    /// Warps of a CTA: as many as the bases number, or fewer that need all the bits. Where these are no power of two, the
    /// bases of the highest bits are those of the sets ([`WarpSets`]): all zero, or the largest steps along one dimension.
    pub warps: u32,
}

impl DistributedLinear {
    /// A layout from its bases; each list may hold arrays, slices or [`Dims`].
    pub fn new<B: Into<Dims>>(
        register: impl IntoIterator<Item = B>,
        lane: impl IntoIterator<Item = B>,
        warp: impl IntoIterator<Item = B>,
        block: impl IntoIterator<Item = B>,
    ) -> Self {
        let warp: Vec<Dims> = warp.into_iter().map(Into::into).collect();
        Self {
            register: register.into_iter().map(Into::into).collect(),
            lane: lane.into_iter().map(Into::into).collect(),
            warps: all_warps(&warp),
            warp,
            block: block.into_iter().map(Into::into).collect(),
        }
    }

    /// The same bases for so many warps, fewer than the bases number.
    #[must_use]
    pub fn with_warps(mut self, warps: impl Extent) -> Self {
        self.warps = warps.extent();
        self
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

    /// The lists of what one set of warps holds.
    pub(super) fn groups_of_set(&self) -> [(Axis, &[Dims]); 4] {
        let of_set = self.warp.len() - self.sets_bits();
        self.groups().map(|(axis, bases)| match axis {
            Axis::Warp => (axis, &bases[..of_set]),
            axis => (axis, bases),
        })
    }

    fn sets_bits(&self) -> usize {
        bits_below(sets_of(self.warps)) as usize
    }

    /// The sets of warps.
    pub fn warp_sets(&self) -> WarpSets {
        let first = self.warp.len().checked_sub(self.sets_bits());
        let first = first.and_then(|at| self.warp.get(at));
        WarpSets {
            count: sets_of(self.warps),
            dim: first.and_then(|basis| basis.iter().position(|&step| step != 0)),
        }
    }

    /// The bases of the sets' bits are zero, or double along one dimension, in which nothing else steps as far.
    fn check_sets(&self, layout: &'static str) -> Result<(), LayoutError> {
        let (warps, bits) = (self.warps, self.warp.len() as u32);
        if warps == 0 || bits_below(warps) != bits {
            return Err(LayoutError::Parameter {
                layout,
                field: "warps",
                found: warps.to_string(),
                wanted: format!(
                    "{bits} bases number {} to {} warps",
                    all_warps(&self.warp) / 2 + 1,
                    all_warps(&self.warp)
                ),
            });
        }
        let sets = self.warp_sets();
        let of_set = self.warp.len() - self.sets_bits();
        let Some(dim) = sets.dim.filter(|_| sets.count > 1) else {
            return self.check_steps(layout, of_set, |basis, _| basis.iter().all(|&s| s == 0));
        };
        let groups = self.groups_of_set();
        let others = groups.iter().flat_map(|(_, bases)| bases.iter());
        let others = others.fold(0, |all, basis| all | basis[dim]);
        let first = others + 1;
        self.check_steps(layout, of_set, |basis, at| {
            basis[dim].checked_shr(at) == Some(first) && basis[dim] == first << at
        })
    }

    fn check_steps(
        &self,
        layout: &'static str,
        of_set: usize,
        is_right: impl Fn(&Dims, u32) -> bool,
    ) -> Result<(), LayoutError> {
        let mut sets = self.warp[of_set..].iter().zip(0..);
        match sets.find(|&(basis, at)| !is_right(basis, at)) {
            None => Ok(()),
            Some((basis, at)) => Err(LayoutError::Basis {
                layout,
                axis: Axis::Warp,
                bit: of_set + at as usize,
                basis: basis.clone(),
                fault: BasisFault::OfSet,
            }),
        }
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
        rules::permutation_bases(NAME, self.rank(), &self.groups())?;
        self.check_sets(NAME)
    }
}

/// The warps that so many bases number; 0 for more than there can be.
pub(super) fn all_warps(warp: &[Dims]) -> u32 {
    1_u32.checked_shl(warp.len() as u32).unwrap_or(0)
}

impl fmt::Display for DistributedLinear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_call(f, "Linear", |args| {
            args.bases("register", &self.register)?;
            args.bases("lane", &self.lane)?;
            args.bases("warp", &self.warp)?;
            args.bases("block", &self.block)?;
            args.named_unless("warps", &self.warps, &all_warps(&self.warp))
        })
    }
}
