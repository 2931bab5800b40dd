//! Pipelines: a circular buffer of stages in shared memory, which producers fill while consumers read earlier ones.
//!
//! ```text
//! producer:  producer_acquire(state) -> Filling --TMA loads, cp.async or stores--> commit -> Done --advance--> state
//! consumer:  consumer_wait(state)    -> Full    --products, loads---------------> consumer_release -> Done --advance--> state
//! ```
//!
//! Each stage has two mbarriers (PTX ISA 9.7.13.15). `full` completes a phase when the stage is filled, `empty` when it has been
//! read. Who arrives, and so how many arrivals complete a phase, follows from [`Producers`] and [`Consumers`]:
//!
//! | | `full` counts | `empty` counts |
//! | --- | --- | --- |
//! | [`Producers::Tma`] | 1 arrival, of the elected thread, and the bytes of a stage | |
//! | [`Producers::Copies`] | each thread of its warps | |
//! | [`Producers::Stores`] | 1 arrival of each warp | |
//! | [`Consumers::warps`], [`Consumers::warpgroups`] | | 1 arrival of each warp |
//! | [`Consumers::issuers_of_warpgroups`] | | 1 arrival of each warpgroup |
//! | [`Consumers::of_ctas`], [`Consumers::of_grid`] | | the same times the destination CTAs of a multicast |
//! | [`Pipeline::multicasting`] | | the same in its own CTA, and those of all destination CTAs at the multicasting CTA |
//!
//! # Order of memory
//!
//! - What producers wrote to a stage happens before [`consumer_wait`](Pipeline::consumer_wait) returns: TMA loads complete on `full`
//!   (`mbarrier.complete_tx`), `cp.async` and stores before the arrival (release), which the wait acquires.
//! - What consumers read of a stage happens before [`producer_acquire`](Pipeline::producer_acquire) returns.
//! - Stores and `cp.async` write through the generic proxy, which `wgmma` and TMA do not observe without a fence
//!   (`fence.proxy.async`). Stores are fenced by [`commit`](Pipeline::commit), `cp.async` by `consumer_wait`, for only who waited
//!   observes their completion.

mod ahead;
mod operands;
mod participants;
mod payload;
mod state;

use gluon_lang::lang::prelude::*;

pub use ahead::{LoadAhead, LoadInto, Loaded};
pub use participants::{Consumers, Producers};
pub use payload::{Payload, StageMaps};
pub use state::{Done, Filling, Full, Held, PipelineState};

/// A circular buffer of stages between producers and consumers, which are partitions of
/// [`warp_specialize`].
///
/// ```
/// use tilekit::prelude::*;
///
/// /// Adds the rows of `x`, `[rows, 64]`, in steps of 16 rows; `out` has 64 sums.
/// #[kernel(warps = 4)]
/// fn column_sums(#[block([16, 64], Nvmma::PLAIN)] x: TensorMap<f32>, out: Ptr<f32>, rows: i32) {
///     let pipeline = Pipeline::tma(x, 3, Consumers::warpgroups(1));
///     let steps = cdiv(rows, 16);
///     warp_specialize()
///         .main(|| {
///             let layout = Blocked::new([16, 1], [1, 32], [1, 4], [1, 0]);
///             let mut sums = zeros::<f32>([64], Slice::new(0, layout.clone()));
///             let mut at = pipeline.start();
///             for _ in range(0, steps) {
///                 let stage = pipeline.consumer_wait(at);
///                 sums += stage.tiles.load(layout.clone()).sum(0);
///                 at = pipeline.consumer_release(stage).advance();
///             }
///             out.at(arange(0..64, Slice::new(0, layout))).store(sums);
///         })
///         .worker(Warps(1), || {
///             let mut at = pipeline.start();
///             for step in range(0, steps) {
///                 let stage = pipeline.producer_acquire(at);
///                 x.load((step * 16, 0), stage.tiles, stage.full);
///                 at = pipeline.commit(stage).advance();
///             }
///         })
///         .run();
/// }
///
/// # fn main() -> tilekit::Result<()> {
/// let device = Device::emulator();
/// let numbers: Vec<f32> = (0..100 * 64).map(|i| (i % 7) as f32).collect();
/// let x = Buffer::from_slice(&device, &numbers)?;
/// let out = Buffer::<f32>::zeros(&device, 64)?;
/// let kernel = column_sums.compile(&Compiler::default())?.load(&device)?;
/// kernel.launch(&Stream::new(&device)?, grid(1u32), (x.view([100, 64]), &out, 100))?;
/// let sum = |column: usize| (0..100).map(|row| numbers[row * 64 + column]).sum();
/// assert_eq!(out.to_vec()?, (0..64).map(sum).collect::<Vec<f32>>());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Aggregate)]
pub struct Pipeline<P> {
    payload: P,
    /// A phase completes when a stage is full.
    full: Mbarriers,
    /// A phase completes when a stage is empty.
    empty: Mbarriers,
    /// The multicasts of up to two maps.
    copies: [Option<Copies>; 2],
    parties: Parties,
}

