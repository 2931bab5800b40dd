//! A consumer warpgroup of `decode_latent`: the scores of every other block, and half of the columns of P · V.

use tilekit::prelude::*;

use super::deal::STEP;
use super::loads::{LatentBlock, LatentTiles};
use super::plan::{Piece, Plan};
use super::rows::LatentRows;
use super::shape::{HALF, PAGE};
use crate::attention::decode::clear::clear_from;
use crate::attention::mainloop::problem::{Loads, ROWS};
use crate::attention::mainloop::softmax::Softmax;

/// A warpgroup of a CTA.
#[derive(Clone, Copy)]
pub(super) struct LatentPart<T> {
    pub(super) tiles: LatentTiles<T>,
    pub(super) rows: LatentRows<T>,
    pub(super) group: usize,
    pub(super) log2_scale: Scalar<f32>,
    /// Whether a product is left to the next step.
    pub(super) is_ahead: bool,
}

/// The loop-carried values.
#[derive(Aggregate)]
struct State {
    softmax: Softmax,
    /// P · V so far.
    sums: Tensor<f32>,
}

/// A step of a piece.
#[derive(Clone, Copy)]
struct Step {
    piece: Piece,
    number: Scalar<i32>,
    is_masked: bool,
}

impl Step {
    /// The fill of the pipelines of blocks.
    #[device]
    fn fill(self) -> Scalar<i32> {
        self.piece.fill + self.number - self.piece.from
    }

    /// The first key of a warpgroup's block.
    #[device]
    fn first_key(self, block: usize) -> Scalar<i32> {
        self.number * STEP + block * PAGE
    }
}

/// The block whose scores are computed: the columns behind the value, and the halves of the value.
struct Held<T: Element> {
    rope: Full<Smem<T>>,
    halves: [Full<Smem<T>>; 2],
}

/// Q in shared memory, and its last columns in registers where P of the second block takes their place.
#[derive(Clone, Copy)]
struct Queries<T> {
    left: Smem<T>,
    right: Smem<T>,
    rope: Smem<T>,
    held: Option<Tensor<T>>,
}

impl<T: Float + WgmmaOperand<T, f32>> LatentPart<T> {
    #[device]
    fn of_scores() -> Wgmma {
        Wgmma::new([4, 1], [64, PAGE, 16])
    }

    #[device]
    fn of_sums() -> Wgmma {
        Wgmma::new([4, 1], [64, HALF, 16])
    }

    #[device]
    fn of_rows() -> Slice {
        Slice::new(1, Self::of_scores())
    }

    /// A factor of each row, for the accumulator.
    #[device]
    fn spread(of_rows: Tensor<f32>) -> Tensor<f32> {
        of_rows
            .expand_dims(1)
            .convert_layout_trivial(Self::of_sums())
    }

    /// P as the operand of P · V.
    #[device]
    fn factor(powers: Tensor<T>) -> Tensor<T> {
        powers.convert_layout_trivial(DotOperand::new(0, Self::of_sums(), 2))
    }

