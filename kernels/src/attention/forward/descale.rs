//! The factors by which elements of 8 bits are multiplied.

use tilekit::prelude::*;

/// A factor for each head of Q, of K and of V: elements times the factor are the numbers that are meant.
#[derive(Clone, Copy)]
pub(super) struct Descale(pub(super) [Ptr<f32>; 3]);

impl Descale {
    /// The factor of the scores of a head, and that of its values.
    #[device]
    pub(super) fn of(self, head: Scalar<i32>, kv_head: Scalar<i32>) -> [Scalar<f32>; 2] {
        let [q, k, v] = self.0;
        let [q, k, v] = [q.at(head), k.at(kv_head), v.at(kv_head)].map(|at| at.load());
        [q * k, v]
    }
}