/// CTAs with the same part of a tile, which one of them multicasts to all.
#[derive(Clone, Copy, Aggregate)]
struct Copies {
    /// A phase completes when all of these CTAs have read a stage; used in the multicasting CTA.
    read: Mbarriers,
    loader: Scalar<i32>,
    is_loader: Scalar<bool>,
}

/// Producers, consumers and size of a pipeline.
#[derive(Clone, Copy)]
struct Parties {
    producers: Producers,
    consumers: Consumers,
    stages: usize,
    /// Bytes of a stage.
    bytes: usize,
}

impl tilekit::rt::Carry for Parties {
    fn walk(&mut self, _: &mut tilekit::rt::Walker<'_>) {}
    fn fork(&self) -> Option<Self> {
        Some(*self)
    }
}

impl<P: Payload> Pipeline<P> {
    /// A pipeline of `stages` stages, each of which TMA loads fill with a block of every map.
    #[track_caller]
    pub fn tma<M>(maps: M, stages: usize, consumers: Consumers) -> Self
    where
        M: StageMaps<Payload = P>,
    {
        Pipeline::new(maps.alloc(stages), Producers::Tma, consumers)
    }

    /// A pipeline on allocated buffers. CTAs of a cluster that release to each other synchronize after this
    /// ([`cluster_barrier_relaxed`]), so that they observe the initialized mbarriers.
    #[track_caller]
    pub fn new(payload: P, producers: Producers, consumers: Consumers) -> Self {
        let stages = payload.stages();
        Pipeline {
            payload,
            full: Mbarriers::alloc(stages, Arrivals(producers.arrivals())).labelled("full"),
            empty: Mbarriers::alloc(stages, Arrivals(consumers.arrivals())).labelled("empty"),
            copies: [None; 2],
            parties: Parties {
                producers,
                consumers,
                stages,
                bytes: payload.stage_bytes(),
            },
        }
    }

    /// Declares that one CTA multicasts blocks of `map` to all CTAs with the same part
    /// ([`multicast_copies`](gluon_lang::lang::TmaCopy::multicast_copies)): the consumers of all these CTAs release to it, and to their
    /// own CTA. A stage has at most two such maps, such as A and B.
    #[track_caller]
    #[must_use]
    pub fn multicasting<T: Element>(self, map: TensorMap<T>) -> Self {
        self.loaded_by(|| map.loader(), map.copies())
    }

    /// Declares that CTA `loader` fills a part of the stages of `ctas` CTAs.
    #[track_caller]
    #[must_use]
    pub(crate) fn loaded_by(mut self, loader: impl FnOnce() -> Scalar<i32>, ctas: usize) -> Self {
        static_assert!(
            self.copies[1].is_none(),
            "a pipeline has two maps whose blocks are multicast, and this is a third"
        );
        let arrivals = self.parties.consumers.arrivals_of_cta() * ctas;
        let read = Mbarriers::alloc(self.parties.stages, Arrivals(arrivals)).labelled("read");
        let free = usize::from(self.copies[0].is_some());
        self.copies[free] = Some(Copies::new(read, loader()));
        self
    }

    /// The buffers of all stages.
    pub fn payload(self) -> P {
        self.payload
    }

    /// The first stage: where each producer and each consumer begins.
    #[track_caller]
    pub fn start(self) -> PipelineState {
        PipelineState::first(self.parties.stages)
    }

    /// The stage of fill number `count`, from 0, for loops that count fills themselves instead of carrying a state.
    #[track_caller]
    pub fn of_fill(self, count: Scalar<i32>) -> PipelineState {
        PipelineState::of_fill(count, self.parties.stages)
    }

    /// Waits until a stage is empty, which all are initially. With TMA producers, the stage then expects all its bytes.
    #[track_caller]
    pub fn producer_acquire(self, at: PipelineState) -> Filling<P::Stage> {
        let Parties {
            producers, bytes, ..
        } = self.parties;
        let full = self.wait_empty(&at);
        if producers == Producers::Tma {
            full.expect(bytes);
        }
        self.filling(at, full)
    }

    /// The same for bulk copies of `bytes` bytes into the stage, less than its size.
    #[track_caller]
    pub fn producer_acquire_bytes(
        self,
        at: PipelineState,
        bytes: Scalar<i32>,
    ) -> Filling<P::Stage> {
        static_assert!(
            self.parties.producers == Producers::Tma,
            "only TMA and bulk copies complete bytes on a barrier"
        );
        let full = self.wait_empty(&at);
        full.expect(bytes);
        self.filling(at, full)
    }

    /// A stage that was acquired before and is filled in parts: TMA loads of what follows the first part, which complete the same phase.
    #[track_caller]
    pub fn producer_resume(self, at: PipelineState) -> Filling<P::Stage> {
        static_assert!(
            self.parties.producers == Producers::Tma,
            "a stage that is filled in parts is one whose bytes TMA loads complete"
        );
        let full = self.full.index(at.index());
        self.filling(at, full)
    }

