//! Fitting a map to a shape.

use smallvec::SmallVec;

use super::cut::{bits_below, is_cut};
use super::fields::Fields;
use super::{LinearLayout, Ports, port};
use crate::{Axis, Dims};

impl LinearLayout {
    /// The map onto a smaller shape: bases past a dimension's size become zero, so that their inputs hold copies.
    /// Dimensions that are small enough already stay. `sizes` has one entry per output.
    #[must_use]
    pub fn clipped_to(&self, sizes: &[u32]) -> Self {
        let mut outs = Ports::new();
        let mut kept = Fields::default();
        let (mut from, mut to) = (0, 0);
        for ((axis, bits), size) in self.outs().zip(sizes) {
            let left = bits.min(bits_below(*size));
            outs.push(port(axis, left));
            kept.push(left, from, to);
            from += bits;
            to += left;
        }
        let columns = self.columns.iter().map(|&column| kept.moved(column));
        Self {
            ins: self.ins.clone(),
            outs,
            columns: columns.collect(),
            extents: self.clipped_extents(sizes),
        }
    }

    /// The sizes of the outputs of the map onto a smaller shape.
    fn clipped_extents(&self, sizes: &[u32]) -> Dims {
        if !self.is_cut() && !is_cut(sizes) {
            return Dims::empty();
        }
        let have = self.out_sizes();
        let least: Dims = have.iter().zip(sizes).map(|(a, b)| *a.min(b)).collect();
        if is_cut(&least) { least } else { Dims::empty() }
    }

    /// The map onto a larger shape: `input` gets further bits that walk through what is missing, the dimension
    /// `order[0]` first. Dimensions that are large enough already stay. `sizes` has one power of two per output.
    #[must_use]
    pub fn repeated_to(&self, sizes: &[u32], order: &[u32], input: Axis) -> Self {
        let missing = |dim: usize| {
            let have = u32::from(self.outs[dim].bits);
            let is_named = order.contains(&(dim as u32));
            let wanted = if is_named {
                sizes[dim].trailing_zeros()
            } else {
                0
            };
            wanted.saturating_sub(have)
        };
        let mut further = Self {
            ins: Ports::new(),
            outs: Ports::new(),
            columns: SmallVec::new(),
            extents: Dims::empty(),
        };
        for dim in 0..self.outs.len() {
            further.outs.push(port(self.outs[dim].axis, missing(dim)));
        }
        for &dim in order {
            let start = further.out_shift_at(dim as usize);
            let bits = 0..missing(dim as usize);
            further.columns.extend(bits.map(|bit| 1 << (start + bit)));
        }
        if further.columns.is_empty() {
            return self.clone();
        }
        further.ins.push(port(input, further.columns.len() as u32));
        self.product(&further)
    }
}
