//! CTAs and clusters while they run.

use super::cluster_barrier::ClusterBarrier;
use super::cluster_life::Visit;
use super::engine::Pending;
use super::linear::Linear;
use super::map_making::MadeMap;
use super::mbarrier::Mbarrier;
use super::order::{ActorId, Actors, Clock, Knowledge};
use super::warp::Warp;
use std::collections::{BTreeMap, VecDeque};

/// Barriers of a CTA (PTX ISA 9.7.13.1).
pub(crate) const BARRIERS: usize = 16;

/// CTAs that run together and see each other's shared memory; one CTA when the launch names no cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Number of the cluster in the order of the grid.
    pub(crate) index: u64,
    pub(crate) ctas: Vec<Cta>,
    /// Warp steps so far.
    pub(crate) steps: u64,
    /// Copies under way.
    pub(crate) pending: VecDeque<Pending>,
    /// Who accesses shared memory.
    pub(crate) actors: Actors,
    /// Times that all waits for mbarriers gave up since a phase ended.
    pub(crate) timeouts: u32,
    pub(crate) barrier: ClusterBarrier,
    /// Tensor maps that the kernel made, by address.
    pub(crate) maps: BTreeMap<u64, MadeMap>,
    /// State of the generator that orders warps.
    pub(crate) random: u64,
}

/// A CTA.
#[derive(Debug)]
pub(crate) struct Cta {
    /// Coordinates in the grid.
    pub(crate) index: [u32; 3],
    pub(crate) shared: Linear,
    pub(crate) barriers: [BarrierState; BARRIERS],
    pub(crate) warps: Vec<Warp>,
    /// mbarriers by shared address.
    pub(crate) mbarriers: BTreeMap<u32, Mbarrier>,
    /// Phases that mbarriers had completed which are no more, by shared address.
    pub(crate) ended_mbarriers: BTreeMap<u32, u32>,
    /// What must be over before the CTA ends: of each actor, the last access.
    pub(crate) visits: BTreeMap<ActorId, Visit>,
    /// What had come when its threads ended.
    pub(crate) at_end: Clock,
}

/// One phase of a CTA barrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct BarrierState {
    /// Threads that have come, in whole warps where a warp came as one.
    pub(crate) arrived: u32,
    pub(crate) expected: u32,
    /// Who has come, and at which step.
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) count: u32,
    pub(crate) all: bool,
    pub(crate) any: bool,
    /// What those who came knew.
    pub(crate) knows: Knowledge,
}

/// A warp at a barrier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) warp: u32,
    pub(crate) step: u32,
    pub(crate) waits: bool,
}

/// What `bar.red` gives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BarrierResult {
    pub(crate) count: u32,
    pub(crate) all: bool,
    pub(crate) any: bool,
}

impl Cta {
    /// All threads have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.warps.iter().all(Warp::is_done)
    }
}

impl Cluster {
    /// All threads have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.ctas.iter().all(Cta::is_done)
    }

    /// The next number of a sequence that the seed determines.
    pub(crate) fn next_random(&mut self) -> u64 {
        // Xorshift: state is never zero.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