    /// Computes the pieces of a part.
    #[device]
    pub(super) fn attend(self, plan: Plan, part: Scalar<i32>) {
        let queries = self.tiles.queries;
        plan.each_piece(plan.span(part), |piece| {
            let asked = queries.consumer_wait(queries.of_fill(piece.round));
            let (left, right, rope) = asked.tiles;
            let held = self
                .is_ahead
                .then(|| rope.load(DotOperand::new(0, Self::of_scores(), 2)));
            let q = Queries {
                left,
                right,
                rope,
                held,
            };
            let scores = zeros::<f32>([ROWS, PAGE], Self::of_scores());
            let mut state = State {
                softmax: Softmax::none(scores, self.log2_scale, [ROWS, PAGE]),
                sums: zeros::<f32>([ROWS, HALF], Self::of_sums()),
            };
            // The first query sees all keys of the steps before this one.
            let seen = maximum(piece.keys - self.rows.queries + 1, 0);
            let edge = minimum(maximum(seen / STEP, piece.from), piece.to);
            let step = |number: Scalar<i32>, is_masked: bool| Step {
                piece,
                number,
                is_masked,
            };
            if self.is_ahead && self.group == 0 {
                state = self.first_body(step(piece.from, true), q, state, false);
                let next = piece.from + 1;
                let edge = maximum(edge, next);
                for number in range(next, edge) {
                    state = self.first_body(step(number, false), q, state, true);
                }
                for number in range(edge, piece.to) {
                    state = self.first_body(step(number, true), q, state, true);
                }
                state = self.first_tail(step(piece.to - 1, true), q, state);
            } else {
                for number in range(piece.from, edge) {
                    state = self.step(step(number, false), q, state);
                }
                for number in range(edge, piece.to) {
                    state = self.step(step(number, true), q, state);
                }
            }
            self.finish(piece, q, state);
            fence_async_shared();
            queries.consumer_release(asked);
        });
    }

    #[device]
    fn step(self, step: Step, q: Queries<T>, state: State) -> State {
        match self.group {
            0 => self.first_step(step, q, state),
            _ => self.second_step(step, q, state),
        }
    }

    /// A step of the warpgroup that has the first block: its own, then the other's.
    #[device]
    fn first_step(self, step: Step, q: Queries<T>, state: State) -> State {
        let State { mut softmax, sums } = state;
        let [own, other] = self.tiles.blocks;
        let (scores, held) = self.scores(step, q, own);
        let scores = self.masked(step, scores.wait_all());
        own.rope.consumer_release(held.rope);
        let [first, second] = held.halves;
        own.halves[1].consumer_release(second);
        let rescale = softmax.grow(scores, true);
        let powers = softmax.add(scores, rescale, ROWS).cast::<T>();
        self.give(powers, softmax, q);
        let rescale = Self::rescale_of(step, rescale);

        self.clear(step, 0, first.tiles);
        let sums = Accumulator::from_tensor(sums.rescale(Self::spread(rescale)));
        let sums = sums.mma(Self::factor(powers), first.tiles);
        // The half is freed before the other's P is waited for.
        let sums = sums.wait_all();
        own.halves[0].consumer_release(first);
        self.tiles.ready[1].sync();
        let rescale = softmax.follow(self.tiles.maxima.load(Self::of_rows()), ROWS);
        let others = other.halves[0].consumer_wait(other.halves[0].of_fill(step.fill()));
        self.clear(step, 1, others.tiles);
        let sums = Accumulator::from_tensor(sums.rescale(Self::spread(rescale)));
        let sums = sums.mma(self.others(q), others.tiles).wait_all();
        other.halves[0].consumer_release(others);
        State { softmax, sums }
    }

    /// A step of the warpgroup that has the second block: the other's P · V is in flight during its own softmax.
    #[device]
    fn second_step(self, step: Step, q: Queries<T>, state: State) -> State {
        let State { mut softmax, sums } = state;
        let [other, own] = self.tiles.blocks;
        let (scores, held) = self.scores(step, q, own);
        self.tiles.ready[0].sync();
        let rescale = softmax.follow(self.tiles.maxima.load(Self::of_rows()), ROWS);
        let rescale = Self::rescale_of(step, rescale);
        let others = other.halves[1].consumer_wait(other.halves[1].of_fill(step.fill()));
        self.clear(step, 0, others.tiles);
        let sums = Accumulator::from_tensor(sums.rescale(Self::spread(rescale)));
        let sums = sums.mma(self.tiles.powers, others.tiles);

        let scores = self.masked(step, scores.wait_older_than(1));
        own.rope.consumer_release(held.rope);
        let [first, second] = held.halves;
        own.halves[0].consumer_release(first);
        let rescale = softmax.grow(scores, true);
        let powers = softmax.add(scores, rescale, ROWS).cast::<T>();
        if self.is_ahead {
            self.give(powers, softmax, q);
        }
        let sums = sums.wait_all();
        other.halves[1].consumer_release(others);
        if !self.is_ahead {
            self.give(powers, softmax, q);
        }
        self.clear(step, 1, second.tiles);
        let sums = Accumulator::from_tensor(sums.rescale(Self::spread(rescale)));
        let sums = sums.mma(Self::factor(powers), second.tiles).wait_all();
        own.halves[1].consumer_release(second);
        State { softmax, sums }
    }

