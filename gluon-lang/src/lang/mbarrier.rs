//! Barriers in shared memory, which count arrivals and the bytes of asynchronous copies.

use super::mix::ScalarOperand;
use super::trace::{self, Raw, here};
use super::{Carry, HostInt, Scalar, Walker};
use ir::entity::Value;
use ir::ops::create::Const;
pub use ir::ops::mbarrier::Arrivers;
use target::MBARRIER_BYTES;

/// One barrier in shared memory (PTX ISA 9.7.13.15, `mbarrier`). A phase completes when all counted arrivals have arrived and all
/// expected bytes have been copied; then the next one begins. It takes 8 bytes.
///
/// Phases are counted by their parity. A wait for phase 0 returns when the first phase is complete, one for phase 1 when
/// the second is; on a fresh barrier a wait for phase 1 returns at once.
///
/// ```text
/// let full = Mbarrier::alloc(1);
/// full.expect(a.block_bytes());
/// a.load([row, 0], tile, full);
/// full.wait(0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Mbarrier(pub(super) Value);

/// How many arrivals complete a phase: `Mbarriers::alloc(STAGES, Arrivals(4 * GROUPS))`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    count: i128,
}

/// This many arrivals.
#[allow(non_snake_case, reason = "it makes an `Arrivals`")]
pub fn Arrivals(count: impl HostInt) -> Arrivals {
    Arrivals {
        count: count.to_i128(),
    }
}

impl Arrivals {
    fn count(self, at: trace::At) -> u32 {
        let of = trace::Counted {
            what: "the number of arrivals of a phase",
            least: 1,
            most: |target| target.mbarrier.arrivals,
            help: "count the arrivals of one phase: 1 where one thread expects the bytes of the copies",
        };
        trace::checked_count(self.count, &of, at).unwrap_or(1)
    }
}

/// An array of barriers, one for each stage of a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Mbarriers(Value);

impl Mbarriers {
    /// `len` new barriers, each of which completes a phase after so many arrivals. Threads of this CTA and TMA
    /// may use them at once; other CTAs of the cluster after a cluster barrier.
    #[track_caller]
    pub fn alloc(len: impl HostInt, arrivals: Arrivals) -> Self {
        let at = here();
        let of = trace::Counted {
            what: "the length of an array of barriers",
            least: 1,
            most: |target| target.cta.shared_bytes / MBARRIER_BYTES,
            help: "an array has a barrier for each stage of a pipeline, a few; a barrier takes 8 bytes of shared memory",
        };
        let len = trace::checked_count(len.to_i128(), &of, at).unwrap_or(1);
        let count = arrivals.count(at);
        let array = trace::mbarrier_alloc(Some(len), at);
        for stage in 0..len {
            let stage = Raw::Const(Const::Int(stage.into()));
            let barrier = trace::smem_index(array, stage, at);
            trace::mbarrier_init(barrier, count, at);
        }
        Self(array)
    }

    /// The same, which timelines call so beside the variable that it was made for: `pipeline.full`.
    #[must_use]
    pub fn labelled(self, label: &str) -> Self {
        trace::label_value(self.0, label);
        self
    }

    /// The barrier of a stage.
    #[inline]
    #[track_caller]
    pub fn index(self, stage: impl ScalarOperand<i32>) -> Mbarrier {
        Mbarrier(trace::smem_index(self.0, stage.into_raw(), here()))
    }
}

impl Mbarrier {
    /// A new barrier that completes a phase after `count` arrivals. Threads and TMA may use it at once; other CTAs of the cluster after a cluster barrier.
    #[track_caller]
    pub fn alloc(count: impl HostInt) -> Self {
        let at = here();
        let count = Arrivals(count).count(at);
        let barrier = trace::mbarrier_alloc(None, at);
        trace::mbarrier_init(barrier, count, at);
        Self(barrier)
    }

    /// The same, which timelines call so beside the variable that it was made for: `pipeline.full`.
    #[must_use]
    pub fn labelled(self, label: &str) -> Self {
        trace::label_value(self.0, label);
        self
    }

    /// Makes it a fresh barrier again, after [`invalidate`](Mbarrier::invalidate).
    #[inline]
    #[track_caller]
    pub fn init(self, count: impl HostInt) {
        let at = here();
        trace::mbarrier_init(self.0, Arrivals(count).count(at), at);
    }

    /// Invalidates it (`mbarrier.inval`). No thread may wait on it any more.
    #[inline]
    #[track_caller]
    pub fn invalidate(self) {
        trace::mbarrier_invalidate(self.0, here());
    }

    /// One arrival that also expects the bytes of copies that complete in this phase (PTX
    /// `mbarrier.arrive.expect_tx`). One elected thread executes it. The emulator reports a phase whose copies deliver other bytes.
    #[inline]
    #[track_caller]
    pub fn expect(self, bytes: impl ScalarOperand<i32>) {
        trace::mbarrier_expect(self.0, bytes.into_raw(), None, here());
    }

    /// The same where a condition holds.
    #[inline]
    #[track_caller]
    pub fn expect_when(self, condition: Scalar<bool>, bytes: impl ScalarOperand<i32>) {
        let condition = Some(condition.value());
        trace::mbarrier_expect(self.0, bytes.into_raw(), condition, here());
    }

    /// One arrival of all threads: a barrier of the partition, then one elected thread arrives.
    #[inline]
    #[track_caller]
    pub fn arrive(self) {
        self.arrival().arrive_at(here());
    }

