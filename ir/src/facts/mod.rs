//! Facts about values: how the elements of a value follow one another along each dimension, and the bounds of integers.
//!
//! Each op states what follows for its results from the facts about its operands (`OpRules::result_facts`); the axis analysis of lowering
//! carries the facts through control flow. They hold in every thread and for every launch.

mod arith;
mod shape;

use cranelift_entity::SecondaryMap;
use smallvec::{SmallVec, smallvec};

use crate::Type;
use crate::constant::Const;
use crate::elem::{DType, Elem};
use crate::entity::Value;

pub(crate) use arith::contiguity_of_sum;
pub use arith::{binary, compare};
pub(crate) use shape::{broadcast, cat, expand_dims, join, part, permute, reshape, split};

/// The facts about every value reached so far.
pub type KnownFacts = SecondaryMap<Value, Facts>;

/// Known of a value along one dimension, all as powers of two: the binary logarithm is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DimFacts {
    /// Aligned runs of this many elements count up by one.
    pub contiguity: u8,
    /// What divides the first element of every such run; of pointers, the address in bytes.
    pub divisibility: u8,
    /// Aligned runs of this many elements are equal.
    pub constancy: u8,
    /// By how much each element differs from the one before, if all do alike; of pointers, in bytes.
    pub stride: Option<i64>,
}

/// Divisibility is not followed further: no access and no alignment asks for more.
pub const MAX_DIVISIBILITY: u8 = 30;

impl DimFacts {
    /// What divides the first element of every run of `run`, which may be shorter than the contiguous ones.
    pub fn divisibility_at(self, run: u8) -> u8 {
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
            stride: self.stride.filter(|_| self.stride == other.stride),
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

/// The facts about one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// One entry per dimension; a scalar has one. Empty for a value that has not been reached.
    pub dims: SmallVec<[DimFacts; 2]>,
    /// The bounds of an integer; `None` for floats and pointers.
    pub range: Option<Range>,
}

impl Facts {
    /// Nothing is known but the type.
    pub fn unknown(ty: &Type) -> Facts {
        let rank = ty.shape().len();
        let dim = DimFacts {
            // A scalar is equal to itself wherever it goes.
            stride: (rank == 0).then_some(0),
            ..DimFacts::default()
        };
        Facts {
            dims: smallvec![dim; rank.max(1)],
            range: type_range(ty),
        }
    }

    /// Every element is the scalar of which `divisibility` is known.
    pub fn splat(shape: &[u32], divisibility: u8, range: Option<Range>) -> Facts {
        let dim = |size: u32| DimFacts {
            contiguity: 0,
            divisibility,
            constancy: log2(size),
            stride: Some(0),
        };
        let dims = if shape.is_empty() {
            smallvec![dim(1)]
        } else {
            shape.iter().map(|&s| dim(s)).collect()
        };
        Facts { dims, range }
    }

    /// Every element is the number.
    pub(crate) fn constant_of(value: Const, ty: &Type) -> Facts {
        match value {
            Const::Int(i) => Facts::splat(ty.shape(), divisibility_of(i), Some(Range::new(i, i))),
            Const::Float(_) => Facts::splat(ty.shape(), 0, None),
        }
    }

    /// An integer within bounds, with nothing else known.
    pub(crate) fn between(low: i128, high: i128, ty: &Type) -> Facts {
        Facts {
            range: Some(Range::new(low, high)),
            ..Facts::unknown(ty)
        }
    }

