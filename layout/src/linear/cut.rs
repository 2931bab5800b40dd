//! Shapes whose sizes are no powers of two: what they leave of a map.
//!
//! A map onto a shape that is rounded up to powers of two is linear; the shape itself cuts it. Of a size `g * q`, with `g`
//! the largest power of two that divides it, the coordinate bits from `g` on belong to registers alone. So a register
//! holds an element in every thread or in none, and the threads of a cut map are those of the whole one.
//!
//! Of at most one dimension these bits belong to the highest bits of the warp instead, where a CTA has `q` sets of warps
//! ([`WarpSets`](crate::WarpSets)): then all registers hold elements in the warps that there are, and those beyond would hold
//! what is cut off.

use smallvec::SmallVec;

use super::LinearLayout;
use super::algebra::bits_of;
use crate::{Axis, Dims};

/// The largest power of two that divides a size: what a layout may spread over lanes and warps of it.
pub fn granule(size: u32) -> u32 {
    1 << size.trailing_zeros().min(31)
}

/// The bits of the coordinates below a size.
pub fn bits_below(size: u32) -> u32 {
    size.next_power_of_two().trailing_zeros()
}

/// The sizes, each rounded up to a power of two.
pub fn rounded_up(shape: &[u32]) -> Dims {
    shape.iter().map(|size| size.next_power_of_two()).collect()
}

/// Is a size among them that is no power of two?
pub fn is_cut(shape: &[u32]) -> bool {
    shape.iter().any(|size| !size.is_power_of_two())
}

/// For each dimension of `to`, the one of `from` that it is, if the shapes differ in dimensions of size 1 alone; a new one is
/// none.
pub fn same_but_ones(from: &[u32], to: &[u32]) -> Option<Vec<Option<usize>>> {
    let mut have = (0..from.len()).filter(|&dim| from[dim] != 1);
    let of = |&size: &u32| match size {
        1 => Some(None),
        size => have.next().filter(|&dim| from[dim] == size).map(Some),
    };
    let found: Option<Vec<Option<usize>>> = to.iter().map(of).collect();
    found.filter(|_| have.next().is_none())
}

/// A part of a cut map whose sizes are powers of two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins, one coordinate per output.
    pub origin: Dims,
    /// The map of the part; its threads are those of the whole.
    pub map: LinearLayout,
    /// For each register of the part, its place among those of the whole.
    pub registers: Vec<u32>,
}

impl LinearLayout {
    /// The same map onto sizes that its outputs, powers of two, are rounded up from.
    #[must_use]
    pub(crate) fn cut_to(mut self, shape: &[u32]) -> Self {
        debug_assert!(
            rounded_up(shape).iter().eq(self
                .outs()
                .map(|(_, bits)| 1 << bits)
                .collect::<Dims>()
                .iter()),
            "{} cuts {self}",
            Dims::from(shape)
        );
        self.extents = if is_cut(shape) {
            shape.into()
        } else {
            Dims::empty()
        };
        debug_assert!(self.cut_fault().is_none(), "{self} is cut within threads");
        self
    }

    /// The map onto the sizes rounded up.
    #[must_use]
    pub(crate) fn uncut(mut self) -> Self {
        self.extents = Dims::empty();
        self
    }

    /// The same map onto other dimensions: each of them is one of this map's, or a new one of size 1. What is left out has
    /// that size.
    #[must_use]
    pub(crate) fn with_dims(&self, dims: &[Option<usize>]) -> Self {
        let kept: Vec<Axis> = dims.iter().flatten().map(|&dim| Axis::dim(dim)).collect();
        let place = |axis: Axis| {
            let at = dims.iter().position(|dim| dim.map(Axis::dim) == Some(axis));
            Axis::dim(at.expect("every dimension that is kept has a place"))
        };
        let moved = self.with_outs_ordered(&kept).with_outs_renamed(place);
        let all: Vec<Axis> = Axis::dims(dims.len()).collect();
        moved.with_outs_ordered(&all)
    }

    /// Is a size of an output no power of two?
    pub fn is_cut(&self) -> bool {
        !self.extents.is_empty()
    }

    /// The coordinate bits, packed, that belong to whole repetitions of a granule; none of an output that is not cut.
    pub fn cut_mask(&self) -> u64 {
        let mut shift = 0;
        let outs = self.outs().zip(self.extents.iter());
        let masks = outs.map(|((_, bits), size)| {
            let all = (1_u64 << bits) - 1;
            let low = u64::from(granule(*size)) - 1;
            let mask = if size.is_power_of_two() {
                0
            } else {
                all & !low
            };
            shift += bits;
            mask << (shift - bits)
        });
        masks.fold(0, |all, mask| all | mask)
    }

    /// The dimension whose whole granules belong to sets of warps, and how many sets and so granules there are.
    pub fn divided(&self) -> Option<(usize, u32)> {
        let top = self.is_cut().then(|| self.bases(Axis::Warp).last())??;
        let dim = self.unpack_out(*top & self.cut_mask());
        let dim = dim.iter().position(|&step| step != 0)?;
        let size = self.extents[dim];
        Some((dim, size / granule(size)))
    }

