//! Shapes of a case's tensors, and indices into them.

use std::fmt;

use smallvec::SmallVec;

/// Extents of a row-major tensor, the last dimension contiguous. Made from `[n]`, `[rows, columns]` and so on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape(SmallVec<[usize; 4]>);

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(extents: [usize; N]) -> Shape {
        Shape(SmallVec::from_slice(&extents))
    }
}

impl From<&[usize]> for Shape {
    fn from(extents: &[usize]) -> Shape {
        Shape(SmallVec::from_slice(extents))
    }
}

impl Shape {
    /// How many elements there are; more than memory has bytes count as the most there can be.
    pub fn len(&self) -> usize {
        self.0.iter().copied().fold(1, usize::saturating_mul)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The extents.
    pub fn extents(&self) -> &[usize] {
        &self.0
    }

    /// The place of an index in memory, in elements.
    ///
    /// # Panics
    /// If the index lies outside or has another number of dimensions, as a slice's index does.
    #[inline]
    #[track_caller]
    pub fn offset(&self, index: &[usize]) -> usize {
        assert!(
            index.len() == self.0.len(),
            "the index {index:?} has {} of the {} dimensions of a tensor of shape {self}: write one number for each, or one number \
             without brackets for a place in memory",
            index.len(),
            self.0.len()
        );
        let mut offset = 0;
        for (&at, &extent) in index.iter().zip(&self.0) {
            assert!(at < extent, "index {index:?} lies outside {self}");
            offset = offset * extent + at;
        }
        offset
    }

    /// The index of a place in memory.
    pub fn index(&self, mut offset: usize) -> SmallVec<[usize; 4]> {
        let mut index = self.0.clone();
        for (at, &extent) in index.iter_mut().zip(&self.0).rev() {
            *at = offset % extent;
            offset /= extent;
        }
        index
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0[..])
    }
}

/// Walks the indices of a shape in memory order; a step costs no division.
pub(super) struct Odometer<const N: usize> {
    extents: [usize; N],
    index: [usize; N],
}

impl<const N: usize> Odometer<N> {
    /// Starts at a place in memory.
    ///
    /// # Panics
    /// If the shape has another number of dimensions than `N`.
    pub(super) fn starting_at(shape: &Shape, offset: usize) -> Odometer<N> {
        let exact = |extents: &[usize]| {
            <[usize; N]>::try_from(extents).unwrap_or_else(|_| {
                panic!("an index of {N} dimensions into a tensor of shape {shape}")
            })
        };
        Odometer {
            extents: exact(shape.extents()),
            index: exact(&shape.index(offset)),
        }
    }

    /// The index here; moves on to the next.
    #[inline]
    pub(super) fn step(&mut self) -> [usize; N] {
        let here = self.index;
        for (at, &extent) in self.index.iter_mut().zip(&self.extents).rev() {
            *at += 1;
            if *at < extent {
                break;
            }
            *at = 0;
        }
        here
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_and_offset_are_inverse_and_row_major() {
        let shape = Shape::from([2, 3, 5]);
        assert_eq!(shape.len(), 30);
        assert_eq!(shape.offset(&[1, 2, 4]), 29);
        assert_eq!(shape.offset(&[0, 1, 0]), 5);
        for offset in 0..30 {
            assert_eq!(shape.offset(&shape.index(offset)), offset);
            assert_eq!(
                Odometer::<3>::starting_at(&shape, offset).step()[..],
                shape.index(offset)[..]
            );
        }
    }

    #[test]
    fn the_odometer_walks_as_division_would() {
        let shape = Shape::from([3, 1, 4]);
        let mut odometer = Odometer::<3>::starting_at(&shape, 5);
        for offset in 5..12 {
            assert_eq!(odometer.step()[..], shape.index(offset)[..]);
        }
    }

    #[test]
    #[should_panic(expected = "index [0, 3] lies outside [2, 3]")]
    fn an_index_outside_panics_even_where_its_offset_would_be_inside() {
        Shape::from([2, 3]).offset(&[0, 3]);
    }

    #[test]
    #[should_panic(expected = "an index of 1 dimensions into a tensor of shape [2, 3]")]
    fn an_index_of_another_rank_says_both() {
        Odometer::<1>::starting_at(&Shape::from([2, 3]), 0);
    }
}
