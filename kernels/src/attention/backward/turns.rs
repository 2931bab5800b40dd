//! Turns of warpgroups that add terms of dQ from their registers in a fixed order.
//!
//! To learn whose turn it is, and to count what has been added, takes four ways to L2 and back a step. A warp for each warpgroup does both, so that the warpgroup waits for an mbarrier, whose phase has
//! mostly completed. It counts additions of other threads: they happen before the warpgroup's arrival, so before its own release, which is cumulative (PTX ISA 8.8).

use tilekit::prelude::*;

use super::block::Block;
use super::part::GROUPS;
use super::walk::Walk;

/// The turn of a warpgroup, between it and its warp. A phase of each barrier is a step.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    /// The terms of all preceding blocks of keys have been added.
    has_come: Mbarrier,
    /// The warpgroup has added its own.
    is_over: Mbarrier,
}

impl Turn {
    #[device]
    pub(super) fn alloc(groups: usize) -> Self {
        Turn {
            has_come: Mbarrier::alloc(1),
            is_over: Mbarrier::alloc(4 * groups),
        }
    }

    /// Waits for the turn of a step.
    #[device]
    pub(super) fn wait(self, fill: Scalar<i32>) {
        self.has_come.wait(fill & 1);
    }

    /// Ends the turn: each warp has added its terms.
    #[device]
    pub(super) fn end(self) {
        self.is_over.arrival().by(Arrivers::Warp).arrive();
    }
}

impl<W: Walk> Block<W> {
    /// Waits for the turns of half `part` of each block of dQ, and counts additions.
    #[device]
    pub(super) fn keep_turns(self, part: Scalar<i32>, turn: Turn) {
        self.each_step(|member, step| {
            let half_block = step.row_block * GROUPS + part;
            self.await_turn(member, step, half_block);
            turn.has_come.arrival().by(Arrivers::Warp).arrive();
            turn.is_over.wait(step.fill & 1);
            self.pass_turn(half_block);
        });
    }
}
