//! The executing warp at a step, the worker that runs it, and the outcome of the step.

use crate::fault::{FaultKind, LaneSet, Stepped, Trouble};
use crate::machine::order::{Kind, Lane, Stamp};
use crate::machine::state::cluster::Cluster;
use crate::machine::state::context::Context;
use crate::machine::state::mbarrier::By;
use crate::machine::state::stats::Counts;
use crate::machine::state::warp::{Path, Wait, Warp};

/// Trouble and its step.
pub(crate) struct Halt {
    pub(crate) trouble: Box<Trouble>,
    pub(crate) step: u32,
}

/// Executes clusters, one after the other, on one thread of the host.
pub(crate) struct Worker<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) counts: Counts,
}

/// The state of a path after a step.
pub(crate) enum Flow {
    /// It continues at the next step.
    Next,
    /// It waits at this step.
    Park(Wait),
    /// It continues at the next step after other paths have run.
    Yield,
}

/// The warp that executes a step, its CTA and its cluster.
pub(crate) struct Scene<'c> {
    pub(crate) cluster: &'c mut Cluster,
    pub(crate) cta: usize,
    pub(crate) warp: &'c mut Warp,
    pub(crate) path: Path,
    /// Lanes of the path whose guard holds.
    pub(crate) mask: u32,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(context: &'a Context<'a>) -> Self {
        Self {
            context,
            counts: Counts::new(context.code.steps.len()),
        }
    }
}

impl Scene<'_> {
    /// Whose shared memory it is, for messages, unless the own CTA's.
    pub(crate) fn owner(&self, cta: usize) -> String {
        if cta == self.cta {
            String::new()
        } else {
            format!(" of CTA {cta} of the cluster")
        }
    }

    /// An access by this warp at this step.
    pub(crate) fn stamp(&self, kind: Kind) -> Stamp {
        Stamp {
            actor: self.warp.actor,
            epoch: self.warp.epoch,
            step: self.path.pc,
            kind,
            lane: Lane::of_mask(self.mask),
        }
    }

    /// What a warp did happens before what a lane of the executing one does next.
    pub(crate) fn is_before(&self, lane: usize, stamp: &Stamp) -> bool {
        let is_own = stamp.actor == self.warp.actor && stamp.lane == Lane::of(lane);
        is_own || self.warp.clocks.of(lane).ordered.has(stamp)
    }

    /// The executing warp at its step.
    pub(crate) fn by(&self) -> By {
        By {
            cta: self.cta,
            warp: self.warp.index,
            step: self.path.pc,
        }
    }

    /// All 32 lanes of the warp execute the instruction, as `.sync.aligned` demands.
    pub(crate) fn check_whole_warp(&self, instruction: &str) -> Stepped {
        let missing = !self.mask;
        if missing == 0 {
            return Ok(());
        }
        let message = format!(
            "{instruction} must be executed by all 32 lanes of a warp, and lanes {} do not execute it",
            LaneSet(missing)
        );
        Err(Trouble::new(FaultKind::IllegalOperand, missing, message))
    }
}
