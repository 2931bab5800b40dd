//! Inverses, and why there may be none.

use smallvec::SmallVec;

use super::LinearLayout;
use super::gf2::Span;
use crate::{Axis, Dims};

impl LinearLayout {
    /// Whether every output is reached.
    pub fn is_surjective(&self) -> bool {
        Span::of(self.columns.iter().copied()).rank() == self.total_out_bits()
    }

    /// Whether no two inputs have the same image: nothing is broadcast.
    pub fn is_injective(&self) -> bool {
        Span::of(self.columns.iter().copied()).rank() == self.total_in_bits()
    }

    /// Whether the map can be inverted.
    pub fn is_bijective(&self) -> bool {
        self.total_in_bits() == self.total_out_bits() && self.is_injective()
    }

    /// Whether, zero bases aside, every basis is one coordinate bit of its own: the rule of distributed layouts.
    pub fn is_permutation_with_zeros(&self) -> bool {
        let mut seen = 0;
        self.columns.iter().all(|&column| {
            let fresh = column == 0 || column.is_power_of_two() && seen & column == 0;
            seen |= column;
            fresh
        }) && seen.count_ones() == self.total_out_bits()
    }

    /// A map back that picks, among the inputs of an output, the one with zeros in all redundant bits: later columns
    /// are redundant before earlier ones. `None` when some output is not reached.
    pub fn right_inverse(&self) -> Option<Self> {
        let span = Span::of(self.columns.iter().copied());
        let units = 0..self.total_out_bits();
        let columns: Option<SmallVec<[u64; 20]>> = units.map(|bit| span.solve(1 << bit)).collect();
        Some(Self {
            ins: self.outs.clone(),
            outs: self.ins.clone(),
            columns: columns?,
            extents: Dims::empty(),
        })
    }

    /// For every input of `self`, an input of `target` with the same image: `result.then(target) == self`.
    /// Redundant bits of `target`'s inputs are 0. `None` when `target` does not reach some image.
    ///
    /// With `self` a register layout and `target` a shared layout, this is where each register goes.
    pub fn find_in(&self, target: &Self) -> Option<Self> {
        let span = Span::of(target.columns.iter().copied());
        let order: SmallVec<[Axis; 4]> = target.outs().map(|(axis, _)| axis).collect();
        let aligned = self.with_outs_ordered(&order);
        let columns: Option<SmallVec<[u64; 20]>> = aligned
            .columns
            .iter()
            .map(|&column| span.solve(column))
            .collect();
        Some(Self {
            ins: self.ins.clone(),
            outs: target.ins.clone(),
            columns: columns?,
            extents: Dims::empty(),
        })
    }

    /// The bits of `axis` that add nothing: their basis is the XOR of bases of earlier bits (in the order of the
    /// inputs), so inputs differing there hold copies.
    pub fn free_mask(&self, axis: Axis) -> u32 {
        let mut span = Span::new();
        let redundant: SmallVec<[bool; 20]> = self
            .columns
            .iter()
            .map(|&column| !span.insert(column))
            .collect();
        let (start, bits) = (self.in_shift(axis) as usize, self.in_bits(axis) as usize);
        let flags = redundant[start..start + bits].iter().enumerate();
        flags
            .filter(|&(_, &free)| free)
            .map(|(bit, _)| 1 << bit)
            .sum()
    }
}
