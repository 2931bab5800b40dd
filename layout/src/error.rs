//! What can be wrong with a layout, or with a layout on a shape.

use std::fmt;

use super::nvmma::SWIZZLES;
use super::{Axis, Dims};

/// A broken layout rule. The message says what is there and what was wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// `Auto` or `Coalesced` where a concrete layout is needed.
    Unresolved {
        /// The placeholder's name.
        layout: &'static str,
    },
    /// Two fields of one layout speak of different numbers of dimensions.
    FieldRank {
        /// The layout's kind.
        layout: &'static str,
        /// The field with the wrong number of entries.
        field: &'static str,
        /// How many entries it has.
        found: usize,
        /// How many the layout's rank asks for.
        wanted: usize,
    },
    /// An entry that must be a power of two is not.
    NotPowerOfTwo {
        /// The layout's kind.
        layout: &'static str,
        /// The field.
        field: &'static str,
        /// The dimension (or the position in the list).
        at: usize,
        /// The entry.
        value: u32,
    },
    /// Of the warps of a grid, an entry is zero, or a second one is no power of two.
    WarpGrid {
        /// The layout's kind.
        layout: &'static str,
        /// The dimension.
        at: usize,
        /// The entry.
        value: u32,
    },
    /// An order that does not name every dimension once.
    NotAPermutation {
        /// The layout's kind.
        layout: &'static str,
        /// The order as given.
        order: Dims,
    },
    /// A layout of one rank on a shape of another.
    ShapeRank {
        /// The layout, printed.
        layout: String,
        /// Its rank.
        rank: usize,
        /// The shape.
        shape: Dims,
    },
    /// A shape with a dimension without elements.
    EmptyDimension {
        /// The shape.
        shape: Dims,
        /// The offending dimension.
        dim: usize,
    },
    /// A shared layout in which a size that is no power of two would leave holes.
    NotCut {
        /// The layout, printed.
        layout: String,
        /// The shape.
        shape: Dims,
        /// Why not.
        why: String,
    },
    /// CTAs of a cluster that split a dimension whose size is no power of two.
    SplitCut {
        /// The layout, printed.
        layout: String,
        /// The shape.
        shape: Dims,
    },
    /// A shape with more elements than a layout can number.
    ShapeTooLarge {
        /// The shape.
        shape: Dims,
    },
    /// The threads of a warp do not multiply to 32.
    LanesPerWarp {
        /// The threads per warp, by dimension.
        threads_per_warp: Dims,
    },
    /// A slice along a dimension that the parent does not have.
    SliceDim {
        /// The dimension to remove.
        dim: u32,
        /// The parent's rank.
        parent_rank: usize,
    },
    /// A slice of a one-dimensional layout.
    SliceOfVector,
    /// A basis vector that breaks the permutation rule of distributed layouts.
    Basis {
        /// The layout's kind.
        layout: &'static str,
        /// The input dimension.
        axis: Axis,
        /// The bit of the input dimension.
        bit: usize,
        /// The basis vector.
        basis: Dims,
        /// What is wrong with it.
        fault: BasisFault,
    },
    /// Bases that leave a hole: no input reaches this coordinate bit.
    NotCovered {
        /// The layout's kind.
        layout: &'static str,
        /// The tensor dimension.
        dim: usize,
        /// The unreached coordinate, a power of two.
        coordinate: u32,
    },
    /// A wrong number of bases for an input dimension.
    BasisCount {
        /// The layout's kind.
        layout: &'static str,
        /// The input dimension.
        axis: Axis,
        /// How many there are.
        found: usize,
        /// How many there must be.
        wanted: usize,
    },
    /// Any other parameter outside what the hardware or the format has.
    Parameter {
        /// The layout's kind.
        layout: &'static str,
        /// The field.
        field: &'static str,
        /// What is there.
        found: String,
        /// What was wanted, as the end of a sentence.
        wanted: String,
    },
    /// A layout or block that TMA cannot move.
    NotForCopies {
        /// The layout, printed.
        layout: String,
        /// Why not, as a sentence.
        why: String,
    },
    /// A shared layout whose rows are shorter than its swizzle.
    RowShorterThanSwizzle {
        /// Bytes of one row of the block (per CTA).
        row_bytes: u32,
        /// The swizzle width.
        swizzle_bytes: u32,
        /// The shape.
        shape: Dims,
    },
    /// A shared layout whose rows are no whole number of swizzles.
    RowNotOfSwizzles {
        /// Bytes of one row of the block.
        row_bytes: u64,
        /// The swizzle width.
        swizzle_bytes: u32,
        /// The shape.
        shape: Dims,
    },
    /// Two shapes with different numbers of elements.
    ElementCount {
        /// One shape.
        from: Dims,
        /// The other.
        to: Dims,
    },
    /// The relation requested does not exist between these layouts.
    NoRelation {
        /// What was requested.
        operation: &'static str,
        /// The layout, printed.
        layout: String,
        /// Why it cannot be.
        why: String,
    },
}