    /// Signals that a stage is filled: the stores, copies or loads into it so far complete its phase.
    #[track_caller]
    pub fn commit<S>(self, stage: Filling<S>) -> Done {
        match self.parties.producers {
            // The loads complete what `producer_acquire` expects.
            Producers::Tma => {}
            Producers::Copies { .. } => stage.full.arrive_after_copies(),
            Producers::Stores { .. } => {
                fence_async_shared();
                stage.full.arrival().by(Arrivers::Warp).arrive();
            }
        }
        Done(stage.state)
    }

    /// Waits until all stages have been released. In a cluster, a producer to which other CTAs release calls this last: a CTA must not
    /// exit while others arrive at its mbarriers.
    #[track_caller]
    pub fn producer_tail(self, mut at: PipelineState) {
        for _ in 0..self.parties.stages {
            if self.copies[0].is_none() {
                self.empty.index(at.index()).wait(at.phase() ^ 1);
            }
            for copies in self.copies.into_iter().flatten() {
                copies.wait(&at);
            }
            at = at.next();
        }
    }

    /// Waits until a stage is full.
    #[track_caller]
    pub fn consumer_wait(self, at: PipelineState) -> Full<P::Stage> {
        self.full.index(at.index()).wait(at.phase());
        if matches!(self.parties.producers, Producers::Copies { .. }) {
            fence_async_shared();
        }
        Full {
            tiles: self.payload.stage(at.index()),
            state: at,
        }
    }

    /// Releases a stage: each warp that the pipeline counts has read it, and arrives.
    #[track_caller]
    pub fn consumer_release(self, stage: impl Into<Held>) -> Done {
        self.release(stage.into(), None)
    }

    /// The same where a condition holds.
    #[track_caller]
    pub fn consumer_release_when(self, condition: Scalar<bool>, stage: impl Into<Held>) -> Done {
        self.release(stage.into(), Some(condition))
    }

    /// The initial value of a loop that releases the stage of the previous step: no stage is held, and its release must be
    /// conditional.
    #[track_caller]
    pub fn nothing_held(self, at: &PipelineState) -> Held {
        Held(at.same())
    }

    /// Waits until all consumers have released the fill before the one that `at` names, so that its stage may be used for something
    /// else. Producers fill no more stages.
    #[track_caller]
    pub fn wait_released(self, at: &PipelineState) -> P::Stage {
        self.empty.index(at.index()).wait(at.phase() ^ 1);
        self.payload.stage(at.index())
    }

    /// Waits until a stage is empty, and gives its `full`.
    #[track_caller]
    fn wait_empty(self, at: &PipelineState) -> Mbarrier {
        self.empty.index(at.index()).wait(at.phase() ^ 1);
        for copies in self.copies.into_iter().flatten() {
            copies.wait(at);
        }
        self.full.index(at.index())
    }

    #[track_caller]
    fn filling(self, at: PipelineState, full: Mbarrier) -> Filling<P::Stage> {
        Filling {
            tiles: self.payload.stage(at.index()),
            full,
            state: at,
        }
    }

    /// Waits until a stage is full, in the partition that fills it, gives `read` its buffers, and releases it as one warp.
    #[track_caller]
    pub(crate) fn consume_filled<R>(
        self,
        Done(at): Done,
        read: impl FnOnce(P::Stage) -> R,
    ) -> (Done, R) {
        self.full.index(at.index()).wait(at.phase());
        let result = read(self.payload.stage(at.index()));
        let release = Consumers::warps(1);
        release.release(self.empty.index(at.index()), None);
        for Copies { read, loader, .. } in self.copies.into_iter().flatten() {
            release.release_to(loader, read.index(at.index()), None);
        }
        (Done(at), result)
    }

    #[track_caller]
    fn release(self, Held(at): Held, condition: Option<Scalar<bool>>) -> Done {
        let consumers = self.parties.consumers;
        consumers.release(self.empty.index(at.index()), condition);
        for Copies { read, loader, .. } in self.copies.into_iter().flatten() {
            consumers.release_to(loader, read.index(at.index()), condition);
        }
        Done(at)
    }
}

impl Copies {
    #[device]
    fn new(read: Mbarriers, loader: Scalar<i32>) -> Self {
        Copies {
            read,
            loader,
            is_loader: cluster_rank() == loader,
        }
    }

    /// The multicasting CTA waits until all have read a stage.
    #[track_caller]
    fn wait(self, at: &PipelineState) {
        let read = self.read.index(at.index());
        read.wait_when(self.is_loader, at.phase() ^ 1);
    }
}

/// The number of steps of `depth` elements along `k`, which is positive: a tensor map has no dimension of 0.
#[device]
pub fn steps_along(k: Scalar<i32>, depth: usize) -> Scalar<i32> {
    assume((k > 0) & (k <= 1 << 30));
    cdiv(k, depth)
}
