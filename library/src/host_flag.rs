//! Flags between a kernel and the host, while the kernel runs.

use gluon_lang::lang::Seen;
use gluon_lang::lang::prelude::*;

/// A flag in mapped memory (`MappedBuffer<i32>`), by which a kernel and the host hand data to each other while the kernel runs. One side sets it,
/// the other waits for it.
///
/// ```text
/// let [ready, taken] = [HostFlag::new(flags), HostFlag::new(flags + 1)];
/// for chunk in range(0, chunks) {
///     ..                                   // stores to mapped memory that the host reads
///     ready.set(chunk + 1);
///     taken.wait(|seen| seen > chunk);     // the host has read them
/// }
/// ```
///
/// On the host the other ends are `flags.wait_until(&stream, 0, |seen| seen > chunk)` and `flags.release(1, chunk + 1)`.
///
/// All threads of the CTA call it, or all of one partition. A flag is set by one side: by one CTA, or by the host. Both sides only load and store
/// it, since a read-modify-write that the host takes part in may not be atomic (PTX ISA 8.1.1).
///
/// Nobody may wait for what follows its own answer: a host that waits for the end of the launch answers no flag, and a CTA that waits keeps its
/// place, so that one which has not started may find none. Where CTAs wait for answers to each other, the kernel is `cooperative`.
///
/// # Order
///
/// Let W be a write of any thread of the CTA before `set`, and R a read of the host after its `wait_until`.
///
/// 1. `set` is `st.release.sys`, or a `fence.acq_rel.sys` and a relaxed store, of one thread, behind a CTA barrier. W precedes it in causality order: it is in
///    program order before that barrier, which synchronizes (PTX ISA 8.9.4, 8.9.5).
/// 2. The scope of the system includes the threads of the host (8.5); the narrower `.gpu` does not, and would leave the two not morally strong
///    (8.7). The host loads the flag as an atomic of 32 bits that acquires.
/// 3. When that load reads what `set` stored, the release pattern synchronizes with the acquire pattern (8.8, 8.9.4). W precedes R in
///    causality order, and R does not read what was there before W (8.10.6).
///
/// From the host to the kernel it is the same with the sides exchanged: `release` of the host is an atomic store that releases, `wait` is
/// `ld.acquire.sys` by one lane of each warp, whose lanes then synchronize (`bar.warp.sync`).
///
/// A store by TMA or bulk copy is over before `set` by its own wait (`tma_store_wait(0)`), and a load by them of what the host wrote takes a
/// `fence.proxy.async` behind `wait`. Loads through `#[readonly]` parameters are outside of the model (8.1): mapped memory that changes is no
/// `#[readonly]`.
#[derive(Clone, Copy, Aggregate)]
pub struct HostFlag {
    word: Ptr<i32>,
}

impl HostFlag {
    /// The flag that `word` points to.
    pub fn new(word: Ptr<i32>) -> Self {
        HostFlag { word }
    }

    /// Stores `value`, and releases what any thread of the CTA wrote before.
    #[track_caller]
    pub fn set(self, value: Scalar<i32>) {
        let place = self.word.at(0).scope(Scope::Sys).release();
        place.atomic_store(value);
    }

    /// Waits until `until` of the flag is true, and acquires what was released with it. As for `atomic_poll`, `until` only computes with scalars.
    #[track_caller]
    pub fn wait(self, until: impl FnOnce(Scalar<i32>) -> Scalar<bool>) -> Seen<Scalar<i32>> {
        let place = self.word.at(0).scope(Scope::Sys).acquire();
        place.atomic_poll(until)
    }
}