/// What is wrong with one basis vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BasisFault {
    /// More than one dimension is touched.
    SeveralDims,
    /// The entry is not a power of two.
    NotPowerOfTwo,
    /// Another basis already has the same value.
    Repeated,
    /// The basis has another number of entries than the layout's rank.
    Rank,
    /// The basis is the XOR of others, or zero, where every basis must add something.
    Dependent,
    /// The entry lies outside the shape.
    OutsideShape,
    /// Of a number of warps that is no power of two, one of the highest bits neither adds nothing, as all of them do, nor
    /// takes the next larger step along one dimension.
    OfSet,
}

impl fmt::Display for BasisFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SeveralDims => "a basis may have one non-zero entry only",
            Self::NotPowerOfTwo => "its entry must be a power of two",
            Self::Repeated => "another basis already has this value",
            Self::Rank => "it must have one entry per dimension of the layout",
            Self::Dependent => "it must not be zero or the XOR of other bases",
            Self::OutsideShape => "it lies outside the shape",
            Self::OfSet => {
                "where warps are no power of two, their highest bits take the largest steps of one dimension, or none"
            }
        })
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved { .. }
            | Self::FieldRank { .. }
            | Self::NotPowerOfTwo { .. }
            | Self::WarpGrid { .. }
            | Self::NotAPermutation { .. }
            | Self::LanesPerWarp { .. }
            | Self::SliceDim { .. }
            | Self::SliceOfVector
            | Self::Parameter { .. } => self.write_of_parameter(f),
            Self::Basis { .. } | Self::NotCovered { .. } | Self::BasisCount { .. } => {
                self.write_of_bases(f)
            }
            Self::ShapeRank { .. }
            | Self::EmptyDimension { .. }
            | Self::NotCut { .. }
            | Self::SplitCut { .. }
            | Self::ShapeTooLarge { .. }
            | Self::ElementCount { .. } => self.write_of_shape(f),
            Self::RowShorterThanSwizzle { .. }
            | Self::RowNotOfSwizzles { .. }
            | Self::NotForCopies { .. }
            | Self::NoRelation { .. } => self.write_of_use(f),
        }
    }
}

