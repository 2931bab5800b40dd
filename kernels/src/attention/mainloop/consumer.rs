//! The consumer warpgroups of attention forward, which multiply the queries of a tile with its blocks of keys and values.
//!
//! S of a block is computed while P · V of the preceding block is in flight.

use tilekit::prelude::*;

use super::buffers::{Buffers, is_transposed};
use super::problem::{Blocks, Edges, Loads, Problem, ROWS};
use super::shape::{Rescaling, Shape};
use super::softmax::Softmax;
use super::transpose::order_of_values;

/// A consumer warpgroup.
#[derive(Clone, Copy)]
pub(super) struct Consumer<T: Element, P: Problem<T>, const GROUPS: usize> {
    pub(super) problem: P,
    pub(super) shape: Shape,
    pub(super) group: usize,
    drawn: DynamicTiles,
    pub(super) queries: Loads<T>,
    /// Where the output is staged; `None` where the place of Q is.
    pub(super) output: Option<Smem<P::Output>>,
    pub(super) keys: Loads<T>,
    pub(super) values: Loads<T>,
    pub(super) turns: Option<NamedTurns<GROUPS>>,
}

/// A tile, whose first block is fill `base` of K and of V.
#[derive(Clone, Copy)]
pub(super) struct At<T: Element, P: Problem<T>> {
    pub(super) place: P::Tile,
    pub(super) blocks: Blocks,
    pub(super) rows: P::Rows,
    /// Keys of a block.
    pub(super) column: Tensor<i32>,
    pub(super) q: Smem<T>,
    pub(super) base: Scalar<i32>,
}

/// The values that the loop over blocks carries.
#[derive(Aggregate)]
pub(super) struct State<T> {
    pub(super) softmax: Softmax,
    pub(super) sums: Accumulator<f32>,
    /// P of the preceding block, not yet multiplied.
    pub(super) powers: Tensor<T>,
    /// The factors by which `sums` is rescaled before the next product is added.
    pub(super) rescale: Tensor<f32>,
}

impl<T: WgmmaOperand<T, f32>, P: Problem<T>, const GROUPS: usize> Consumer<T, P, GROUPS> {
    pub(super) fn new(
        problem: P,
        shape: Shape,
        buffers: &Buffers<T, P, GROUPS>,
        group: usize,
    ) -> Self {
        Consumer {
            problem,
            shape,
            group,
            drawn: buffers.drawn,
            queries: buffers.queries[group],
            output: buffers.outputs.as_ref().map(|outputs| outputs[group]),
            keys: buffers.keys,
            values: buffers.values,
            turns: buffers.turns,
        }
    }

    /// Computes the tiles that the CTA draws.
    #[device]
    pub(super) fn run(self) {
        let (mut base, mut round) = (scalar(0), scalar(0));
        let mut tile = self.drawn.start();
        while tile.number() < self.drawn.count() {
            let place = self.problem.tile(tile.number());
            let mut compute = || {
                let blocks = self.problem.blocks(place);
                self.tile(place, blocks, round, base);
                base += blocks.count;
                round += 1;
            };
            match self.problem.has_rows(place) {
                Some(has_rows) => {
                    if has_rows {
                        compute();
                    }
                }
                None => compute(),
            }
            tile = self.drawn.receive(tile);
        }
        tma_store_wait_read(0);
    }

    /// A tile of so many blocks, as fill `round` of Q, and from fill `base` on of K and V.
    #[device]
    fn tile(self, place: P::Tile, blocks: Blocks, round: Scalar<i32>, base: Scalar<i32>) {
        let rows = self.problem.rows(place, self.group, self.of_rows());
        let column = arange(0..self.shape.keys, Slice::new(0, self.of_scores())).expand_dims(0);
        let asked = self.queries.consumer_wait(self.queries.of_fill(round));
        let at = At {
            place,
            blocks,
            rows: self.problem.ready(rows, asked.tiles),
            column,
            q: asked.tiles,
            base,
        };
        let unseen = self.problem.unseen(at.rows, blocks, self.group);
        let state = self.begin(at, unseen);
        let State {
            softmax,
            mut sums,
            powers,
            rescale,
        } = self.steps(at, unseen.unwrap_or_else(|| scalar(0)), state);
        // No product of this tile reads Q any more: the next Q may be loaded.
        let asked = match self.output {
            Some(_) => {
                self.queries.consumer_release(asked);
                None
            }
            None => Some(asked),
        };
        if self.shape.rescales_later() {
            sums = self.rescaled(sums.wait_all(), rescale);
        }
        let values = self.values;
        let last = values.consumer_wait(values.of_fill(base + blocks.count - 1));
        let mut sums = sums.mma(powers, self.right(last.tiles)).wait_all();
        values.consumer_release(last);
        if is_transposed::<T>() {
            sums = order_of_values(sums, ROWS, self.shape.values);
        }
        let place = match self.output {
            Some(output) => output.index(0),
            None => self.place_of_queries(at.q),
        };
        self.problem.store(at.rows, sums, softmax, place);
        if let Some(asked) = asked {
            tma_store_wait_read(0);
            self.queries.consumer_release(asked);
        }
    }

