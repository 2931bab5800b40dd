//! The ring of stages that the operands of a product go through: what a producer loads, and what consumers multiply.

use std::ops;

use tilekit::prelude::*;

use super::factor::Operand;
use super::form::Source;

/// Stages of tiles of A and B, and where these come from.
#[derive(Clone, Copy)]
pub(crate) struct Ring<T> {
    pub(crate) pipeline: Pipeline<(Smem<T>, Smem<T>)>,
    pub(crate) a: Source<T>,
    pub(crate) b: Source<T>,
}

impl<T: Operand> Ring<T> {
    /// Of so many stages, which consumers of all CTAs that share an operand release to each other.
    #[track_caller]
    pub(crate) fn new(a: Source<T>, b: Source<T>, stages: usize, groups: usize) -> Self {
        let consumers = Consumers::warpgroups(groups);
        let consumers = match b.shared().along() {
            [1, 1] => {
                let pipeline = Pipeline::tma((a.map(), b.map()), stages, consumers);
                return Ring { pipeline, a, b };
            }
            [ctas, 1] => consumers.of_ctas(ctas),
            along => consumers.of_grid(along),
        };
        let tiles = (a.alloc(stages), b.alloc(stages));
        let pipeline = Pipeline::new(tiles, Producers::Tma, consumers);
        // Others arrive at its mbarriers.
        cluster_barrier_relaxed();
        Ring { pipeline, a, b }
    }

    /// Loads a stage of what `place` says of A and of B, the product of a batch, the row of M or N and the step along K, and gives the next stage.
    #[track_caller]
    pub(crate) fn load(
        self,
        at: PipelineState,
        place: impl FnOnce() -> [[Scalar<i32>; 3]; 2],
    ) -> PipelineState {
        let stage = self.pipeline.producer_acquire(at);
        let (of_a, of_b) = stage.tiles;
        let [a, b] = place();
        self.a.load(a, of_a, stage.full);
        self.b.load(b, of_b, stage.full);
        self.pipeline.commit(stage).advance()
    }

    /// Behind the last load: a CTA that others share an operand with does not end before they have released its stages.
    #[track_caller]
    pub(crate) fn end(self, at: PipelineState) {
        if self.b.shared().along() != [1; 2] {
            self.pipeline.producer_tail(at);
        }
    }

    /// Starts the products of `rows` of a stage.
    #[track_caller]
    pub(crate) fn multiply(
        self,
        sums: Accumulator<T::Sum>,
        (of_a, of_b): (Smem<T>, Smem<T>),
        rows: ops::Range<usize>,
    ) -> Accumulator<T::Sum> {
        let of_a = self.a.by_rows(of_a).slice(0, rows);
        sums.mma(of_a, self.b.by_rows(of_b).transpose())
    }

    /// The sums of `rows` by all `columns` over the steps that `steps` gives, and the stage behind them. Each step is waited for: another warpgroup multiplies meanwhile.
    #[device]
    pub(crate) fn sums(
        self,
        rows: ops::Range<usize>,
        columns: usize,
        steps: impl FnOnce() -> Range<i32>,
        mut at: PipelineState,
    ) -> (Tensor<T::Sum>, PipelineState) {
        let mut acc = T::zeros([rows.len(), columns], columns);
        for _ in steps() {
            let stage = self.pipeline.consumer_wait(at);
            acc = self.multiply(acc, stage.tiles, rows.clone()).wait(0);
            at = self.pipeline.consumer_release(stage).advance();
        }
        let sums = acc.wait_all();
        (sums, at)
    }

    /// The same, a product running while the next is started.
    #[device]
    pub(crate) fn overlapped_sums(
        self,
        rows: ops::Range<usize>,
        columns: usize,
        [first, end]: [Scalar<i32>; 2],
        at: PipelineState,
    ) -> (Tensor<T::Sum>, PipelineState) {
        let acc = T::zeros([rows.len(), columns], columns);
        let multiply = |acc, tiles| self.multiply(acc, tiles, rows.clone());
        let steps = (|| range(first, end), |step: Scalar<i32>| step > first);
        let (acc, before, at) = overlapped(self.pipeline, at, steps, (acc, multiply));
        let sums = acc.wait_all();
        self.pipeline.consumer_release_when(end > first, before);
        (sums, at)
    }
}

/// Multiplies the stages of the steps that `steps` gives, a product running while the next is started: a warpgroup that is alone keeps the tensor cores busy only so. A stage is released one step later; `is_behind` says of a step
/// that there is one before it. Gives the sums, whose last product may run, the stage of that, which is still held if there was a step, and the state behind it.
#[device]
pub(crate) fn overlapped<P: Payload<Stage: Copy>, S: Numeric>(
    pipeline: Pipeline<P>,
    mut at: PipelineState,
    (steps, is_behind): (
        impl FnOnce() -> Range<i32>,
        impl Fn(Scalar<i32>) -> Scalar<bool>,
    ),
    (mut acc, multiply): (
        Accumulator<S>,
        impl Fn(Accumulator<S>, P::Stage) -> Accumulator<S>,
    ),
) -> (Accumulator<S>, Held, PipelineState) {
    let mut before = pipeline.nothing_held(&at);
    for step in steps() {
        let stage = pipeline.consumer_wait(at);
        acc = multiply(acc, stage.tiles).wait(1);
        let held = stage.hold();
        at = held.next();
        let done = std::mem::replace(&mut before, held);
        pipeline.consumer_release_when(is_behind(step), done);
    }
    (acc, before, at)
}