impl LayoutError {
    /// Parameters of a layout that break its rules.
    fn write_of_parameter(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved { layout } => write!(
                f,
                "{layout} is a placeholder; a concrete layout is wanted here"
            ),
            Self::FieldRank {
                layout,
                field,
                found,
                wanted,
            } => {
                write!(
                    f,
                    "{field} of {layout} has {found} entries, but the layout has rank {wanted}"
                )
            }
            Self::NotPowerOfTwo {
                layout,
                field,
                at,
                value,
            } => {
                write!(
                    f,
                    "{field} of {layout} must be powers of two, but entry {at} is {value}"
                )
            }
            Self::WarpGrid { layout, at, value } => write!(
                f,
                "warps of {layout} must be powers of two, all but one of them, but entry {at} is {value}"
            ),
            Self::NotAPermutation { layout, order } => {
                let rank = order.rank();
                write!(
                    f,
                    "order of {layout} must be a permutation of the dimensions 0..{rank}, but is {order}"
                )
            }
            Self::LanesPerWarp { threads_per_warp } => write!(
                f,
                "threads_per_warp {threads_per_warp} multiplies to {}, but a warp has 32 threads",
                threads_per_warp.product()
            ),
            Self::SliceDim { dim, parent_rank } => {
                write!(
                    f,
                    "Slice removes dimension {dim}, but its parent has rank {parent_rank}"
                )
            }
            Self::SliceOfVector => {
                f.write_str("the parent of Slice needs at least two dimensions, but has one")
            }
            Self::Parameter {
                layout,
                field,
                found,
                wanted,
            } => {
                write!(f, "{field} of {layout} is {found}, but {wanted}")
            }
            _ => unreachable!("{self:?} is written by another function"),
        }
    }

    /// Bases of a linear layout that break its rules.
    fn write_of_bases(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Basis {
                layout,
                axis,
                bit,
                basis,
                fault,
            } => {
                write!(f, "{axis} basis {bit} of {layout} is {basis}: {fault}")
            }
            Self::NotCovered {
                layout,
                dim,
                coordinate,
            } => {
                write!(
                    f,
                    "no basis of {layout} reaches coordinate {coordinate} of dimension {dim}"
                )
            }
            Self::BasisCount {
                layout,
                axis,
                found,
                wanted,
            } => {
                write!(f, "{layout} has {found} {axis} bases, but needs {wanted}")
            }
            _ => unreachable!("{self:?} is written by another function"),
        }
    }

    /// Shapes that a layout cannot have.
    fn write_of_shape(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShapeRank {
                layout,
                rank,
                shape,
            } => {
                write!(
                    f,
                    "{layout} has rank {rank}, but the shape {shape} has rank {}",
                    shape.rank()
                )
            }
            Self::EmptyDimension { shape, dim } => {
                write!(f, "dimension {dim} of {shape} has no elements")
            }
            Self::NotCut { layout, shape, why } => {
                write!(f, "{layout} holds no block of {shape}: {why}")
            }
            Self::SplitCut { layout, shape } => {
                write!(
                    f,
                    "the CTAs of a cluster split dimensions of powers of two only, and {layout} splits {shape} along another"
                )
            }
            Self::ShapeTooLarge { shape } => {
                write!(f, "the shape {shape} has more than 2^31 elements")
            }
            Self::ElementCount { from, to } => {
                write!(
                    f,
                    "{from} has {} elements, but {to} has {}",
                    from.product(),
                    to.product()
                )
            }
            _ => unreachable!("{self:?} is written by another function"),
        }
    }

    /// Layouts that an operation or the TMA unit does not take.
    fn write_of_use(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RowShorterThanSwizzle {
                row_bytes,
                swizzle_bytes,
                shape,
            } => write!(
                f,
                "the contiguous dimension of the block {shape} holds {row_bytes} bytes, \
                 less than the swizzle of {swizzle_bytes} bytes"
            ),
            Self::RowNotOfSwizzles {
                row_bytes,
                swizzle_bytes,
                shape,
            } => {
                let fits = SWIZZLES.into_iter().rev().find(|&width| {
                    let is_narrower = width > 0 && width < *swizzle_bytes;
                    is_narrower && row_bytes.is_multiple_of(width.into())
                });
                let other = match fits {
                    Some(width) => format!("a swizzle of {width} bytes fits"),
                    None => "only an unswizzled layout fits".to_owned(),
                };
                write!(
                    f,
                    "the contiguous dimension of the block {shape} holds {row_bytes} bytes, \
                     no multiple of the swizzle of {swizzle_bytes} bytes; {other}"
                )
            }
            Self::NotForCopies { layout, why } => {
                write!(f, "the TMA unit cannot move a block in {layout}: {why}")
            }
            Self::NoRelation {
                operation,
                layout,
                why,
            } => write!(f, "cannot {operation} {layout}: {why}"),
            _ => unreachable!("{self:?} is written by another function"),
        }
    }
}

impl LayoutError {
    /// Would the layout do for sizes that are powers of two?
    pub fn is_of_cut(&self) -> bool {
        matches!(
            self,
            Self::SplitCut { .. } | Self::NotCut { .. } | Self::RowNotOfSwizzles { .. }
        )
    }
}

impl std::error::Error for LayoutError {}
