//! Producers and consumers of a pipeline. The arrival counts of its mbarriers follow from them.

use gluon_lang::lang::prelude::*;

/// Warps of a warpgroup.
const WARPGROUP: usize = 4;
/// Threads of a warp.
const WARP: usize = 32;

/// The producers of a pipeline.
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

/// The consumers of a pipeline, which read and release stages.
#[derive(Clone, Copy, Debug)]
pub struct Consumers {
    arrivals: usize,
    by: Arrivers,
    sharing: Sharing,
}

/// The CTAs whose loads a consumer reads, and to which it releases.
#[derive(Clone, Copy, Debug)]
enum Sharing {
    /// Its own.
    Own,
    /// The first ones of the cluster.
    First(usize),
    /// Those of its row and of its column, in a cluster of rows and columns.
    Grid([usize; 2]),
}

impl Sharing {
    /// The number of CTAs that release to one.
    fn ctas(self) -> usize {
        match self {
            Sharing::Own => 1,
            Sharing::First(ctas) => ctas,
            Sharing::Grid([rows, columns]) => rows + columns - 1,
        }
    }
}

impl Consumers {
    /// So many warps of this CTA, each of which arrives once.
    pub fn warps(warps: usize) -> Self {
        Consumers {
            arrivals: warps,
            by: Arrivers::Warp,
            sharing: Sharing::Own,
        }
    }

    /// So many warpgroups of this CTA. Each of their warps arrives, so that a warpgroup need not synchronize.
    pub fn warpgroups(groups: usize) -> Self {
        Consumers::warps(groups * WARPGROUP)
    }

    /// So many warpgroups of this CTA. One thread of each arrives: the one that issues bulk stores and has waited for them.
    pub fn issuers_of_warpgroups(groups: usize) -> Self {
        Consumers {
            arrivals: groups,
            by: Arrivers::Warpgroup,
            sharing: Sharing::Own,
        }
    }

    /// The same in each of the first `ctas` CTAs of the cluster, each of which multicasts to all. Each consumer releases to all.
    #[must_use]
    pub fn of_ctas(mut self, ctas: usize) -> Self {
        self.sharing = Sharing::First(ctas);
        self
    }

    /// The same in a cluster of `[rows, columns]` CTAs, powers of two, whose rank is `row * columns + column`, or of several such grids
    /// one after the other. What a CTA loads is read by the CTAs of its row, as tiles of A are in a product, or by those of its column, as
    /// tiles of B are. Each consumer releases to all of them: to `rows + columns - 1` CTAs, its own among them.
    #[must_use]
    #[track_caller]
    pub fn of_grid(mut self, [rows, columns]: [usize; 2]) -> Self {
        static_assert!(
            rows.is_power_of_two() && columns.is_power_of_two(),
            "a cluster of {rows} by {columns} CTAs has no powers of two"
        );
        static_assert!(
            cluster_size().is_multiple_of(rows * columns),
            "a cluster has {} CTAs, and {rows} by {columns} share tiles",
            cluster_size()
        );
        self.sharing = Sharing::Grid([rows, columns]);
        self
    }

    /// Arrivals that complete a phase of `empty`.
    pub(super) fn arrivals(self) -> usize {
        self.arrivals * self.sharing.ctas()
    }

    /// One more warp, which releases by itself.
    pub(crate) fn and_a_warp(mut self) -> Self {
        self.arrivals += 1;
        self
    }

    /// Does each warp arrive?
    pub(crate) fn are_warps(self) -> bool {
        self.by == Arrivers::Warp
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
        match self.sharing {
            Sharing::Own | Sharing::First(1) => arrival.arrive(),
            Sharing::First(ctas) => {
                for cta in 0..ctas {
                    arrival.in_cta(cta).arrive();
                }
            }
            Sharing::Grid([rows, columns]) => {
                arrival.arrive();
                let rank = cluster_rank();
                let in_row = 1..columns;
                let in_column = (1..rows).map(|row| row * columns);
                for other in in_row.chain(in_column) {
                    let other = Scalar::<i32>::of(other);
                    arrival.in_cta(rank ^ other).arrive();
                }
            }
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
