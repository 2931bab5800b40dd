//! CTAs and clusters while they run.

use crate::fault::Trouble;
use crate::machine::order::{Actor, ActorId, Actors, Clock, MbarrierId, Stamp};
use crate::machine::state::barrier::{BarrierState, ClusterBarrier};
use crate::machine::state::copies::Pending;
use crate::machine::state::draws::Draws;
use crate::machine::state::linear::Linear;
use crate::machine::state::mbarrier::Mbarrier;
use crate::machine::state::units::Units;
use crate::machine::state::warp::Warp;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use target::Target;

/// CTAs that run together and see each other's shared memory; one CTA when the launch names no cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Number of the cluster in the order of the grid.
    pub(crate) index: u64,
    /// The same after the clusters of the devices before its own.
    pub(crate) number: u32,
    /// Rank of its device.
    pub(crate) device: u16,
    /// The machine whose limits hold.
    pub(crate) target: &'static Target,
    pub(crate) ctas: Vec<Cta>,
    /// Warp steps so far.
    pub(crate) steps: u64,
    /// TMA and bulk copies in flight.
    pub(crate) pending: VecDeque<Pending>,
    /// The actors that access shared memory.
    pub(crate) actors: Actors,
    /// Times that all waits for mbarriers gave up since a phase ended.
    pub(crate) timeouts: u32,
    pub(crate) barrier: ClusterBarrier,
    /// Tensor maps that the kernel wrote, by address.
    pub(crate) maps: BTreeMap<u64, WrittenMap>,
    /// The first read of shared memory that nothing had written.
    pub(crate) first_use: Option<FirstUse>,
    /// What it has drawn from counters, where a launch models time.
    pub(crate) draws: Draws,
    /// State of the generator that orders warps.
    pub(crate) random: u64,
    /// The steps that the cluster had run when a starved warp could run and others were preferred.
    pub(crate) starving_since: Option<u64>,
    /// The steps that the cluster had run when a copy was in flight first, or behind the last that completed, where copies are late.
    pub(crate) late_since: Option<u64>,
}

/// A CTA.
#[derive(Debug)]
pub(crate) struct Cta {
    /// Coordinates in the grid.
    pub(crate) index: [u32; 3],
    pub(crate) shared: Linear,
    /// As many as the target has.
    pub(crate) barriers: Box<[BarrierState]>,
    pub(crate) warps: Vec<Warp>,
    /// Where a launch models time.
    pub(crate) units: Units,
    /// mbarriers by shared address.
    pub(crate) mbarriers: BTreeMap<u32, Mbarrier>,
    /// Phases that mbarriers had completed which are no more, by shared address.
    pub(crate) ended_mbarriers: BTreeMap<u32, u32>,
    /// What must be over before the CTA ends: of each actor, the last access.
    pub(crate) remote_accesses: BTreeMap<ActorId, RemoteAccess>,
    /// What happens before the exit of its threads.
    pub(crate) at_end: Clock,
}

impl Cta {
    /// All threads have exited.
    pub(crate) fn is_done(&self) -> bool {
        self.warps.iter().all(Warp::is_done)
    }
}

impl Cluster {
    /// All threads have exited.
    pub(crate) fn is_done(&self) -> bool {
        self.ctas.iter().all(Cta::is_done)
    }

    /// Warps of all its CTAs.
    pub(crate) fn warps(&self) -> usize {
        self.ctas.iter().map(|cta| cta.warps.len()).sum()
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

/// A read of shared memory that nothing has written, whose report waits for a write that may race with it.
#[derive(Debug)]
pub(crate) struct FirstUse {
    pub(crate) trouble: Box<Trouble>,
    pub(crate) cta: usize,
    pub(crate) warp: u32,
    pub(crate) step: u32,
    /// The steps that the cluster had run.
    pub(crate) at_step: u64,
}

/// What must be over before a CTA ends: an access from another CTA, or a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteAccess {
    pub(crate) stamp: Stamp,
    /// The warp that accessed, or issued the copy.
    pub(crate) cta: usize,
    pub(crate) warp: u32,
    pub(crate) lanes: u32,
}

/// A tensor map in global memory that a warp wrote. TMA reads maps through the tensormap proxy (PTX ISA 8.10): the writer
/// releases them, and each warp that uses them acquires them.
#[derive(Clone, Debug)]
pub(crate) struct WrittenMap {
    pub(crate) maker: ActorId,
    pub(crate) is_released: bool,
    /// The warps that have acquired it since.
    pub(crate) acquirers: BTreeSet<ActorId>,
}

impl Cluster {
    /// The name of an actor in messages.
    pub(crate) fn name(&self, actor: ActorId) -> String {
        let (cta, warp) = match self.actors.get(actor) {
            Actor::Warp { cta, warp }
            | Actor::ProductsOfWarp { cta, warp }
            | Actor::BulkGroups { cta, warp, .. }
            | Actor::BulkWrites { cta, warp, .. } => (cta, warp),
            Actor::Mbarrier(id) => return format!("the mbarrier at {:#x}", id.address),
            Actor::Products { cta, warpgroup } => (cta, warpgroup * 4),
        };
        if self.ctas.len() == 1 {
            format!("warp {warp}")
        } else {
            format!("warp {warp} of CTA {cta}")
        }
    }

    /// The mbarrier, or one that was at this address before, has completed so many phases.
    pub(crate) fn has_completed(&self, id: MbarrierId, epoch: u32) -> bool {
        let cta = &self.ctas[usize::from(id.cta)];
        let now = cta.mbarriers.get(&id.address).map(Mbarrier::epoch);
        let ended = || cta.ended_mbarriers.get(&id.address).copied();
        now.or_else(ended).unwrap_or(0) >= epoch
    }
}