    /// The factor of the sums, which are zeros in the first step of a piece: 1 there, so that nothing is multiplied.
    #[device]
    fn rescale_of(step: Step, rescale: Tensor<f32>) -> Tensor<f32> {
        select(step.number == step.piece.from, 1.0, rescale)
    }

    /// Starts Q · K of the warpgroup's own block.
    #[device]
    fn scores(
        self,
        step: Step,
        q: Queries<T>,
        block: LatentBlock<T>,
    ) -> (Accumulator<f32>, Held<T>) {
        let Queries { left, right, .. } = q;
        let wait = |part: Loads<T>| part.consumer_wait(part.of_fill(step.fill()));
        let scores = Accumulator::<f32>::zeros([ROWS, PAGE], Self::of_scores());
        let rope = wait(block.rope);
        let scores = self.of_rope(scores, q, rope.tiles);
        // In the order of the loads.
        let second = wait(block.halves[1]);
        let scores = scores.mma(right, second.tiles.transpose());
        let first = wait(block.halves[0]);
        let scores = scores.mma(left, first.tiles.transpose());
        let halves = [first, second];
        let held = Held { rope, halves };
        (scores, held)
    }

    #[device]
    fn of_rope(self, scores: Accumulator<f32>, q: Queries<T>, keys: Smem<T>) -> Accumulator<f32> {
        match q.held {
            Some(held) => scores.mma(held, keys.transpose()),
            None => scores.mma(q.rope, keys.transpose()),
        }
    }

    /// P of the second block.
    fn others(self, q: Queries<T>) -> Smem<T> {
        match q.held {
            Some(_) => q.rope,
            None => self.tiles.powers,
        }
    }

    /// A step whose product with the second block is left to the next one: it is in flight while the scores of the next are computed.
    #[device]
    fn first_body(self, step: Step, q: Queries<T>, state: State, has_before: bool) -> State {
        let State {
            mut softmax,
            mut sums,
        } = state;
        let [own, other] = self.tiles.blocks;
        let before = has_before.then(|| {
            let half = other.halves[0];
            let others = half.consumer_wait(half.of_fill(step.fill() - 1));
            let number = step.number - 1;
            self.clear(Step { number, ..step }, 1, others.tiles);
            let sums = Accumulator::from_tensor(sums).mma(self.others(q), others.tiles);
            (sums, others)
        });
        // Always 0, which ptxas does not know: descriptors that it may keep over all steps are spilled.
        let none = select(step.number < 0, 1, 0);
        let same = |part: Loads<T>| part.payload().index(none);
        let (q_left, q_right, q_rope) = self.tiles.queries.payload();
        let wait = |part: Loads<T>| part.consumer_wait(part.of_fill(step.fill()));
        let scores = Accumulator::<f32>::zeros([ROWS, PAGE], Self::of_scores());
        let rope = wait(own.rope);
        let keys = same(own.rope).transpose();
        let scores = match q.held {
            Some(held) => scores.mma(held, keys),
            None => scores.mma(q_rope.index(none), keys),
        };
        let left = wait(own.halves[0]);
        let scores = scores.mma(q_left.index(none), same(own.halves[0]).transpose());
        if let Some((in_flight, others)) = before {
            sums = in_flight.wait_older_than(2);
            other.halves[0].consumer_release(others);
        }
        let right = wait(own.halves[1]);
        let scores = scores.mma(q_right.index(none), same(own.halves[1]).transpose());
        let scores = self.masked(step, scores.wait_all());
        own.rope.consumer_release(rope);
        own.halves[1].consumer_release(right);
        let rescale = softmax.grow(scores, true);
        let powers = softmax.add(scores, rescale, ROWS).cast::<T>();
        self.give(powers, softmax, q);
        let rescale = Self::rescale_of(step, rescale);
        self.clear(step, 0, left.tiles);
        let sums = Accumulator::from_tensor(sums.rescale(Self::spread(rescale)));
        let sums = sums.mma(Self::factor(powers), left.tiles);
        self.tiles.ready[1].sync();
        let rescale = softmax.follow(self.tiles.maxima.load(Self::of_rows()), ROWS);
        let sums = sums.wait_all();
        own.halves[0].consumer_release(left);
        State {
            softmax,
            sums: sums.rescale(Self::spread(rescale)),
        }
    }

