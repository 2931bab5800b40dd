//! Fitting a map to a shape.

use smallvec::SmallVec;

use super::{LinearLayout, Ports, port};
use crate::layout::Axis;

impl LinearLayout {
    /// The map onto a smaller shape: bases past a dimension's size become zero, so that their inputs hold copies.
    /// Dimensions that are small enough already stay. `sizes` has one power of two per output.
    #[must_use]
    pub fn clipped_to(&self, sizes: &[u32]) -> Self {
        let mut outs = Ports::new();
        let mut keep = SmallVec::<[(u64, u32, u32); 4]>::new();
        let (mut from, mut to) = (0, 0);
        for ((axis, bits), size) in self.outs().zip(sizes) {
            let kept = bits.min(size.trailing_zeros());
            outs.push(port(axis, kept));
            keep.push(((1_u64 << kept) - 1, from, to));
            from += bits;
            to += kept;
        }
        let clip = |column: u64| {
            keep.iter().fold(0, |all, &(mask, from, to)| {
                all | (column >> from & mask) << to
            })
        };
        let columns = self.columns.iter().map(|&column| clip(column)).collect();
        Self {
            ins: self.ins.clone(),
            outs,
            columns,
        }
    }

    /// The map onto a larger shape: `input` gets further bits that walk through what is missing, the dimension
    /// `order[0]` first. Dimensions that are large enough already stay. `sizes` has one power of two per output.
    #[must_use]
    pub fn repeated_to(&self, sizes: &[u32], order: &[u32], input: Axis) -> Self {
        let mut whole = self.clone();
        let outs: SmallVec<[(Axis, u32); 4]> = self.outs().collect();
        for &dim in order {
            let (axis, bits) = outs[dim as usize];
            let missing = sizes[dim as usize].trailing_zeros().saturating_sub(bits);
            if missing > 0 {
                whole = whole.product(&Self::identity(input, axis, missing));
            }
        }
        whole
    }
}
