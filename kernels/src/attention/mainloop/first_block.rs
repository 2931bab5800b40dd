//! The first block of a tile that rows of a consumer warpgroup see, and those before it.

use tilekit::prelude::*;

use super::buffers::is_transposed;
use super::consumer::{At, Consumer, State};
use super::problem::{Loads, Problem, ROWS};
use super::softmax::{Powers, Softmax};

impl<T: WgmmaOperand<T, f32>, P: Problem<T>, const GROUPS: usize> Consumer<T, P, GROUPS> {
    /// The first block that the rows see, behind `unseen` others, up to P.
    #[device]
    pub(super) fn begin(self, at: At<T, P>, unseen: Option<Scalar<i32>>) -> State<T> {
        let At { rows, blocks, .. } = at;
        if let Some(unseen) = unseen {
            for number in range(0, unseen) {
                self.pass_over(self.keys, at.base + number);
            }
        }
        let start = unseen.unwrap_or_else(|| scalar(0));
        let (softmax, powers) = self.first(at, start);
        let powers = self.problem.kept(rows, self.first_key(at, start), powers);
        let values = self.values;
        if P::CLEARS {
            let first = values.consumer_wait(values.of_fill(at.base));
            self.problem.clear(rows, blocks.top - 1, first.tiles);
        }
        // Each arrival at a named barrier needs its wait: a tile of one block has neither.
        if let Some(turns) = self.turns {
            if blocks.count > 1 {
                turns.begin(self.group);
            }
        }
        if let Some(unseen) = unseen {
            for number in range(0, unseen) {
                self.pass_over(values, at.base + number);
                if let Some(turns) = self.turns {
                    turns.wait(self.group);
                    self.pass_turn(turns, at, number + 1);
                }
            }
        }
        State {
            softmax,
            sums: Accumulator::zeros([ROWS, self.shape.values], self.of_sums()),
            powers: self.factor(powers),
            rescale: full([ROWS], 1.0f32, self.of_rows()),
        }
    }

    /// Releases a block that no row of the warpgroup sees.
    #[device]
    fn pass_over(self, pipeline: Loads<T>, fill: Scalar<i32>) {
        let of_unseen = pipeline.consumer_wait(pipeline.of_fill(fill));
        pipeline.consumer_release(of_unseen);
    }

    /// P of step `start`, whose maxima are those of its scores.
    #[device]
    fn first(self, at: At<T, P>, start: Scalar<i32>) -> (Softmax, Tensor<f32>) {
        let stage = self.keys.consumer_wait(self.keys.of_fill(at.base + start));
        let block_keys = self.shape.keys;
        let few = self.problem.first_keys(self.group, block_keys);
        if few == block_keys {
            let s = self.scores().mma(at.q, stage.tiles.transpose()).wait_all();
            self.keys.consumer_release(stage);
            let s = self.seen(at, s, start, true);
            return self.first_powers(at, s, block_keys);
        }
        let of_few = Wgmma::new([4, 1], [64, few, 32 / size_of::<T>()]);
        let s = Accumulator::<f32>::zeros([ROWS, few], of_few.clone());
        let few_keys = stage.tiles.slice(0, 0..few).transpose();
        let s = s.mma(at.q, few_keys).wait_all();
        self.keys.consumer_release(stage);
        let problem = self.problem;
        let rows = problem.rows(at.place, self.group, Slice::new(1, of_few.clone()));
        let column = arange(0..few, Slice::new(0, of_few)).expand_dims(0);
        let key = self.first_key(at, start) + column;
        let s = problem.scores(rows, key, s);
        let s = select(problem.sees(rows, key), s, f32::NEG_INFINITY);
        let (softmax, powers) = self.first_powers(at, s, few);
        let others = full([ROWS, block_keys - few], 0.0f32, powers.layout());
        let powers = powers.cat(others, 1);
        let powers = powers.convert_layout_trivial(self.of_scores());
        (softmax.widened(powers, [ROWS, block_keys]), powers)
    }

    #[device]
    fn first_powers(self, at: At<T, P>, s: Tensor<f32>, keys: usize) -> (Softmax, Tensor<f32>) {
        let how = Powers {
            is_shifted: is_transposed::<T>(),
            exponentials: self.shape.exponentials,
        };
        let (scale, least) = (self.problem.log2_scale(at.rows), self.problem.least());
        Softmax::first(s, scale, least, [ROWS, keys], how)
    }
}
