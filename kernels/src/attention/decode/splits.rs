//! How the keys of a sequence are split among CTAs.

use tilekit::prelude::*;

/// The keys of each sequence, and how they are split among CTAs.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Splits {
    /// Keys of each sequence.
    pub(in crate::attention) lengths: Ptr<i32>,
    /// The most that a sequence may have.
    pub(in crate::attention) room: Scalar<i32>,
    /// Splits of a sequence.
    pub(in crate::attention) parts: Scalar<i32>,
    /// Queries of each sequence.
    pub(in crate::attention) queries: Scalar<i32>,
    /// Keys that a query sees before its position.
    pub(in crate::attention) left: Scalar<i32>,
    /// Queries of a tile, and keys of a block.
    pub(in crate::attention) tile: [usize; 2],
}

/// The blocks of keys that a tile of queries sees: `of_split` in each split, and the remainder in the last one.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Shares {
    bottom: Scalar<i32>,
    top: Scalar<i32>,
    of_split: Scalar<i32>,
}

impl Splits {
    /// Keys of a sequence: a length that none has counts as the nearest one that it may have, so that no access is outside of table and cache.
    #[device]
    pub(in crate::attention) fn keys(self, batch: Scalar<i32>) -> Scalar<i32> {
        minimum(maximum(self.lengths.at(batch).load(), 0), self.room)
    }

    /// Those of a tile.
    #[device]
    pub(in crate::attention) fn shares(self, keys: Scalar<i32>, row_tile: Scalar<i32>) -> Shares {
        let [queries, block] = self.tile;
        let first = row_tile * queries + keys - self.queries;
        let bottom = maximum(first - self.left, 0) / block;
        // Queries that see no key have one block as well, all of which is masked.
        let top = maximum(cdiv(keys, block), bottom + 1);
        Shares {
            bottom,
            top,
            of_split: cdiv(top - bottom, self.parts),
        }
    }
}

impl Shares {
    /// How many splits have blocks: the others at the end have none.
    #[device]
    pub(in crate::attention) fn used(self) -> Scalar<i32> {
        cdiv(self.top - self.bottom, self.of_split)
    }

    /// The blocks of a split.
    #[device]
    pub(super) fn of(self, split: Scalar<i32>) -> [Scalar<i32>; 2] {
        let first = self.bottom + split * self.of_split;
        [first, minimum(first + self.of_split, self.top)]
    }
}
