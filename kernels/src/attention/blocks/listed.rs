//! Heads whose tiles see the blocks of keys that a list names (block-sparse masks): partial ones, whose scores are masked, and full ones.

use tilekit::prelude::*;

use crate::attention::mainloop::problem::{Blocks, Edges, Loads, Problem, load};
use crate::attention::mainloop::softmax::Softmax;
use crate::attention::masked::spans::{SpanRows, SpanTile, Spans};
use crate::attention::modifier::Modifier;

/// The lists of key blocks, one for each block of queries of each head of each batch: the partial blocks first, then the full ones. Where heads or batches share lists, theirs are 0
/// lists apart.
#[derive(Clone, Copy)]
pub(super) struct Lists {
    /// Where each list begins in `blocks`, and where the last one ends.
    pub(super) starts: Ptr<i32>,
    /// Twice the partial blocks of each list, and 1 where the one that the last key ends is full.
    pub(super) partial: Ptr<i32>,
    /// Blocks of so many keys as the mask has.
    pub(super) blocks: Ptr<i32>,
    /// Lists from one batch, and from one head, to the next.
    pub(super) strides: [Scalar<i32>; 2],
    /// Tiles of queries for a list, and blocks of keys of a tile for a block of the mask.
    pub(super) tiles: Scalar<i32>,
    pub(super) parts: Scalar<i32>,
}

/// [`Spans`] of one length, of whose keys a tile sees the blocks of a list.
#[derive(Clone, Copy)]
pub(super) struct Listed<T, M> {
    pub(super) spans: Spans<T, M>,
    pub(super) lists: Lists,
}

/// A tile, and its list.
#[derive(Clone, Copy)]
pub(super) struct ListedTile {
    tile: SpanTile,
    first: Scalar<i32>,
    count: Scalar<i32>,
    /// The steps that are masked, and those of them from here on only at the last key.
    masked: Scalar<i32>,
    whole: Scalar<i32>,
}

/// The rows of a warpgroup, and the steps of their tile that are masked.
#[derive(Clone, Copy)]
pub(super) struct ListedRows {
    rows: SpanRows,
    masked: Scalar<i32>,
    whole: Scalar<i32>,
    /// At a step: whether it is masked at the last key alone.
    is_whole: Option<Scalar<bool>>,
}

impl<T: Element, M: Modifier> Problem<T> for Listed<T, M> {
    type Tile = ListedTile;
    type Rows = ListedRows;
    type Output = T;
    type Loaded = T;

    #[device]
    fn count(self) -> Scalar<i32> {
        Problem::<T>::count(self.spans)
    }

    #[device]
    fn tile(self, number: Scalar<i32>) -> ListedTile {
        let Lists {
            starts,
            partial,
            strides,
            tiles,
            parts,
            ..
        } = self.lists;
        let tile = Problem::<T>::tile(self.spans, number);
        let block = tile.row / self.spans.tile[0] / tiles;
        let list = tile.sequence * strides[0] + tile.head * strides[1] + block;
        let [first, end] = [0, 1].map(|after| starts.at(list + after).load());
        let partial = partial.at(list).load();
        let masked = partial / 2 * parts;
        ListedTile {
            tile,
            first,
            count: (end - first) * parts,
            masked,
            // Step 0 is masked always: of a list of full blocks, at the last key alone.
            whole: masked - partial % 2 * parts,
        }
    }

    fn blocks(self, tile: ListedTile) -> Blocks {
        Blocks {
            top: tile.count,
            count: tile.count,
        }
    }

    /// A list has a block at least: where rows see no key, that is one behind the last key.
    #[device]
    fn block(self, tile: ListedTile, _: Blocks, number: Scalar<i32>) -> Scalar<i32> {
        let parts = self.lists.parts;
        let block = self.lists.blocks.at(tile.first + number / parts).load();
        block * parts + number % parts
    }

    #[device]
    fn has_rows(self, tile: ListedTile) -> Option<Scalar<bool>> {
        Problem::<T>::has_rows(self.spans, tile.tile)
    }

    #[device]
    fn rows(self, tile: ListedTile, group: usize, layout: Slice) -> ListedRows {
        ListedRows {
            rows: Problem::<T>::rows(self.spans, tile.tile, group, layout),
            masked: tile.masked,
            whole: tile.whole,
            is_whole: None,
        }
    }

    /// A block that is masked at the last key alone is seen up to it by all rows: their limits say so, for masks of keys take as many registers as a block has columns.
    #[device]
    fn at(self, rows: ListedRows, number: Scalar<i32>) -> ListedRows {
        let is_whole = number >= rows.whole;
        ListedRows {
            rows: rows.rows.with_all(self.spans.lengths.keys, is_whole),
            is_whole: Some(is_whole),
            ..rows
        }
    }

    #[device]
    fn sees(self, rows: ListedRows, key: Tensor<i32>) -> Tensor<bool> {
        let seen = self.spans.is_between(rows.rows, key);
        if !M::MASKS {
            return seen;
        }
        let by_modifier = M::sees(self.spans.place(rows.rows, key));
        match rows.is_whole {
            Some(is_whole) => seen & (by_modifier | is_whole),
            None => seen & by_modifier,
        }
    }

    #[device]
    fn scores(self, rows: ListedRows, key: Tensor<i32>, scores: Tensor<f32>) -> Tensor<f32> {
        Problem::<T>::scores(self.spans, rows.rows, key, scores)
    }

    #[device]
    fn edges(self, rows: ListedRows, blocks: Blocks) -> Edges {
        Edges {
            high: Some(minimum(maximum(rows.masked, 1), blocks.count)),
            low: None,
            all: false,
        }
    }

    fn log2_scale(self, rows: ListedRows) -> Scalar<f32> {
        Problem::<T>::log2_scale(self.spans, rows.rows)
    }

    fn least(self) -> f32 {
        Problem::<T>::least(self.spans)
    }

    #[device]
    fn load_queries(self, tile: ListedTile, group: usize, to: Loads<T>, count: Scalar<i32>) {
        Problem::<T>::load_queries(self.spans, tile.tile, group, to, count);
    }

    /// The list is read a block ahead.
    #[device]
    fn load_blocks(
        self,
        tile: ListedTile,
        blocks: Blocks,
        [keys, values]: [Loads<T>; 2],
        base: Scalar<i32>,
        load_queries: impl FnOnce(),
    ) {
        let [k, v] = [self.spans.maps[1], self.spans.maps[2]];
        let keys_at = |block: Scalar<i32>| self.spans.keys_at(tile.tile, block);
        let values_at = |block: Scalar<i32>| self.spans.values_at(tile.tile, block);
        let end = base + blocks.count;
        let last = blocks.count - 1;
        let mut block = self.block(tile, blocks, scalar(0));
        let mut next = self.block(tile, blocks, minimum(last, 1));
        load(keys, base, k, keys_at(block));
        load_queries();
        for fill in range(base + 1, end) {
            let after = self.block(tile, blocks, minimum(last, fill - base + 1));
            load(keys, fill, k, keys_at(next));
            load(values, fill - 1, v, values_at(block));
            block = next;
            next = after;
        }
        load(values, end - 1, v, values_at(block));
    }

    #[device]
    fn store(self, rows: ListedRows, sums: Tensor<f32>, softmax: Softmax, place: Smem<T>) {
        Problem::<T>::store(self.spans, rows.rows, sums, softmax, place);
    }
}
