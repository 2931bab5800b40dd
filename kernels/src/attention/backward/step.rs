//! A step of a CTA of the backward pass, and the query head that it is of.

use tilekit::prelude::*;

use super::walk::Walk;

/// A query head of a CTA's group.
#[derive(Clone, Copy)]
pub(super) struct Member<W: Walk> {
    pub(super) head: Scalar<i32>,
    /// The first of its blocks of queries among those of all heads.
    pub(super) first_block: Scalar<i32>,
    pub(super) of_walk: W::Head,
}

/// One step of a CTA: a block of queries.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// The fill of the pipelines.
    pub(super) fill: Scalar<i32>,
    /// Its number in the order of the walk.
    pub(super) number: Scalar<i32>,
    /// The block of queries of the sequence, and among those of all heads.
    pub(super) block: Scalar<i32>,
    pub(super) row_block: Scalar<i32>,
}

/// A step among those of all query heads, where they are neighbours. Counted from one step to the next: a division by the heads of a group would take longer.
#[derive(Aggregate)]
pub(super) struct Neighbour {
    pub(super) member: Scalar<i32>,
    pub(super) number: Scalar<i32>,
}

impl Neighbour {
    /// So many steps later, of a group of `members`.
    #[device]
    pub(super) fn later(self, steps: usize, members: Scalar<i32>) -> Neighbour {
        (0..steps).fold(self, |Neighbour { member, number }, _| {
            let is_last = member + 1 == members;
            Neighbour {
                member: select(is_last, 0, member + 1),
                number: select(is_last, number + 1, number),
            }
        })
    }
}
