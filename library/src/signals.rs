//! Signals between ranks: counts in memory that all ranks share.

use gluon_lang::lang::prelude::*;

use crate::WaitLimit;

/// Counts by which ranks signal each other that data has arrived, or has been read: slots of a buffer of `i32` that every rank has and all may access.
///
/// ```text
/// let signals = Signals::new(own_counts, counts);
/// peers.of(next).at(offsets).store(tile);      // into memory of the next rank
/// signals.signal(next, 0, 1);                  // releases what any thread of this CTA wrote
/// signals.wait(0, epoch);                      // until the rank before has signalled so often
/// let tile = own.at(offsets).load();
/// ```
///
/// All threads of the CTA call it, or all of one partition.
///
/// # Epochs
///
/// Counts only grow: nothing resets them, neither the kernel nor the host between launches. A launch that adds `n` to a slot for each call waits for `epoch * n`,
/// with the number of the call as a parameter, from 1. So a signal of the next call that comes early harms nothing, where a flag that is set and
/// reset loses it. A buffer that is written in each call needs a second count, by which its reader says that it has read it, or two buffers in turns.
///
/// # Order
///
/// 1. `signal` is `red.release.sys` of one thread behind a CTA barrier: what any thread of the CTA wrote before precedes it in causality order (PTX ISA 8.9.4).
/// 2. `wait` polls by `ld.relaxed.sys` and then executes `fence.acq_rel.sys`, an acquire pattern (8.8); the lanes of each warp then synchronize. The scope of
///    the system on both sides makes the two morally strong across GPUs (8.7).
/// 3. When the poll reads what `signal` or a later addition to the slot wrote, the two synchronize (8.8, release sequences).
///
/// A bulk store to a peer is over before `signal` by its own wait in the thread that issued it (`tma_store_wait(0)`, not the wait for its reads). TMA loads of what arrived
/// take [`fence_async_global`] behind `wait`.
///
/// Every CTA that another one waits for must run: the grid of a kernel that waits is `cooperative`, and all ranks launch it.
#[derive(Clone, Copy, Aggregate)]
pub struct Signals {
    own: Ptr<i32>,
    of_ranks: PeerMap<i32>,
}

impl Signals {
    /// The slots of this rank begin at `own`, those of each rank where the map says.
    pub fn new(own: Ptr<i32>, of_ranks: PeerMap<i32>) -> Self {
        Signals { own, of_ranks }
    }

    /// Adds `count` to a slot of a rank, and releases what any thread of the CTA wrote before.
    #[track_caller]
    pub fn signal(self, rank: Scalar<i32>, slot: Scalar<i32>, count: Scalar<i32>) {
        let place = self.of_ranks.of(rank).at(slot).release();
        place.atomic_add(count);
    }

    /// Waits until an own slot has at least `count`, and acquires what was released by the signals.
    #[device]
    #[track_caller]
    pub fn wait(self, slot: Scalar<i32>, count: Scalar<i32>) {
        let place = self.own.at(slot).scope(Scope::Sys).acquire();
        place.atomic_poll(|seen| seen >= count);
    }

    /// The same with waits that end: after `limit` nanoseconds without the signals the kernel says so in `late`, which is memory of the host, and ends with an error.
    pub fn within(self, limit: Scalar<i64>, late: Ptr<i64>) -> SignalsWithin {
        SignalsWithin {
            signals: self,
            limit: WaitLimit { ns: limit, late },
        }
    }
}

/// [`Signals`] whose waits have a limit, so that a rank that never signals ends the kernels of those that wait for it and keeps no GPU.
///
/// A wait that reaches the limit stores `slot << 32 | missing` to the word of the host, where `missing` signals have not arrived, and executes `trap` ([`WaitLimit`]).
///
/// The limit is no part of the time that a kernel takes: the clock is read behind a first read in vain.
#[derive(Clone, Copy, Aggregate)]
pub struct SignalsWithin {
    signals: Signals,
    limit: WaitLimit,
}

impl SignalsWithin {
    /// As [`Signals::signal`].
    #[track_caller]
    pub fn signal(self, rank: Scalar<i32>, slot: Scalar<i32>, count: Scalar<i32>) {
        self.signals.signal(rank, slot, count);
    }

    /// As [`Signals::wait`], up to the limit.
    #[device]
    #[track_caller]
    pub fn wait(self, slot: Scalar<i32>, count: Scalar<i32>) {
        let place = self.signals.own.at(slot).scope(Scope::Sys).acquire();
        let seen = place
            .atomic_poll_within(self.limit.ns, |seen| seen >= count)
            .seen();
        self.limit.check_one(slot, count - seen);
    }
}