    /// The product with the second block of the last step of a piece.
    #[device]
    fn first_tail(self, step: Step, q: Queries<T>, state: State) -> State {
        let half = self.tiles.blocks[1].halves[0];
        let others = half.consumer_wait(half.of_fill(step.fill()));
        self.clear(step, 1, others.tiles);
        let sums = Accumulator::from_tensor(state.sums).mma(self.others(q), others.tiles);
        let sums = sums.wait_all();
        half.consumer_release(others);
        State { sums, ..state }
    }

    /// The scores of the warpgroup's own block, -inf where a row does not see a key.
    #[device]
    fn masked(self, step: Step, scores: Tensor<f32>) -> Tensor<f32> {
        if !step.is_masked {
            return scores;
        }
        let row = self.rows.row(Self::of_rows());
        let [_, token] = self.rows.place(row);
        let place = token + (step.piece.keys - self.rows.queries);
        let end = minimum(place + 1, step.piece.keys);
        let first = step.first_key(self.group);
        let key = first + arange(0..PAGE, Slice::new(0, Self::of_scores()));
        let is_seen = key.expand_dims(0) < end.expand_dims(1);
        select(is_seen, scores, f32::NEG_INFINITY)
    }

    /// Gives P and the maxima after it to the other warpgroup.
    #[device]
    fn give(self, powers: Tensor<T>, softmax: Softmax, q: Queries<T>) {
        let LatentTiles {
            powers: first,
            maxima,
            ready,
            ..
        } = self.tiles;
        let tile = if self.group == 0 {
            first
        } else {
            self.others(q)
        };
        tile.store(powers);
        maxima.store(softmax.maxima());
        fence_async_shared();
        ready[self.group].arrive();
    }

    /// Clears the values behind the last key in block `block` of a step: memory there may hold NaN, and P of 0 times NaN is NaN.
    #[device]
    fn clear(self, step: Step, block: usize, values: Smem<T>) {
        if step.is_masked {
            clear_from(values, step.piece.keys - step.first_key(block));
        }
    }

    /// Stores the results of a piece: to the output, if it has all keys of the sequence. The output is staged in the place of Q, of which no product is left.
    #[device]
    fn finish(self, piece: Piece, q: Queries<T>, state: State) {
        let State { softmax, sums } = state;
        let LatentTiles { totals, both, .. } = self.tiles;
        let own = softmax.total();
        totals[self.group].store(own);
        both.sync();
        let total = own + totals[1 - self.group].load(Self::of_rows());
        let sink = full([ROWS], f32::NEG_INFINITY, Self::of_rows());
        let (factor, log_sum_exp) = softmax.normalize(total, sink);
        let sums = sums * Self::spread(factor);
        let place = [q.left, q.right][self.group];
        self.rows
            .store(piece, self.group, (sums, log_sum_exp), place);
    }
}
