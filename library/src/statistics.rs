//! Mean and variance of rows, block by block.

use gluon_lang::lang::prelude::*;

/// How many elements each row has, their mean, and the sum of their squared distances from it. Blocks are merged by the formula of Chan,
/// Golub and `LeVeque` (1979), of which Welford's is the case of one element: unlike a sum of squares it does not cancel where the mean is far from 0.
///
/// ```text
/// let mut statistics = RowStatistics::none(ROWS, Slice::new(1, layout));
/// for .. { statistics = statistics.merge(RowStatistics::of(block, column < cols)); }
/// let scale = (statistics.variance() + epsilon).rsqrt();
/// ```
#[derive(Clone, Copy, Aggregate)]
pub struct RowStatistics {
    count: Tensor<f32>,
    mean: Tensor<f32>,
    squares: Tensor<f32>,
}

impl RowStatistics {
    /// The statistics of `rows` rows without elements.
    #[track_caller]
    pub fn none(rows: usize, layout: Slice) -> Self {
        let nothing = zeros([rows], layout);
        RowStatistics {
            count: nothing,
            mean: nothing,
            squares: nothing,
        }
    }

    /// The statistics of the elements of a block `[rows, columns]` that are `inside`.
    #[device]
    pub fn of(block: Tensor<f32>, inside: Tensor<bool>) -> Self {
        let count = select(inside, full_like(block, 1.0), 0.0).sum(1);
        let mean = select(inside, block, 0.0).sum(1) / maximum(count, 1.0);
        let distance = select(inside, block - mean.expand_dims(1), 0.0);
        RowStatistics {
            count,
            mean,
            squares: (distance * distance).sum(1),
        }
    }

    /// The statistics of the elements of both.
    #[device]
    pub fn merge(self, other: Self) -> Self {
        let count = self.count + other.count;
        let share = other.count / maximum(count, 1.0);
        let distance = other.mean - self.mean;
        RowStatistics {
            count,
            mean: self.mean + distance * share,
            squares: self.squares + other.squares + distance * distance * self.count * share,
        }
    }

    /// How many elements each row has.
    pub fn count(self) -> Tensor<f32> {
        self.count
    }

    /// The mean of each row; 0 of none.
    pub fn mean(self) -> Tensor<f32> {
        self.mean
    }

    /// The mean squared distance from the mean; 0 of none.
    #[device]
    pub fn variance(self) -> Tensor<f32> {
        self.squares / maximum(self.count, 1.0)
    }

    /// The same with one element less in the denominator, for rows that are samples; 0 of one.
    #[device]
    pub fn sample_variance(self) -> Tensor<f32> {
        self.squares / maximum(self.count - 1.0, 1.0)
    }
}
