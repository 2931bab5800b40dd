//! Where the results of a split go.

use tilekit::prelude::*;

/// The destination of results: the output if there is one split, else the workspace that `merge_splits` reads.
#[derive(Clone, Copy)]
pub(super) struct Partial<T> {
    pub(super) out: Ptr<T>,
    /// Elements from one batch, head and token of the output to the next.
    pub(super) strides: [Scalar<i64>; 3],
    pub(super) lse: Ptr<f32>,
    /// Outputs of each split.
    pub(super) sums: Ptr<f32>,
    /// LSE of each split.
    pub(super) lse_of_splits: Ptr<f32>,
    pub(super) sinks: Ptr<f32>,
    pub(super) has_sinks: Scalar<bool>,
}
