//! What a CTA barrier and the barrier of a cluster hold.

use crate::machine::order::{Clocks, Stamp};

/// One phase of a CTA barrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct BarrierState {
    /// Threads that have arrived; a warp that arrives whole counts 32.
    pub(crate) arrived: u32,
    pub(crate) expected: u32,
    /// The warps that have arrived, and at which steps.
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) count: u32,
    pub(crate) all: bool,
    pub(crate) any: bool,
    /// What happens before the arrivals.
    pub(crate) clocks: Clocks,
    /// The arrivals of the phase before.
    pub(crate) before: Vec<Arrival>,
    /// When the last arrived, where a launch models time.
    pub(crate) time: u64,
}

/// A warp at a barrier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) warp: u32,
    pub(crate) lanes: u32,
    pub(crate) stamp: Stamp,
    pub(crate) waits: bool,
}

/// The result of `bar.red`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BarrierResult {
    pub(crate) count: u32,
    pub(crate) all: bool,
    pub(crate) any: bool,
}

/// One phase of the barrier. Threads that have exited count as arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterBarrier {
    pub(crate) phase: u64,
    pub(crate) arriving: Clocks,
    pub(crate) completed: Clocks,
    /// When the last of the phase arrived, and of the one before, where a launch models time.
    pub(crate) arriving_at: u64,
    pub(crate) completed_at: u64,
}
