//! Named barriers between partitions.

use super::HostInt;
use super::trace::{self, here};
use ir::ops::sync;

/// A barrier of the hardware (PTX `bar.sync`, `bar.arrive`) that synchronizes the warps of some partitions of
/// [`warp_specialize`](super::warp_specialize): cheaper than an [`Mbarrier`](super::Mbarrier), since no thread polls, and
/// without phases. Of the barriers of a CTA one is for all its threads, one of each partition, and the rest are for these.
///
/// ```text
/// let turn = NamedBarrier::new(2 * 128);
/// warp_specialize()
///     .main(|| { ..; turn.arrive(); .. })          // 128 threads arrive and continue
///     .worker(Warps(4), || { turn.sync(); .. });   // 128 threads wait until all 256 arrived
/// ```
///
/// It completes when all counted threads have arrived, and is then reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedBarrier(sync::NamedBarrier);

impl NamedBarrier {
    /// A new barrier at which `threads` arrive each time, a multiple of 32: those of all partitions that wait and all that only
    /// arrive.
    #[inline]
    #[track_caller]
    pub fn new(threads: impl HostInt) -> Self {
        let at = here();
        let threads = trace::count_of(threads.to_i128(), "the threads of a named barrier", at);
        Self(trace::name_barrier(threads, at))
    }

    /// The threads of this partition arrive, and wait for all others. Writes of the others before their arrival are then visible.
    #[inline]
    #[track_caller]
    pub fn sync(self) {
        trace::named_barrier_arrive(self.0, true, here());
    }

    /// The threads of this partition arrive, and continue. Their earlier writes are visible to threads that wait here.
    #[inline]
    #[track_caller]
    pub fn arrive(self) {
        trace::named_barrier_arrive(self.0, false, here());
    }
}
