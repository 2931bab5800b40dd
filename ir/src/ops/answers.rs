//! The types in which ops answer: types of results, ties of layouts, ends of regions, named barriers.

use smallvec::SmallVec;

use crate::Type;

/// The types of an op's results.
pub type Types = SmallVec<[Type; 1]>;

/// What a region ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// The body of the kernel, in `return`.
    Return,
    /// A region of an op, in `yield`.
    Yield,
    /// The test of a `while`, in `condition`.
    Condition,
}

impl Terminator {
    /// Its mnemonic.
    pub const fn name(self) -> &'static str {
        match self {
            Terminator::Return => "return",
            Terminator::Yield => "yield",
            Terminator::Condition => "condition",
        }
    }
}

/// How an op ties the layouts of its tensor operands and results. The resolve passes and the verifier ask this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutRule {
    /// No tie: each side has its own.
    Free,
    /// All tensor operands and results have one layout, and each element is made of those at its own place.
    Same,
    /// All tensor operands and results have one layout, and elements along a dimension are combined.
    Along,
    /// The same, and results follow, as many as operands, that have the slice of that layout along `axis`.
    AlongWithTotals {
        /// The dimension that they lack.
        axis: u32,
    },
    /// The operands have one layout, and the results are the first elements along a dimension, where they are.
    Keep,
    /// The operands have a parent layout, the results its slice along `axis`.
    Reduce {
        /// The dimension that is removed.
        axis: u32,
    },
    /// The operand has a slice along `axis`, the result its parent.
    ExpandDims {
        /// The dimension that is inserted.
        axis: u32,
    },
    /// Dimension `i` of the result is dimension `order[i]` of the operand.
    Permute {
        /// The new order.
        order: ::layout::Dims,
    },
    /// The elements stay where they are and are counted in another shape.
    Reshape,
    /// Two results from the last dimension of one operand.
    Split,
    /// One result with a new last dimension from two operands.
    Join,
    /// The operand, whose layout was open, takes that of the result.
    Set,
    /// The result is a range of the operand's dimension, where it is.
    Part(::layout::relate::Part),
    /// The operands are ranges of the result's dimension, where they are, one after the other.
    Cat {
        /// The dimension.
        axis: usize,
    },
    /// The indices and the result have one layout, the source its own.
    Gather,
    /// A control-flow op: the values that flow together have one layout.
    Flow,
}

/// A barrier that partitions share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedBarrier {
    /// Which of those that the author named, from 0.
    pub number: u32,
    /// Threads that arrive, over all partitions.
    pub threads: u32,
}
