//! A pipeline whose consumers issue the loads themselves, some steps ahead.

use gluon_lang::lang::Coordinates;
use gluon_lang::lang::prelude::*;

use super::{Payload, PipelineState, StageMaps};

/// A circular buffer whose TMA loads the consumers themselves issue some steps ahead. It has no `empty` mbarriers: a stage is refilled
/// once its readers, which also issue the load, have completed their products or loads into registers; the compiler inserts a CTA barrier
/// in between. Each `full` counts 1 arrival and the bytes of a stage.
///
/// ```text
/// for step in 0..STAGES - 1 { fill(pipeline.load_when(is_inside, step)) }
/// for step in range(0, steps) {
///     let stage = pipeline.wait(at);
///     acc = acc.mma(a, b).wait(1);         // the previous product is complete, and its stage empty
///     fill(pipeline.load_when(step + STAGES - 1 < steps, free));
///     (at, free) = ..;
/// }
/// ```
#[derive(Clone, Copy, Aggregate)]
pub struct LoadAhead<P> {
    payload: P,
    full: Mbarriers,
    stages: usize,
    bytes: usize,
}

impl<P: Payload> LoadAhead<P> {
    /// `stages` stages, each with a block of every map.
    #[track_caller]
    pub fn tma<M>(maps: M, stages: usize) -> Self
    where
        M: StageMaps<Payload = P>,
    {
        let payload = maps.alloc(stages);
        LoadAhead {
            payload,
            full: Mbarriers::alloc(stages, Arrivals(1)).labelled("full"),
            stages,
            bytes: payload.stage_bytes(),
        }
    }

    /// The first stage.
    #[track_caller]
    pub fn start(self) -> PipelineState {
        PipelineState::first(self.stages)
    }

    /// If `condition` holds, expects the bytes of stage `index`, which all threads have read. The TMA loads of it have the same
    /// condition.
    #[track_caller]
    pub fn load_when(self, condition: Scalar<bool>, index: Scalar<i32>) -> LoadInto<P::Stage> {
        let full = self.full.index(index);
        full.expect_when(condition, self.bytes);
        LoadInto {
            tiles: self.payload.stage(index),
            full,
            condition,
        }
    }

    /// Waits until a stage is full.
    #[track_caller]
    pub fn wait(self, at: PipelineState) -> Loaded<P::Stage> {
        self.full.index(at.index()).wait(at.phase());
        Loaded {
            tiles: self.payload.stage(at.index()),
            state: at,
        }
    }
}

/// A stage to be loaded if a condition holds.
#[derive(Aggregate, Debug)]
pub struct LoadInto<S> {
    /// Its buffers.
    pub tiles: S,
    full: Mbarrier,
    condition: Scalar<bool>,
}

impl<S> LoadInto<S> {
    /// Issues the TMA load of the block of `map` at `at` into `tile`, where the condition holds.
    #[track_caller]
    pub fn load<T: Element>(&self, map: TensorMap<T>, at: impl Coordinates, tile: Smem<T>) {
        let load = map.copy().when(self.condition);
        load.load(at, tile, self.full);
    }
}

/// A stage that has been loaded.
#[derive(Aggregate, Debug)]
pub struct Loaded<S> {
    /// Its buffers.
    pub tiles: S,
    state: PipelineState,
}

impl<S> Loaded<S> {
    /// Which stage, from 0.
    pub fn index(&self) -> Scalar<i32> {
        self.state.index()
    }

    /// The stage after this one.
    #[track_caller]
    pub fn advance(self) -> PipelineState {
        self.state.next()
    }
}
