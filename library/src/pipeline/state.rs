//! The position of a partition in a pipeline.

use gluon_lang::lang::prelude::*;

/// The stage that a partition fills or reads next, and the parity of its round through all stages. It is moved, not copied: waiting for a
/// stage consumes it, and [`Done::advance`] returns the next one, so rustc rejects a forgotten `advance`.
#[derive(Aggregate, Debug)]
#[must_use = "the stage that it names is neither filled nor read"]
pub struct PipelineState {
    index: Scalar<i32>,
    phase: Scalar<i32>,
    stages: usize,
}

impl PipelineState {
    /// The first stage in the first round.
    #[track_caller]
    pub(super) fn first(stages: usize) -> Self {
        PipelineState {
            index: scalar(0),
            phase: scalar(0),
            stages,
        }
    }

    /// The stage that fill number `count` goes to, from 0.
    #[track_caller]
    pub(super) fn of_fill(count: Scalar<i32>, stages: usize) -> Self {
        // A count is not negative: unsigned, the division is a shift or a multiplication.
        let (count, of_stages) = (count.cast::<u32>(), stages as u32);
        PipelineState {
            index: (count % of_stages).cast::<i32>(),
            phase: (count / of_stages % 2).cast::<i32>(),
            stages,
        }
    }

    /// Which stage, from 0.
    pub fn index(&self) -> Scalar<i32> {
        self.index
    }

    /// The parity of the round, 0 in the first.
    pub fn phase(&self) -> Scalar<i32> {
        self.phase
    }

    /// A second one, for another use of the same stage.
    pub(super) fn same(&self) -> Self {
        PipelineState { ..*self }
    }

    /// The state `count` stages later, for a partition that skips stages.
    #[track_caller]
    pub fn skip(self, count: usize) -> Self {
        (0..count).fold(self, |state, _| state.next())
    }

    /// The stage after this one.
    #[device]
    pub(super) fn next(&self) -> Self {
        let (index, phase, stages) = (self.index, self.phase, self.stages);
        let is_last = index == stages - 1;
        PipelineState {
            index: select(is_last, 0, index + 1),
            phase: select(is_last, phase ^ 1, phase),
            stages,
        }
    }
}

/// A stage that has been filled or released: continue by [`advance`](Done::advance).
#[derive(Aggregate, Debug)]
pub struct Done(pub(super) PipelineState);

impl Done {
    /// The next stage; after the last one the first, in the next round.
    #[track_caller]
    pub fn advance(self) -> PipelineState {
        self.0.next()
    }
}

/// A stage that has been read and not yet released.
#[derive(Aggregate, Debug)]
#[must_use = "producers wait until it is released"]
pub struct Held(pub(super) PipelineState);

impl Held {
    /// The stage after this one, which may be waited for before this one is released.
    #[track_caller]
    pub fn next(&self) -> PipelineState {
        self.0.next()
    }

    /// Which stage, from 0.
    pub fn index(&self) -> Scalar<i32> {
        self.0.index
    }
}

/// A stage that is empty and may be filled.
#[derive(Aggregate, Debug)]
#[must_use = "consumers wait until it is committed"]
pub struct Filling<S> {
    /// Its buffers.
    pub tiles: S,
    /// The mbarrier of TMA loads into the stage; a phase completes when the stage is full.
    pub full: Mbarrier,
    pub(super) state: PipelineState,
}

impl<S> Filling<S> {
    /// Which stage, from 0.
    pub fn index(&self) -> Scalar<i32> {
        self.state.index
    }
}

/// A stage that is full and may be read.
#[derive(Aggregate, Debug)]
#[must_use = "producers wait until it is released"]
pub struct Full<S> {
    /// Its buffers.
    pub tiles: S,
    pub(super) state: PipelineState,
}

impl<S> Full<S> {
    /// Which stage, from 0.
    pub fn index(&self) -> Scalar<i32> {
        self.state.index
    }

    /// Keeps the stage while the next ones are waited for; it is released later.
    pub fn hold(self) -> Held {
        Held(self.state)
    }
}

impl<S> From<Full<S>> for Held {
    fn from(full: Full<S>) -> Held {
        full.hold()
    }
}
