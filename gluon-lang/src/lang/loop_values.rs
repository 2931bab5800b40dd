//! The bounds of a loop as values of the kernel.

use ir::entity::Value;

/// The indices from `low` below `high` by `step`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeValues {
    pub(crate) low: Value,
    pub(crate) high: Value,
    pub(crate) step: Value,
    pub(crate) direction: Direction,
}

/// Which way a range goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Its step is positive.
    Up,
    /// Its step is negative.
    Down,
    /// The kernel knows when it runs.
    Either,
}
