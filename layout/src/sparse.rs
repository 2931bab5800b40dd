//! The metadata of a sparse operand A in registers, as `wgmma.mma_async.sp` reads it (PTX ISA 9.7.15.6.2).
//!
//! A row of A is cut into chunks: of four elements, of which two are kept, or of two elements of 4 bytes, of which one is.
//! A chunk has 4 bits of metadata. One element of metadata has 16 bits: four chunks of a row, the first in the lowest bits.

use super::linear::cut::rounded_up;
use super::{Dims, DistributedLinear, WarpSets, Wgmma};

/// Chunks that an element of metadata describes.
const CHUNKS: u32 = 4;

/// The elements of a row, of so many bits each, that an element of metadata describes, counted before the row is compressed.
pub fn elements_of_metadata(elem_bits: u32) -> u32 {
    CHUNKS * if elem_bits == 32 { 2 } else { 4 }
}

impl Wgmma {
    /// The layout of `[M, columns]` of 16-bit metadata for operands of `elem_bits` beside an accumulator of this layout:
    ///
    /// - 8 bits: a lane has two neighbouring columns of one row. Bit 0 of the lane is row bit 3, bit 1 is column bit 1.
    /// - 16 and 32 bits: a lane has one column of the rows `r` and `r + 8`. Bits 0 and 1 of the lane are column bits 0 and 1,
    ///   so that one register serves two instructions: the first reads the lanes in which bit 1 is clear, the second the
    ///   others (the sparsity selector).
    ///
    /// Bits 2 to 4 of the lane are row bits 0 to 2, the warps of a warpgroup row bits 4 and 5. Warps side by side along N
    /// hold copies.
    pub fn sparse_metadata(&self, elem_bits: u32, shape: impl Into<Dims>) -> DistributedLinear {
        let sets = WarpSets::of_grid(&self.warps);
        let sets = WarpSets {
            dim: sets.dim.filter(|&dim| dim == 0),
            ..sets
        };
        let whole = shape.into();
        let shape = rounded_up(&sets.share(&whole));
        let (register, first_lanes) = if elem_bits == 8 {
            ([0, 1], [[8, 0], [0, 2]])
        } else {
            ([8, 0], [[0, 1], [0, 2]])
        };
        let rows = |first: u32, count: u32| (0..count).map(move |bit| [first << bit, 0]);
        let [along_m, along_n] = [0, 1].map(|dim| self.warps[dim].trailing_zeros());
        // What lies outside of the tensor is a copy.
        let within = |basis: [u32; 2]| {
            Dims::from([0, 1].map(|dim| {
                if basis[dim] < shape[dim] {
                    basis[dim]
                } else {
                    0
                }
            }))
        };
        let mut layout = DistributedLinear {
            register: vec![within(register)],
            lane: first_lanes
                .into_iter()
                .chain(rows(1, 3))
                .map(within)
                .collect(),
            warp: rows(16, along_m)
                .chain((0..along_n).map(|_| [0, 0]))
                .map(within)
                .collect(),
            block: self.cta_bases.iter().map(|b| b.with(1, 0)).collect(),
            warps: u32::try_from(self.warps.product()).unwrap_or(0),
        };
        for dim in [1, 0] {
            let taken = |of: &[Dims]| of.iter().fold(0, |all, basis| all | basis[dim]);
            let groups = [&layout.register, &layout.lane, &layout.warp, &layout.block];
            let taken = groups.iter().fold(0, |all, group| all | taken(group));
            let bits = (0..shape[dim].trailing_zeros()).map(|bit| 1 << bit);
            let missing = bits.filter(|bit| taken & bit == 0);
            let further = missing.map(|bit| Dims::filled(0, 2).with(dim, bit));
            layout.register.extend(further.collect::<Vec<_>>());
        }
        let first = if sets.divided(&whole) == Some(0) {
            shape[0]
        } else {
            0
        };
        let of_set = |bit| Dims::from([first << bit, 0]);
        layout.warp.extend((0..sets.bits()).map(of_set));
        layout
    }
}