    /// The input that cuts the map where it must not: an axis of threads that reaches a whole granule, though it does not number
    /// sets of warps, or a register that does and something else besides.
    fn cut_fault(&self) -> Option<Axis> {
        let cut = self.cut_mask();
        let of_sets = self.divided().map_or(0, |(dim, _)| {
            let (axis, cut) = (Axis::dim(dim), cut);
            let own = ((1_u64 << self.out_bits(axis)) - 1) << self.out_shift(axis);
            own & cut
        });
        let warps = self.bases(Axis::Warp);
        let (of_set, sets) = warps
            .split_at_checked(warps.len().wrapping_sub(of_sets.count_ones() as usize))
            .unwrap_or((warps, &[]));
        let are_in_order = sets
            .iter()
            .zip(bits_of(of_sets))
            .all(|(&basis, bit)| basis == 1 << bit);
        let breaks = |axis: Axis| {
            let mut bases = self.bases(axis).iter();
            match axis {
                Axis::Register => {
                    bases.any(|b| b & of_sets != 0 || b & cut != 0 && !b.is_power_of_two())
                }
                Axis::Warp => !are_in_order || of_set.iter().any(|b| b & cut != 0),
                Axis::Lane | Axis::Block => bases.any(|b| b & cut != 0),
                Axis::Offset | Axis::Dim(_) => false,
            }
        };
        self.ins().map(|(axis, _)| axis).find(|axis| breaks(*axis))
    }

    /// The map onto the sizes of which one is rounded up.
    #[must_use]
    pub(crate) fn uncut_along(mut self, dim: usize) -> Self {
        if self.is_cut() {
            self.extents[dim] = self.extents[dim].next_power_of_two();
            if !is_cut(&self.extents) {
                self.extents = Dims::empty();
            }
        }
        self
    }

    /// The size of an output; 1 for one that the map does not have.
    pub fn out_size(&self, axis: Axis) -> u32 {
        match self.outs().position(|(have, _)| have == axis) {
            Some(at) if self.is_cut() => self.extents[at],
            _ => 1 << self.out_bits(axis),
        }
    }

    /// Do all coordinates of a packed output lie below their sizes?
    pub fn is_inside(&self, packed: u64) -> bool {
        !self.is_cut()
            || self
                .unpack_out(packed)
                .iter()
                .zip(&self.extents)
                .all(|(at, size)| at < size)
    }

    /// The registers that hold elements, by their numbers among those of the map onto the sizes rounded up, in ascending order. Whoever
    /// counts the registers of a thread counts these.
    pub fn registers(&self) -> Vec<u32> {
        let all = 0..self.in_size(Axis::Register);
        if !self.is_cut() {
            return all.collect();
        }
        let shift = self.in_shift(Axis::Register);
        all.filter(|&number| self.is_inside(self.apply_packed(u64::from(number) << shift)))
            .collect()
    }

    /// Registers per thread.
    pub fn num_registers(&self) -> u32 {
        if self.is_cut() {
            self.registers().len() as u32
        } else {
            self.in_size(Axis::Register)
        }
    }

    /// The parts whose sizes are powers of two that the map is put together from, the largest first: of a size of 176 these
    /// have 128, 32 and 16. The map itself, if it is not cut.
    pub fn pieces(&self) -> Vec<Piece> {
        let mut all: Vec<(Dims, Dims)> = vec![(Dims::empty(), Dims::empty())];
        for size in &self.out_sizes() {
            let parts = powers_of(*size);
            let with_part = |(origin, sizes): &(Dims, Dims)| -> Vec<(Dims, Dims)> {
                let part = |&(start, size): &(u32, u32)| {
                    let (mut origin, mut sizes) = (origin.clone(), sizes.clone());
                    origin.push(start);
                    sizes.push(size);
                    (origin, sizes)
                };
                parts.iter().map(part).collect()
            };
            all = all.iter().flat_map(with_part).collect();
        }
        let existing = self.registers();
        let piece = |(origin, sizes): (Dims, Dims)| self.piece(origin, &sizes, &existing);
        all.into_iter().map(piece).collect()
    }

    fn piece(&self, origin: Dims, sizes: &[u32], existing: &[u32]) -> Piece {
        let place = self.pack_out(&origin);
        let ends = sizes.iter().map(|size| size - 1).collect::<Dims>();
        let within = self.pack_out(&ends);
        let bases = self.bases(Axis::Register);
        let is_kept = |basis: u64| basis & !within == 0;
        let bits = bases.iter().enumerate();
        let fixed = bits
            .clone()
            .filter(|&(_, &basis)| !is_kept(basis) && basis & place != 0)
            .fold(0, |number, (bit, _)| number | 1_u32 << bit);
        let free: SmallVec<[u32; 8]> = bits
            .filter(|&(_, &basis)| is_kept(basis))
            .map(|(bit, _)| 1 << bit)
            .collect();
        let number = |at: u32| {
            let set = free
                .iter()
                .enumerate()
                .filter(|(bit, _)| at >> bit & 1 == 1);
            set.fold(fixed, |number, (_, bit)| number | bit)
        };
        let index = |at: u32| {
            let found = existing.binary_search(&number(at));
            found.expect("the registers of a part are among those of the whole") as u32
        };
        let kept = self.clone().uncut();
        let kept = kept.with_bases_kept(Axis::Register, |_, basis| is_kept(basis));
        Piece {
            registers: (0..1 << free.len()).map(index).collect(),
            map: kept.clipped_to(sizes),
            origin,
        }
    }
}

/// A size as powers of two, the largest first, each with where it begins.
fn powers_of(size: u32) -> SmallVec<[(u32, u32); 4]> {
    let mut start = 0;
    let bits = (0..u32::BITS).rev().filter(|bit| size >> bit & 1 == 1);
    bits.map(|bit| {
        let part = (start, 1 << bit);
        start += 1 << bit;
        part
    })
    .collect()
}
