//! Online softmax of rows, block by block.

use gluon_lang::lang::prelude::*;

/// The online softmax of rows: the largest score so far, and the sum of P, which is 2 to the power of each score minus the largest, all
/// scaled (Milakov and Gimelshein, 2018). Scores are tensors of `[rows, columns]`, and what is kept has `[rows]` in the layout
/// `Slice(1, layout of the scores)`.
///
/// ```text
/// let mut softmax = OnlineSoftmax::new(ROWS, log2_scale, Slice::new(1, layout));
/// for .. {
///     let (p, rescale) = softmax.add(scores);
///     sums = sums * rescale.expand_dims(1) + p · V;
/// }
/// out = sums / softmax.sum().expand_dims(1);
/// ```
#[derive(Clone, Copy, Aggregate)]
pub struct OnlineSoftmax {
    log2_scale: Scalar<f32>,
    max: Tensor<f32>,
    sum: Tensor<f32>,
}

/// The largest score of a row without any: finite, and still so when multiplied by a scale of scores, so that such a row has no NaN.
const LEAST: f32 = -1e30;

impl OnlineSoftmax {
    /// The empty softmax of `rows` rows. `log2_scale` is log2(e) times the scale of the scores, and positive.
    #[track_caller]
    pub fn new(rows: usize, log2_scale: Scalar<f32>, layout: Slice) -> Self {
        OnlineSoftmax {
            log2_scale,
            max: full([rows], LEAST, layout.clone()),
            sum: zeros([rows], layout),
        }
    }

    /// Adds a block of scores: returns its P, and the scale of the accumulator so far. A score of -inf is masked.
    #[device]
    pub fn add(&mut self, scores: Tensor<f32>) -> (Tensor<f32>, Tensor<f32>) {
        let max = maximum(self.max, scores.max(1));
        let least = -(max * self.log2_scale).expand_dims(1);
        let powers = fma(scores, self.log2_scale, least).exp2();
        let scale = ((self.max - max) * self.log2_scale).exp2();
        self.sum = self.sum * scale + powers.sum(1);
        self.max = max;
        (powers, scale)
    }

    /// The largest score of each row, unscaled.
    pub fn max(&self) -> Tensor<f32> {
        self.max
    }

    /// The sum of P of each row, the divisor of the accumulator.
    pub fn sum(&self) -> Tensor<f32> {
        self.sum
    }

    /// The natural logarithm of the sum of exponentials of the scaled scores of each row (LSE), from which a backward pass or the merge
    /// of partial results computes P again.
    #[track_caller]
    pub fn log_sum_exp(&self) -> Tensor<f32> {
        (self.max * self.log2_scale + self.sum.log2()) * LN_2
    }

    /// The softmax of the rows over the scores of both, which may come from different parts of the columns, and the factors that rescale
    /// what was accumulated with each.
    #[track_caller]
    pub fn merge(self, other: Self) -> (Self, [Tensor<f32>; 2]) {
        let max = maximum(self.max, other.max);
        let scales = [self.max, other.max].map(|of| ((of - max) * self.log2_scale).exp2());
        let sum = self.sum * scales[0] + other.sum * scales[1];
        let merged = OnlineSoftmax { max, sum, ..self };
        (merged, scales)
    }
}