    /// Every thread arrives once its [copies](super::Access::copy_to) so far are complete. The barrier counts every thread.
    /// Another partition that waits for it executes [`fence_async_shared`](super::fence_async_shared) before TMA or tensor
    /// cores read what was copied.
    #[inline]
    #[track_caller]
    pub fn arrive_after_copies(self) {
        trace::async_arrive(self.0, true, here());
    }

    /// The phase is not complete before each thread's [copies](super::Access::copy_to) so far are. The barrier does not count
    /// this; the threads arrive besides. Fenced as after [`arrive_after_copies`](Mbarrier::arrive_after_copies).
    #[inline]
    #[track_caller]
    pub fn include_copies(self) {
        trace::async_arrive(self.0, false, here());
    }

    /// An arrival to be described: `empty.arrival().by(Arrivers::Warpgroup).in_cta(0).arrive()`.
    #[inline]
    pub fn arrival(self) -> Arrival {
        Arrival {
            barrier: self,
            by: Arrivers::Partition,
            count: 1,
            condition: None,
            cta: None,
        }
    }

    /// Waits until the phase of this parity, 0 or 1, is complete. Accesses before its arrivals, and writes of its copies, are visible
    /// afterwards.
    #[inline]
    #[track_caller]
    pub fn wait(self, phase: impl ScalarOperand<i32>) {
        trace::mbarrier_wait(self.0, phase.into_raw(), None, here());
    }

    /// The same where a condition holds.
    #[inline]
    #[track_caller]
    pub fn wait_when(self, condition: Scalar<bool>, phase: impl ScalarOperand<i32>) {
        trace::mbarrier_wait(self.0, phase.into_raw(), Some(condition.value()), here());
    }

    /// Tests whether the phase of this parity is complete, and continues at once. Threads may get different results, which therefore only
    /// a later [wait](Tried::wait) can use.
    #[inline]
    #[track_caller]
    pub fn try_wait(self, phase: impl ScalarOperand<i32>) -> Tried {
        self.tried(phase.into_raw(), None, here())
    }

    /// The same, and threads for which the phase is not complete may be suspended for about so many nanoseconds first. The emulator does
    /// not model time: there they return when the phase is complete, or when nothing else can run.
    #[inline]
    #[track_caller]
    pub fn try_wait_for(
        self,
        phase: impl ScalarOperand<i32>,
        nanoseconds: impl ScalarOperand<i32>,
    ) -> Tried {
        self.tried(phase.into_raw(), Some(nanoseconds.into_raw()), here())
    }

    fn tried(
        self,
        phase: Raw,
        suspend: Option<Raw>,
        at: &'static std::panic::Location<'static>,
    ) -> Tried {
        let phase = trace::mbarrier_phase(phase, at);
        Tried {
            barrier: self.0,
            phase,
            done: trace::mbarrier_try_wait(self.0, phase, suspend, at),
        }
    }

    /// The barrier as a view of shared memory.
    pub fn value(self) -> Value {
        self.0
    }
}

/// A wait that was tried.
#[derive(Clone, Copy, Debug)]
#[must_use = "only `wait` says that the phase is complete"]
pub struct Tried {
    barrier: Value,
    phase: Value,
    done: Value,
}

impl Tried {
    /// Waits, unless the phase was complete already when it was tried.
    #[inline]
    #[track_caller]
    pub fn wait(self) {
        trace::mbarrier_finish(self.barrier, self.phase, self.done, here());
    }
}

/// An arrival being described.
#[derive(Clone, Copy, Debug)]
#[must_use = "nobody arrives before `arrive`"]
pub struct Arrival {
    barrier: Mbarrier,
    by: Arrivers,
    count: u32,
    condition: Option<Value>,
    cta: Option<Raw>,
}

impl Arrival {
    /// The threads that arrive; the mbarrier counts each of them.
    #[inline]
    pub fn by(mut self, by: Arrivers) -> Self {
        self.by = by;
        self
    }

    /// How many arrivals each makes.
    #[inline]
    #[track_caller]
    pub fn count(mut self, count: impl HostInt) -> Self {
        self.count = Arrivals(count).count(here());
        self
    }

    /// Arrives only if a condition holds.
    #[inline]
    pub fn when(mut self, condition: Scalar<bool>) -> Self {
        self.condition = Some(condition.value());
        self
    }

    /// Arrives at the mbarrier at the same offset in the CTA of this rank.
    #[inline]
    pub fn in_cta(mut self, rank: impl ScalarOperand<i32>) -> Self {
        self.cta = Some(rank.into_raw());
        self
    }

    /// Arrives.
    #[inline]
    #[track_caller]
    pub fn arrive(self) {
        self.arrive_at(here());
    }

    fn arrive_at(self, at: &'static std::panic::Location<'static>) {
        let Arrival {
            barrier,
            by,
            count,
            condition,
            cta,
        } = self;
        trace::mbarrier_arrive(barrier.0, by, count, condition, cta, at);
    }
}

impl Carry for Mbarrier {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        walker.value(&mut self.0);
    }
    fn fork(&self) -> Option<Self> {
        Some(*self)
    }
}

impl Carry for Mbarriers {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        walker.value(&mut self.0);
    }
    fn fork(&self) -> Option<Self> {
        Some(*self)
    }
}

impl Carry for Tried {
    fn walk(&mut self, walker: &mut Walker<'_>) {
        walker.value(&mut self.barrier);
        walker.value(&mut self.phase);
        walker.value(&mut self.done);
    }
    fn fork(&self) -> Option<Self> {
        Some(*self)
    }
}
