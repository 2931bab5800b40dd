//! Dropout of weights: which are dropped follows from a seed and the places of query and key alone, so that the forward and the backward
//! pass, whose scores lie differently in registers, drop the same.
//!
//! A counter of Philox 4x32-10 gives four words of 32 bits, for two queries, 8 apart, and two keys, 8 apart: a thread of a
//! `wgmma` accumulator has all four, transposed or not. The counter is the query and the key without their bit 3, the head and the sequence. The
//! word is that of the query's bit 3, twice, and the key's; a weight is dropped where it is less than the rate times 2^32.

use tilekit::prelude::*;

use crate::philox::{self, philox_on_host};

/// Dropout of the weights of values, each by itself, behind the softmax: what is kept is divided by one minus the rate. LSE is that of all
/// scores.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// The share that is dropped: 0 to less than 1, in steps of 2^-32.
    pub rate: f32,
    /// The same seed drops the same weights: a backward pass has that of its forward pass, another forward pass one of its own.
    pub seed: u64,
}

impl Dropout {
    /// Words below this drop their weights.
    pub(super) fn threshold(self) -> u32 {
        philox::threshold(self.rate)
    }

    /// What a weight is multiplied by: of `head` among all query heads of a batch, and the query and key of a sequence.
    pub(super) fn factor(self, [sequence, head, query, key]: [usize; 4]) -> f64 {
        let cell = |at: usize| (at / 16 * 8 + at % 8) as u32;
        let counter = [cell(query), cell(key), head as u32, sequence as u32];
        let word = query / 8 % 2 * 2 + key / 8 % 2;
        let threshold = self.threshold();
        if philox_on_host(self.seed, counter)[word] < threshold {
            0.0
        } else {
            philox::factor_on_host(threshold)
        }
    }
}

/// Dropout in a kernel.
#[derive(Clone, Copy)]
pub(super) struct Drops {
    seed: Scalar<u64>,
    threshold: Scalar<u32>,
}

/// A tile of scores: its first query and key, and which of them its rows are.
#[derive(Clone, Copy)]
pub(super) struct Corner {
    pub(super) sequence: Scalar<i32>,
    pub(super) head: Scalar<i32>,
    /// Multiples of 16.
    pub(super) query: Scalar<i32>,
    pub(super) key: Scalar<i32>,
    pub(super) rows_are_keys: bool,
}

impl Corner {
    /// That of the columns from `column`, a multiple of 16, on.
    #[device]
    pub(super) fn at_column(self, column: usize) -> Self {
        if self.rows_are_keys {
            Corner {
                query: self.query + column,
                ..self
            }
        } else {
            Corner {
                key: self.key + column,
                ..self
            }
        }
    }
}

impl Drops {
    /// From a kernel's parameters.
    #[device]
    pub(super) fn new(seed: Scalar<i64>, threshold: Scalar<i32>) -> Self {
        Drops {
            seed: seed.cast::<u64>(),
            threshold: threshold.cast::<u32>(),
        }
    }

    /// What kept weights are multiplied by.
    #[device]
    pub(super) fn factor(self) -> Scalar<f32> {
        philox::factor(self.threshold)
    }

    /// Whether each weight of a tile is kept; `[rows, columns]` are in the layout of an accumulator of `wgmma`.
    #[device]
    pub(super) fn kept(self, weights: Tensor<f32>, shape: [usize; 2], at: Corner) -> Tensor<bool> {
        let [rows, columns] = shape;
        let layout = layout_of_cells(weights, shape);
        let places = |first: Scalar<i32>, extent: usize, dim: usize| {
            let along = arange(0..extent / 2, Slice::new(1 - dim as u32, layout.clone()));
            (first / 2 + along).expand_dims(1 - dim).cast::<u32>()
        };
        let [first_row, first_column] = if at.rows_are_keys {
            [at.key, at.query]
        } else {
            [at.query, at.key]
        };
        let row = places(first_row, rows, 0);
        let column = places(first_column, columns, 1);
        let all = |x: Scalar<i32>| full([1, 1], x.cast::<u32>(), layout.clone());
        let [query, key] = if at.rows_are_keys {
            [column, row]
        } else {
            [row, column]
        };
        let words = philox(self.seed, [query, key, all(at.head), all(at.sequence)]);
        let kept = |in_row: usize, in_column: usize| {
            let word = if at.rows_are_keys {
                in_column * 2 + in_row
            } else {
                in_row * 2 + in_column
            };
            (words[word] >= self.threshold).reshape([rows / 16, 8, columns / 16, 8])
        };
        let [upper, lower] = [0, 1].map(|in_row| kept(in_row, 0).join(kept(in_row, 1)));
        let parts = upper.join(lower).permute([0, 5, 1, 2, 4, 3]);
        parts
            .reshape(shape)
            .convert_layout_trivial(weights.layout())
    }
}

/// The layout of cells of two rows and two columns, 8 apart, `[rows / 2, columns / 2]`, of which a thread has all elements.
#[device]
fn layout_of_cells(weights: Tensor<f32>, [rows, columns]: [usize; 2]) -> Layout {
    let parts = weights.reshape([rows / 16, 2, 8, columns / 16, 2, 8]);
    let (half, _) = parts.permute([0, 2, 3, 5, 1, 4]).split();
    let (cells, _) = half.split();
    cells.reshape([rows / 2, columns / 2]).layout()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share that is dropped, and what two neighbours in each direction share, over 2^16 weights of two heads.
    #[test]
    fn weights_are_dropped_by_themselves_at_the_rate() {
        let dropout = Dropout {
            rate: 0.25,
            seed: 7,
        };
        let dropped = |at: [usize; 4]| f64::from(u8::from(dropout.factor(at) == 0.0));
        let count = 2.0 * 128.0 * 256.0;
        for step in [
            [0, 0, 0, 0],
            [0, 0, 0, 1],
            [0, 0, 1, 0],
            [0, 0, 0, 8],
            [0, 0, 8, 0],
            [0, 1, 0, 0],
            [1, 0, 0, 0],
        ] {
            let mut both = 0.0;
            for place in 0..2 * 128 * 256 {
                let at = [0, place / (128 * 256), place / 256 % 128, place % 256];
                let other = [0, 1, 2, 3].map(|dim| at[dim] + step[dim]);
                both += dropped(at) * dropped(other);
            }
            let wanted: f64 = if step == [0; 4] { 0.25 } else { 0.0625 };
            let deviation = (wanted * (1.0 - wanted) / count).sqrt();
            let found = both / count;
            assert!(
                (found - wanted).abs() < 5.0 * deviation,
                "{step:?}: {found}"
            );
        }
    }
}
