//! Shapes of a case's tensors, and indices into them.

use std::fmt;

/// Extents of a row-major tensor of `N` dimensions, the last one contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape<const N: usize>(pub [usize; N]);

impl<const N: usize> Shape<N> {
    /// How many elements there are.
    pub fn len(self) -> usize {
        self.0.iter().product()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The place of an index in memory, in elements.
    ///
    /// # Panics
    /// If the index lies outside, as a slice's index does.
    #[inline]
    pub fn offset(self, index: [usize; N]) -> usize {
        let mut offset = 0;
        for (at, extent) in index.into_iter().zip(self.0) {
            assert!(at < extent, "index {index:?} lies outside {self}");
            offset = offset * extent + at;
        }
        offset
    }

    /// The index of a place in memory.
    #[inline]
    pub fn index(self, mut offset: usize) -> [usize; N] {
        let mut index = [0; N];
        for (at, extent) in index.iter_mut().zip(self.0).rev() {
            *at = offset % extent;
            offset /= extent;
        }
        index
    }
}

impl<const N: usize> fmt::Display for Shape<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Carries a number of dimensions, so that [`Rank`] can say what an index of it is.
pub struct Ranked<const N: usize>;

/// What an index looks like in a reference: `i` for one dimension, `[r, c]` for two, and so on.
pub trait Rank<const N: usize> {
    /// The index.
    type Index: Copy + Send;

    /// The index from its parts.
    fn index(parts: [usize; N]) -> Self::Index;
}

impl Rank<1> for Ranked<1> {
    type Index = usize;

    #[inline]
    fn index([part]: [usize; 1]) -> usize {
        part
    }
}

macro_rules! ranks {
    ($($rank:literal),*) => {$(
        impl Rank<$rank> for Ranked<$rank> {
            type Index = [usize; $rank];

            #[inline]
            fn index(parts: [usize; $rank]) -> [usize; $rank] {
                parts
            }
        }
    )*};
}

ranks!(2, 3, 4, 5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_and_offset_are_inverse_and_row_major() {
        let shape = Shape([2, 3, 5]);
        assert_eq!(shape.len(), 30);
        assert_eq!(shape.offset([1, 2, 4]), 29);
        assert_eq!(shape.offset([0, 1, 0]), 5);
        for offset in 0..30 {
            assert_eq!(shape.offset(shape.index(offset)), offset);
        }
    }

    #[test]
    #[should_panic(expected = "index [0, 3] lies outside [2, 3]")]
    fn an_index_outside_panics_even_where_its_offset_would_be_inside() {
        Shape([2, 3]).offset([0, 3]);
    }
}
