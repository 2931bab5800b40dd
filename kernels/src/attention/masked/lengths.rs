//! The sequences of a launch: of one length, or concatenated in tensors of one batch.

use tilekit::prelude::*;

/// The sequences of a launch: of `queries` and `keys` tokens, or concatenated, with the beginning of each at `offsets`.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Lengths {
    pub(in crate::attention) is_ragged: Scalar<bool>,
    pub(in crate::attention) offsets: [Ptr<i32>; 2],
    /// The longest.
    pub(in crate::attention) queries: Scalar<i32>,
    pub(in crate::attention) keys: Scalar<i32>,
}

/// Where rows of a sequence begin in a map of `[1, batch, heads, tokens, depth]`.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Origin {
    outermost: Scalar<i32>,
    batch: Scalar<i32>,
    token: Scalar<i32>,
}

impl Origin {
    /// The coordinates of a row of a head, so many rows behind the first.
    pub(in crate::attention) fn at(self, head: Scalar<i32>, row: Scalar<i32>) -> [Scalar<i32>; 4] {
        [self.outermost, self.batch, head, self.token + row]
    }
}

/// The coordinates of [`Origin::at`], from a column on.
pub(in crate::attention) fn from_column(
    [outermost, batch, head, token]: [Scalar<i32>; 4],
    column: Scalar<i32>,
) -> [Scalar<i32>; 5] {
    [outermost, batch, head, token, column]
}

impl Lengths {
    /// Where the queries and the keys of a sequence begin in the tensors of their batch, and how many there are.
    #[device]
    pub(in crate::attention) fn of(self, batch: Scalar<i32>) -> [[Scalar<i32>; 2]; 2] {
        let Lengths {
            is_ragged,
            offsets,
            queries,
            keys,
        } = self;
        let [starts, ends] = [0, 1].map(|after| {
            offsets.map(|offsets| {
                let of_batch = offsets.at(batch + after);
                // What begins in front of a tensor begins with it.
                maximum(of_batch.mask(is_ragged).other(0).load(), 0)
            })
        });
        let length =
            |side: usize, all: Scalar<i32>| select(is_ragged, ends[side] - starts[side], all);
        [starts, [length(0, queries), length(1, keys)]]
    }

    /// Where row `row` of a batch is in the map of a tensor. From this row on its sequence has `left` rows.
    ///
    /// Where sequences are concatenated, the map is one [with sequences](tilekit::TensorView::with_sequences): rows behind the last one of a sequence are outside of it. TMA loads fill them with
    /// zeros, so that no product reads another sequence, whose NaN and infinity a weight of 0 would keep, and TMA stores leave them out.
    #[device]
    pub(in crate::attention) fn origin(
        self,
        batch: Scalar<i32>,
        [row, left]: [Scalar<i32>; 2],
    ) -> Origin {
        let is_ragged = self.is_ragged;
        Origin {
            outermost: select(is_ragged, SEQUENCE_END, 0),
            batch: select(is_ragged, row + left, batch),
            token: select(is_ragged, SEQUENCE_END - left, row),
        }
    }

    /// The coordinates, batch and token, of a row in a map [with stored sequences](tilekit::TensorView::with_stored_sequences) of a tensor of `tokens`.
    #[device]
    pub(in crate::attention) fn stored_at(
        self,
        batch: Scalar<i32>,
        [row, left]: [Scalar<i32>; 2],
        tokens: Scalar<i32>,
    ) -> [Scalar<i32>; 2] {
        [
            select(self.is_ragged, row + left, batch),
            select(self.is_ragged, tokens - left, row),
        ]
    }

    /// The first block of `queries` queries of a sequence, where each sequence has blocks of its own: after the whole blocks of all earlier
    /// queries, and after one more for each earlier sequence.
    #[device]
    pub(in crate::attention) fn first_block(
        self,
        sequence: Scalar<i32>,
        starts: [Scalar<i32>; 2],
        queries: usize,
    ) -> Scalar<i32> {
        select(self.is_ragged, starts[0] / queries + sequence, 0)
    }
}
