//! What becomes of an instruction that is folded.

use ir::entity::{Region, Value};
use ir::ops::create::{Const, Constant};
use ir::ops::{Op, Values};

/// What becomes of an instruction.
pub(super) enum Outcome {
    /// Another op in its place, with the same results.
    Op(Op),
    /// Its results are these values.
    Values(Values),
    /// It does nothing.
    Nothing,
    /// Its results are what these instructions, which run in any case, yield.
    Inline {
        region: Region,
        /// What the parameters of the region are.
        params: Values,
    },
}

impl Outcome {
    pub(super) fn value(value: Value) -> Outcome {
        Outcome::Values(std::iter::once(value).collect())
    }

    pub(super) fn constant(value: Const) -> Outcome {
        Outcome::Op(Constant { value }.into())
    }
}