    /// What holds of a value that is one or the other.
    #[must_use]
    pub fn join(&self, other: &Facts) -> Facts {
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
    pub fn divisibility(&self) -> u8 {
        // Each dimension bounds every element, so the best one counts.
        self.dims
            .iter()
            .map(|d| d.divisibility_at(0))
            .max()
            .unwrap_or(0)
    }

    /// The value of every element, if there is but one.
    pub fn constant(&self) -> Option<i128> {
        self.range.and_then(Range::constant)
    }

    /// Is no element negative?
    pub fn is_non_negative(&self) -> bool {
        self.range.is_some_and(|r| r.low >= 0)
    }

    /// The same with the range cut to what the type can hold: a result outside wraps, and then could be anything.
    #[must_use]
    pub fn within(mut self, ty: &Type) -> Facts {
        let whole = type_range(ty);
        self.range = match (self.range, whole) {
            (Some(range), Some(whole)) if whole.contains(range) => Some(range),
            _ => whole,
        };
        self
    }
}

/// The same bits under another type: a pointer counts elements, an integer does not.
pub(crate) fn same_bits(operand: &Facts, from: &Type, ty: &Type) -> Facts {
    let (Some(from), Some(to)) = (from.elem(), ty.elem()) else {
        return Facts::unknown(ty);
    };
    let mut facts = equal_runs(operand, ty);
    let step = |elem: Elem| elem.pointee().map_or(1, DType::bytes);
    if from.is_float() || to.is_float() {
        return facts;
    }
    for (dim, old) in facts.dims.iter_mut().zip(&operand.dims) {
        dim.contiguity = if step(from) == step(to) {
            old.contiguity
        } else {
            0
        };
        dim.divisibility = old.divisibility_at(dim.contiguity);
        dim.stride = old.stride;
    }
    if from.bits() != to.bits() {
        forget_strides(&mut facts);
    }
    let is_narrowed = from.bits() > to.bits();
    facts.range = if is_narrowed || from.is_ptr() {
        facts.range
    } else {
        operand.range
    };
    facts
}

/// A number cut to fewer bits, or read with a sign, counts up only as far as the type goes.
pub(crate) fn cut_runs(dim: &mut DimFacts, to: DType) {
    let count_bits = to.bits() - u32::from(to.is_signed_int());
    let contiguity = dim.contiguity.min(count_bits as u8);
    dim.divisibility = dim.divisibility_at(contiguity);
    dim.contiguity = contiguity;
}

/// Numbers that may wrap keep no stride but that of equal ones.
pub(crate) fn forget_strides(facts: &mut Facts) {
    for dim in &mut facts.dims {
        dim.stride = dim.stride.filter(|by| *by == 0);
    }
}

/// Facts about a result whose elements are equal wherever the operand's are.
pub(crate) fn equal_runs(operand: &Facts, ty: &Type) -> Facts {
    let mut facts = Facts::unknown(ty);
    for (dim, old) in facts.dims.iter_mut().zip(&operand.dims) {
        dim.constancy = old.constancy;
        dim.stride = old.stride.filter(|by| *by == 0);
    }
    facts
}

/// Facts about a result whose elements are equal wherever those of all operands are equal.
pub(crate) fn equal_where_operands_are(known: &KnownFacts, operands: &[Value], ty: &Type) -> Facts {
    let mut facts = Facts::unknown(ty);
    for (at, dim) in facts.dims.iter_mut().enumerate() {
        let runs = operands
            .iter()
            .filter_map(|v| known[*v].dims.get(at))
            .map(|d| d.constancy);
        dim.constancy = runs.min().unwrap_or(0);
        let mut strides = operands.iter().map(|v| known[*v].dims.get(at)?.stride);
        let all_equal = !operands.is_empty() && strides.all(|stride| stride == Some(0));
        dim.stride = dim.stride.or(all_equal.then_some(0));
    }
    facts
}

/// The bounds of a type's elements.
pub fn type_range(ty: &Type) -> Option<Range> {
    ty.elem().and_then(Elem::data).and_then(Range::of_type)
}

/// The binary logarithm of a size, rounded down.
pub fn log2(size: u32) -> u8 {
    size.max(1).ilog2() as u8
}

/// The power of two that divides `value`, as a logarithm.
pub fn divisibility_of(value: i128) -> u8 {
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
            stride: None,
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