    /// The steps behind `start`.
    #[device]
    fn steps(self, at: At<T, P>, start: Scalar<i32>, state: State<T>) -> State<T> {
        let mut state = state;
        let Edges { high, low, all } = self.problem.edges(at.rows, at.blocks);
        if let Some(high) = high {
            for number in range(start + 1, high) {
                state = self.step(at, number, true, None, state);
            }
        }
        let first = high.unwrap_or_else(|| start + 1);
        // Behind the masked blocks, since rows that see few keys of these, or none, may have low maxima until then.
        let is_high = self.shape.is_triple.then(|| state.softmax.is_high::<T>());
        for number in range(first, low.unwrap_or(at.blocks.count)) {
            state = self.step(at, number, all, is_high, state);
        }
        if let Some(low) = low {
            for number in range(low, at.blocks.count) {
                state = self.step(at, number, true, None, state);
            }
        }
        state
    }

    /// S and P of block `number`, and P · V of the preceding one.
    #[device]
    fn step(
        self,
        at: At<T, P>,
        number: Scalar<i32>,
        is_masked: bool,
        is_high: Option<Scalar<bool>>,
        state: State<T>,
    ) -> State<T> {
        let State {
            mut softmax,
            mut sums,
            powers,
            rescale,
        } = state;
        let (keys, values) = (self.keys, self.values);
        let (rescaling, is_later) = (self.shape.rescaling, self.shape.rescales_later());
        let count = at.base + number;
        let stage = keys.consumer_wait(keys.of_fill(count));
        if let Some(turns) = self.turns {
            turns.wait(self.group);
        }
        let s = self.scores().mma(at.q, stage.tiles.transpose());
        // The wait for V keeps ptxas from moving the multiplications between the instructions of Q · K.
        let before = values.consumer_wait(values.of_fill(count - 1));
        if is_later {
            sums = self.rescaled(sums.wait_older_than(1), rescale);
        }
        let sums = sums.mma(powers, self.right(before.tiles));
        if let Some(turns) = self.turns {
            self.pass_turn(turns, at, number);
        }
        let s = s.wait_older_than(1);
        keys.consumer_release(stage);
        let s = self.seen(at, s, number, is_masked);
        let mut rescale = full([ROWS], 1.0f32, self.of_rows());
        let mut next = None;
        let mut grown = None;
        if rescaling == Rescaling::Always {
            rescale = softmax.grow_where(is_high, s);
            // ptxas does not schedule across a branch: where there is none, exponentials and conversions interleave around the wait.
            next = Some(softmax.add(s, rescale, ROWS));
        } else {
            // In most blocks no maximum grows, and a warp neither exchanges maxima nor rescales.
            let maxima = softmax.of_threads(is_high, s);
            let grows = softmax.grows(maxima);
            if is_later {
                if grows {
                    (softmax, rescale) = softmax.grown(maxima, ROWS);
                }
            } else {
                grown = Some((grows, maxima));
            }
        }
        let mut done = sums.wait_all();
        values.consumer_release(before);
        if let Some((grows, maxima)) = grown {
            if grows {
                (softmax, rescale) = softmax.grown(maxima, ROWS);
                done *= self.spread(rescale);
            }
        } else if !is_later {
            done *= self.spread(rescale);
        }
        let next = next.unwrap_or_else(|| softmax.add_grown(s, ROWS));
        let next = self.problem.kept(at.rows, self.first_key(at, number), next);
        State {
            softmax,
            sums: Accumulator::from_tensor(done),
            powers: self.factor(next),
            rescale,
        }
    }

    /// The first key of the block of step `number`.
    #[device]
    pub(super) fn first_key(self, at: At<T, P>, number: Scalar<i32>) -> Scalar<i32> {
        self.problem
            .first_key(at.place, at.blocks, number, self.shape.keys)
    }

    /// The scores of step `number`, masked.
    #[device]
    pub(super) fn seen(
        self,
        at: At<T, P>,
        s: Tensor<f32>,
        number: Scalar<i32>,
        is_masked: bool,
    ) -> Tensor<f32> {
        let problem = self.problem;
        let key = self.first_key(at, number) + at.column;
        let s = problem.scores(at.rows, key, s);
        if is_masked {
            let rows = problem.at(at.rows, number);
            select(problem.sees(rows, key), s, f32::NEG_INFINITY)
        } else {
            s
        }
    }

    /// Passes the turn of step `number`, but to a warpgroup that has no step any more.
    #[device]
    pub(super) fn pass_turn(self, turns: NamedTurns<GROUPS>, at: At<T, P>, number: Scalar<i32>) {
        let is_last_group = self.group + 1 == GROUPS;
        if !is_last_group | (number + 1 < at.blocks.count) {
            turns.pass(self.group);
        }
    }
}
