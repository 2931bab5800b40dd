//! Who fills the stages of a pipeline, and who reads them. All arrival counts of its mbarriers follow from this.

use gluon_lang::lang::prelude::*;

/// Warps of a warpgroup.
const WARPGROUP: usize = 4;
/// Threads of a warp.
const WARP: usize = 32;

/// Who fills a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Producers {
    /// One partition issues TMA loads (or bulk copies) by an elected thread. The mbarrier counts one arrival, which expects the bytes of a
    /// stage.
    Tma,
    /// The threads of so many warps copy by `cp.async` ([`copy_to`](Access::copy_to)). The mbarrier counts each of them, and each arrives
    /// when its copies are complete.
    Copies {
        /// Warps that copy.
        warps: usize,
    },
    /// The threads of so many warps store ([`Smem::store`]). The mbarrier counts one arrival for each warp, after a fence of the async
    /// proxy.
    Stores {
        /// Warps that store.
        warps: usize,
    },
}

impl Producers {
    /// Arrivals that complete a phase of `full`.
    pub(super) fn arrivals(self) -> usize {
        match self {
            Producers::Tma => 1,
            Producers::Copies { warps } => warps * WARP,
            Producers::Stores { warps } => warps,
        }
    }
}

/// Who reads a stage, and so releases it.
#[derive(Clone, Copy, Debug)]
pub struct Consumers {
    arrivals: usize,
    by: Arrivers,
    ctas: usize,
}

impl Consumers {
    /// So many warps of this CTA, each of which arrives once.
    pub fn warps(warps: usize) -> Self {
        Consumers {
            arrivals: warps,
            by: Arrivers::Warp,
            ctas: 1,
        }
    }

    /// So many warpgroups of this CTA. Each of their warps arrives, so that a warpgroup need not synchronize.
    pub fn warpgroups(groups: usize) -> Self {
        Consumers::warps(groups * WARPGROUP)
    }

    /// So many warpgroups of this CTA, of which one thread arrives: the one that issues bulk stores, so that what it waited for
    /// holds for all.
    pub fn issuers_of_warpgroups(groups: usize) -> Self {
        Consumers {
            arrivals: groups,
            by: Arrivers::Warpgroup,
            ctas: 1,
        }
    }

    /// The same in each of the first `ctas` CTAs of the cluster: what one loads, all of them read. Each releases to all.
    #[must_use]
    pub fn of_ctas(mut self, ctas: usize) -> Self {
        self.ctas = ctas;
        self
    }

    /// Arrivals that complete a phase of `empty`.
    pub(super) fn arrivals(self) -> usize {
        self.arrivals * self.ctas
    }

    /// Arrivals of one CTA.
    pub(super) fn arrivals_of_cta(self) -> usize {
        self.arrivals
    }

    /// Releases to this CTA's `empty`, or to those of all CTAs that load for this one; where `condition` holds.
    #[track_caller]
    pub(super) fn release(self, empty: Mbarrier, condition: Option<Scalar<bool>>) {
        let arrival = match condition {
            Some(condition) => empty.arrival().by(self.by).when(condition),
            None => empty.arrival().by(self.by),
        };
        if self.ctas == 1 {
            return arrival.arrive();
        }
        for cta in 0..self.ctas {
            arrival.in_cta(cta).arrive();
        }
    }

    /// Releases to CTA `rank` alone.
    #[track_caller]
    pub(super) fn release_to(
        self,
        rank: Scalar<i32>,
        read: Mbarrier,
        condition: Option<Scalar<bool>>,
    ) {
        let arrival = read.arrival().by(self.by).in_cta(rank);
        match condition {
            Some(condition) => arrival.when(condition).arrive(),
            None => arrival.arrive(),
        }
    }
}
