//! A barrier of all CTAs of a launch.

use gluon_lang::lang::prelude::*;

/// The epoch is in the upper half of the word, the arrivals in the lower.
const EPOCH: u32 = 32;

/// A barrier of all CTAs of a launch: writes of any CTA before it are visible to all CTAs after it. One launch replaces several, and
/// keeps in registers and shared memory what these would store and load again.
///
/// ```text
/// #[kernel(warps = 4, cooperative)]
/// fn relax(.., word: Ptr<u64>) {
///     let barrier = GridBarrier::new(word);
///     for _ in range(0, steps) {
///         ..                   // stores that other CTAs read
///         barrier.sync();
///         ..                   // loads of what other CTAs stored
///     }
/// }
/// ```
///
/// `word` is one u64 in global memory, 0 before the first launch. Successive launches, of any grid, share it without a reset; launches
/// that may overlap each need their own. The kernel is `cooperative`: a launch whose grid cannot be resident as a whole is refused, since
/// a CTA that waits for one that has not started would deadlock.
///
/// All threads of the CTA call it, or all of one partition, in every CTA equally often. In a partition it orders the accesses of that
/// partition.
///
/// # Order
///
/// The word holds an *epoch* in its high half, and arrivals in its low one. Of n CTAs, the first adds 2³² - (n - 1), and each other one adds 1: once
/// all have arrived, and not before, the high half has grown by 1 and the low half is 0 again. Who arrives reads the epoch e, and waits until it
/// is no longer e. It cannot be further than e + 1 by then: the next epoch ends with an arrival of every CTA, which follows the waits of all its warps.
///
/// Let W be a write of any thread before its arrival, and R a read of any other thread after its wait.
///
/// 1. The arrival is `atom.add.release.gpu` by one thread, behind a CTA barrier. W precedes it in causality order: it is in program order
///    before that barrier, which synchronizes (PTX ISA 8.9.4, 8.9.5).
/// 2. The poll is `ld.acquire.gpu` by one lane of each warp. What it reads in the end is written by the last arrival. All arrivals are
///    read-modify-writes of one word, morally strong, since they are of one scope (8.7); so each of them precedes the
///    last read in observation order (8.9.2), not only the arrival that it reads from.
/// 3. So the release pattern of *each* arrival synchronizes with the acquire pattern of *each* poll (8.8, 8.9.4), and the lanes of the
///    warp synchronize after it (`bar.warp.sync`). W precedes R in causality order, and R does not read what was there
///    before W (8.10.6).
///
/// That holds for loads and stores of threads. Accesses of the async proxy need their own waits: `tma_store_wait(0)` before the barrier for tiles
/// stored by TMA, and `fence_async_shared` orders shared memory alone. Loads through `#[readonly]` parameters and L2 prefetches are outside of
/// the model (8.1): memory that changes between barriers must not be `#[readonly]`.
#[derive(Clone, Copy, Aggregate)]
pub struct GridBarrier {
    word: Ptr<u64>,
}

/// An arrival of this CTA, for the wait that belongs to it.
#[derive(Aggregate, Debug)]
#[must_use = "an arrival without its wait lets the CTA run ahead of the others"]
pub struct GridArrival {
    epoch: Scalar<u64>,
}

impl GridBarrier {
    /// The barrier that `word` holds. The kernel is `#[kernel(cooperative)]`; any other one fails to compile (TK0017).
    #[track_caller]
    pub fn new(word: Ptr<u64>) -> Self {
        static_assert!(
            is_cooperative(),
            "a grid barrier needs all CTAs to be resident: write `#[kernel(.., cooperative)]`"
        );
        GridBarrier { word }
    }

    /// Waits until all CTAs of the launch have arrived.
    #[track_caller]
    pub fn sync(self) {
        let arrived = self.arrive();
        self.wait(arrived);
    }

    /// The first half: releases the writes of this CTA, and continues with work that depends on no other CTA.
    #[device]
    pub fn arrive(self) -> GridArrival {
        let ctas = num_programs(0) * num_programs(1) * num_programs(2);
        let is_first = (program_id(0) | program_id(1) | program_id(2)) == 0;
        let rest = (1_u64 << EPOCH) + 1 - ctas.cast::<u64>();
        let step = select(is_first, rest, 1_u64);
        let old = self.word.at(0).release().atomic_add(step).old(); // mutate: equivalent(bar.sync): two stand before it, and either is enough
        GridArrival {
            epoch: old >> EPOCH,
        }
    }

    /// The second half: waits until all CTAs have arrived, and acquires what they wrote.
    #[device]
    pub fn wait(self, arrived: GridArrival) {
        self.word
            .at(0)
            .atomic_poll(|seen| (seen >> EPOCH) != arrived.epoch);
    }
}
