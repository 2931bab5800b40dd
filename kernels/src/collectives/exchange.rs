//! Steps in which the CTAs of one index on all ranks transfer chunks to each other.

use tilekit::prelude::*;

use super::arrivals::after;
use super::form::{Form, MOST_RANKS};

/// Staging slots that steps take in turns.
pub(super) const SLOTS: usize = 4;

/// Bytes of a slot for the chunk of one rank.
pub(super) const SLOT_BYTES: usize = 16384;

/// What the CTAs with one index on all ranks transfer to each other, in *steps*: in each, a CTA stores a chunk into memory of each other rank, signals there,
/// waits for the signals of all, and reads what arrived. CTAs of different index have nothing in common, so there is no barrier of the grid.
///
/// # Slots
///
/// `staging` has, for each CTA, [`SLOTS`] slots, with the chunks of all ranks in each; step s takes the slot s mod [`SLOTS`]. A CTA sends step s once it has
/// finished step s - 2, which asks for everyone's signal of that step; and who signalled step s - 2 had finished s - 4 before, the last one that had the same slot. So nobody
/// overwrites what is still read, and nobody waits for room. Signals also go to ranks that a step has no data for.
///
/// # Epochs
///
/// Steps are numbered from the first launch on, and the number of the next one lies in `epochs`, one for each CTA, in memory of its rank. A launch reads it and
/// advances it. So launches have no parameter that changes, graphs can repeat them, and launches of different kernels and grids follow each other. Numbers wrap: they are compared by their
/// difference, so that 2³¹ steps and more are right. All ranks launch the same kernels with the same grids, in one order.
#[derive(Clone, Copy, Aggregate, KernelParam)]
pub struct Exchange<T> {
    pub(super) staging: Ptr<T>,
    pub(super) staging_of: PeerMap<T>,
    pub(super) counts: Ptr<i32>,
    pub(super) counts_of: PeerMap<i32>,
    pub(super) epochs: Ptr<i32>,
    pub(super) rank: Scalar<i32>,
    pub(super) limit: WaitLimit,
}

impl<T: Element> Exchange<T> {
    /// The number of the first of so many steps.
    #[track_caller]
    pub(super) fn begin(self, steps: Scalar<i32>) -> Scalar<i32> {
        let epoch = self.epochs.at(program_id(0)).relaxed();
        epoch.atomic_add(steps).old()
    }

    /// The rank that is `distance` further.
    #[device]
    pub(super) fn peer(self, form: Form, distance: usize) -> Scalar<i32> {
        after(form.ranks, self.rank, distance)
    }

    /// Where the chunk of `source` begins in the slot of a step.
    fn place(form: Form, step: Scalar<i32>, source: Scalar<i32>) -> Scalar<i64> {
        let slot = program_id(0) * SLOTS + (step & (SLOTS - 1));
        let chunk = slot * form.ranks + source;
        chunk.cast::<i64>() * (SLOT_BYTES / size_of::<T>())
    }

    /// Stores a chunk of this rank into memory of `peer`.
    #[track_caller]
    pub(super) fn send(
        self,
        form: Form,
        (step, peer): (Scalar<i32>, Scalar<i32>),
        (lanes, inside): (Tensor<i32>, Tensor<bool>),
        chunk: Tensor<T>,
    ) {
        let to = self.staging_of.of(peer);
        let at = Self::place(form, step, self.rank) + lanes;
        to.at(at).mask(inside).store(chunk);
    }

    /// The chunk of `source` in memory of this rank.
    pub(super) fn received(self, form: Form, step: Scalar<i32>, source: Scalar<i32>) -> Ptr<T> {
        self.staging + Self::place(form, step, source)
    }

    /// Signals all other ranks that this one has sent a step: one lane for each.
    #[device]
    pub(super) fn signal(self, form: Form) {
        let rank = arange(0..MOST_RANKS, Coalesced);
        let is_peer = (rank < form.ranks) & (rank != self.rank);
        let addresses = self.counts_of.table().at(rank).mask(is_peer);
        let counts = addresses.other(0).load().to_pointer::<i32>();
        let count = counts.at(program_id(0) * MOST_RANKS + self.rank);
        count
            .mask(is_peer)
            .scope(Scope::Sys)
            .release()
            .atomic_add(1);
    }

    /// Waits until all other ranks have sent a step. It polls relaxed, and acquires by one load of the counts that it has seen: a fence, as an acquiring poll has it, would also wait until
    /// what this CTA has stored for the next step has arrived. That load comes after the polls in coherence order, so it reads what they read or a later addition.
    #[device]
    pub(super) fn wait(self, form: Form, step: Scalar<i32>) {
        let rank = arange(0..MOST_RANKS, Coalesced);
        let is_peer = (rank < form.ranks) & (rank != self.rank);
        let count = self.counts.at(program_id(0) * MOST_RANKS + rank);
        let count = count.mask(is_peer).scope(Scope::Sys);
        let polled = count.relaxed();
        polled.atomic_poll_within(self.limit.ns, |seen| seen - step > 0);
        let seen = count.acquire().atomic_load();
        let missing = select(is_peer, step + 1 - seen, 0);
        let slot = program_id(0) * MOST_RANKS + rank;
        self.limit.check(slot, missing);
    }
}
