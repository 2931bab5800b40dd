//! What is known of one value.

use smallvec::{SmallVec, smallvec};

use gluon_lang::elem::{DType, Elem};
use gluon_lang::ir::Type;

/// Known of a value along one dimension, all as powers of two: the binary logarithm is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DimFacts {
    /// Aligned runs of this many elements count up by one.
    pub contiguity: u8,
    /// What divides the first element of every such run; of pointers, the address in bytes.
    pub divisibility: u8,
    /// Aligned runs of this many elements are equal.
    pub constancy: u8,
}

/// Divisibility is not followed further: no access and no alignment asks for more.
pub(crate) const MAX_DIVISIBILITY: u8 = 30;

impl DimFacts {
    /// What divides the first element of every run of `run`, which may be shorter than the contiguous ones.
    pub(crate) fn divisibility_at(self, run: u8) -> u8 {
        if run < self.contiguity {
            self.divisibility.min(run)
        } else {
            self.divisibility
        }
    }

    fn join(self, other: DimFacts) -> DimFacts {
        let contiguity = self.contiguity.min(other.contiguity);
        DimFacts {
            contiguity,
            divisibility: self
                .divisibility_at(contiguity)
                .min(other.divisibility_at(contiguity)),
            constancy: self.constancy.min(other.constancy),
        }
    }
}

/// Bounds of an integer, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least value.
    pub low: i128,
    /// The greatest value.
    pub high: i128,
}

impl Range {
    /// From `low` to `high`, both included.
    pub const fn new(low: i128, high: i128) -> Range {
        Range { low, high }
    }

    /// Everything that an integer or boolean type can hold; `None` for a float.
    pub fn of_type(dtype: DType) -> Option<Range> {
        let bits = dtype.bits();
        if dtype.is_float() {
            return None;
        }
        Some(if dtype.is_signed_int() {
            Range::new(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        } else {
            Range::new(0, (1 << bits) - 1)
        })
    }

    /// Does it hold all of `other`?
    pub fn contains(self, other: Range) -> bool {
        self.low <= other.low && other.high <= self.high
    }

    /// The least range that holds both.
    #[must_use]
    pub fn join(self, other: Range) -> Range {
        Range::new(self.low.min(other.low), self.high.max(other.high))
    }

    /// The only value, if there is just one.
    pub fn constant(self) -> Option<i128> {
        (self.low == self.high).then_some(self.low)
    }
}

/// What is known of one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// One entry per dimension; a scalar has one. Empty for a value that has not been reached.
    pub dims: SmallVec<[DimFacts; 2]>,
    /// The bounds of an integer; `None` for floats and pointers.
    pub range: Option<Range>,
}

impl Facts {
    /// Nothing is known but the type.
    pub(crate) fn unknown(ty: &Type) -> Facts {
        Facts {
            dims: smallvec![DimFacts::default(); ty.shape().len().max(1)],
            range: type_range(ty),
        }
    }

    /// Every element is the scalar of which `divisibility` is known.
    pub(crate) fn splat(shape: &[u32], divisibility: u8, range: Option<Range>) -> Facts {
        let dim = |size: u32| DimFacts {
            contiguity: 0,
            divisibility,
            constancy: log2(size),
        };
        let dims = if shape.is_empty() {
            smallvec![dim(1)]
        } else {
            shape.iter().map(|&s| dim(s)).collect()
        };
        Facts { dims, range }
    }

    /// What holds of a value that is one or the other.
    pub(crate) fn join(&self, other: &Facts) -> Facts {
        let dims = self
            .dims
            .iter()
            .zip(&other.dims)
            .map(|(a, b)| a.join(*b))
            .collect();
        let range = match (self.range, other.range) {
            (Some(a), Some(b)) => Some(a.join(b)),
            _ => None,
        };
        Facts { dims, range }
    }

    /// What divides every element.
    pub(crate) fn divisibility(&self) -> u8 {
        // Each dimension bounds every element, so the best one counts.
        self.dims
            .iter()
            .map(|d| d.divisibility_at(0))
            .max()
            .unwrap_or(0)
    }

    /// The value of every element, if there is but one.
    pub(crate) fn constant(&self) -> Option<i128> {
        self.range.and_then(Range::constant)
    }

    /// Is no element negative?
    pub(crate) fn is_non_negative(&self) -> bool {
        self.range.is_some_and(|r| r.low >= 0)
    }

    /// The same with the range cut to what the type can hold: a result outside wraps, and then could be anything.
    pub(crate) fn within(mut self, ty: &Type) -> Facts {
        let whole = type_range(ty);
        self.range = match (self.range, whole) {
            (Some(range), Some(whole)) if whole.contains(range) => Some(range),
            _ => whole,
        };
        self
    }
}

/// The bounds of a type's elements.
pub(crate) fn type_range(ty: &Type) -> Option<Range> {
    ty.elem().and_then(Elem::data).and_then(Range::of_type)
}

/// The binary logarithm of a size, rounded down.
pub(crate) fn log2(size: u32) -> u8 {
    size.max(1).ilog2() as u8
}

/// The power of two that divides `value`, as a logarithm.
pub(crate) fn divisibility_of(value: i128) -> u8 {
    (value.trailing_zeros() as u8).min(MAX_DIVISIBILITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_runs_begin_at_less_divisible_elements() {
        let dim = DimFacts {
            contiguity: 4,
            divisibility: 6,
            constancy: 0,
        };
        assert_eq!(dim.divisibility_at(4), 6);
        assert_eq!(dim.divisibility_at(2), 2);
        assert_eq!(dim.divisibility_at(0), 0);
        assert_eq!(dim.divisibility_at(9), 6);
    }

    #[test]
    fn ranges_of_types() {
        assert_eq!(Range::of_type(DType::I8), Some(Range::new(-128, 127)));
        assert_eq!(
            Range::of_type(DType::U64),
            Some(Range::new(0, (1 << 64) - 1))
        );
        assert_eq!(Range::of_type(DType::I1), Some(Range::new(0, 1)));
        assert_eq!(Range::of_type(DType::F32), None);
    }
}
