//! Heads with as many queries as keys, at any strides.

use tilekit::prelude::*;

use super::descale::Descale;
use crate::attention::mainloop::problem::{
    Blocks, Edges, Loads, Problem, ROWS, load, load_numbered,
};
use crate::attention::mainloop::softmax::{LEAST, Softmax};
use crate::attention::mainloop::tiles::{Tiles, divide};

/// Q and the output are `[batch, heads, tokens, depth]`, K and V have a head for `query_heads` of theirs. A query sees all keys, or those up to
/// its own position.
#[derive(Clone, Copy)]
pub(super) struct Dense<T, O> {
    pub(super) maps: [TensorMap<T>; 3],
    pub(super) out: TensorMap<O>,
    pub(super) lse: Ptr<f32>,
    pub(super) tiles: Tiles,
    /// Heads of a batch, and query heads of a head of K and V.
    pub(super) heads: Scalar<i32>,
    pub(super) query_heads: Scalar<i32>,
    pub(super) tokens: Scalar<i32>,
    pub(super) log2_scale: Scalar<f32>,
    pub(super) is_causal: bool,
    /// Rows of a tile, and keys of a block.
    pub(super) tile: [usize; 2],
    /// The factors of each head, for elements that were scaled.
    pub(super) descale: Option<Descale>,
}

/// A block of queries of a head, which has its number among those of all batches.
#[derive(Clone, Copy)]
pub(super) struct DenseTile {
    block: Scalar<i32>,
    line: Scalar<i32>,
}

/// The rows of a warpgroup.
#[derive(Clone, Copy)]
pub(super) struct DenseRows {
    line: Scalar<i32>,
    first: Scalar<i32>,
    row: Tensor<i32>,
    /// The factor of scores in an exponent of 2.
    log2_scale: Scalar<f32>,
    /// The factor of V, where there is one.
    of_values: Option<Scalar<f32>>,
}

impl<T, O> Dense<T, O> {
    /// The batch of a head, and its number there.
    #[device]
    fn head(self, line: Scalar<i32>) -> [Scalar<i32>; 2] {
        divide(line, self.heads)
    }
}

impl<T: Element, O: Element> Problem<T> for Dense<T, O> {
    type Tile = DenseTile;
    type Rows = DenseRows;
    type Output = O;
    type Loaded = T;

    fn count(self) -> Scalar<i32> {
        self.tiles.count()
    }

    #[device]
    fn tile(self, number: Scalar<i32>) -> DenseTile {
        let [block, line] = self.tiles.place(number);
        DenseTile { block, line }
    }

    #[device]
    fn blocks(self, tile: DenseTile) -> Blocks {
        let [queries, keys] = self.tile;
        let all = cdiv(self.tokens, keys);
        let count = if self.is_causal {
            minimum(cdiv((tile.block + 1) * queries, keys), all)
        } else {
            all
        };
        Blocks { top: count, count }
    }

    fn has_rows(self, _: DenseTile) -> Option<Scalar<bool>> {
        None
    }

    #[device]
    fn rows(self, tile: DenseTile, group: usize, layout: Slice) -> DenseRows {
        let first = tile.block * self.tile[0] + group * ROWS;
        let row = first + arange(0..ROWS, layout);
        let (mut log2_scale, mut of_values) = (self.log2_scale, None);
        if let Some(descale) = self.descale {
            let [kv_line, _] = divide(tile.line, self.query_heads);
            let [of_scores, of_v] = descale.of(tile.line, kv_line);
            log2_scale *= of_scores;
            of_values = Some(of_v);
        }
        DenseRows {
            line: tile.line,
            first,
            row,
            log2_scale,
            of_values,
        }
    }

    #[device]
    fn sees(self, rows: DenseRows, key: Tensor<i32>) -> Tensor<bool> {
        if self.is_causal {
            (key <= rows.row.expand_dims(1)) & (key < self.tokens)
        } else {
            key < self.tokens
        }
    }

    fn scores(self, _: DenseRows, _: Tensor<i32>, scores: Tensor<f32>) -> Tensor<f32> {
        scores
    }

    #[device]
    fn unseen(self, rows: DenseRows, blocks: Blocks, group: usize) -> Option<Scalar<i32>> {
        let [queries, keys] = self.tile;
        let is_last = (group + 1) * ROWS == queries;
        // The last block of a tile is that of its last row. Blocks as long as tiles begin where tiles do.
        let may_be = self.is_causal && !is_last && !keys.is_multiple_of(queries);
        may_be.then(|| {
            let end = minimum(rows.first + ROWS as i32, self.tokens);
            blocks.count - cdiv(end, keys)
        })
    }

    /// Where a block is as long as a tile, the first one is on the diagonal.
    fn first_keys(self, group: usize, keys: usize) -> usize {
        if self.is_causal && keys == self.tile[0] {
            (group + 1) * ROWS
        } else {
            keys
        }
    }

    #[device]
    fn edges(self, rows: DenseRows, blocks: Blocks) -> Edges {
        // Blocks of keys run from the last to the first: only those that cross the diagonal need a mask, of which there is one where no tile of queries
        // crosses the edge of a block.
        let [queries, keys] = self.tile;
        let high = (self.is_causal && !keys.is_multiple_of(queries)).then(|| {
            minimum(
                maximum(blocks.count - (rows.first + 1) / keys, 1),
                blocks.count,
            )
        });
        Edges {
            high,
            low: None,
            all: false,
        }
    }

    fn log2_scale(self, rows: DenseRows) -> Scalar<f32> {
        rows.log2_scale
    }

    fn least(self) -> f32 {
        LEAST
    }

    #[device]
    fn load_queries(self, tile: DenseTile, group: usize, to: Loads<T>, count: Scalar<i32>) {
        let row = tile.block * self.tile[0] + group * ROWS;
        let [batch, head] = self.head(tile.line);
        load(to, count, self.maps[0], [batch, head, row, scalar(0)]);
    }

    #[device]
    fn load_blocks(
        self,
        tile: DenseTile,
        blocks: Blocks,
        [keys, values]: [Loads<T>; 2],
        base: Scalar<i32>,
        load_queries: impl FnOnce(),
    ) {
        let [batch, head] = self.head(tile.line);
        let [kv_head, _] = divide(head, self.query_heads);
        let at = |number: Scalar<i32>| [batch, kv_head, number * self.tile[1], scalar(0)];
        load_numbered(
            blocks,
            base,
            load_queries,
            |count, number| load(keys, count, self.maps[1], at(number)),
            |count, number| load(values, count, self.maps[2], at(number)),
        );
    }

    #[device]
    fn store(self, rows: DenseRows, sums: Tensor<f32>, softmax: Softmax, place: Smem<O>) {
        let DenseRows {
            line,
            first,
            row,
            of_values,
            ..
        } = rows;
        // Divided here, since the loop of depth 256 has no registers for both numbers.
        let [batch, head] = self.head(line);
        let out = self.out;
        let (total, log_sum_exp) = softmax.finish();
        tma_store_wait_read(0);
        let column = total.expand_dims(1).convert_layout_trivial(sums.layout());
        let factor = match of_values {
            Some(of_values) => of_values / column,
            None => 1.0 / column,
        };
        let results = (sums * factor).cast::<O>();
        let [columns, at_once] = [results.shape()[1], place.shape()[1]].map(|n| n as usize);
        for column in (0..columns).step_by(at_once) {
            if column > 0 {
                tma_store_wait_read(0);
            }
            place.store(results.slice(1, column..column + at_once));
            let at = (batch, head, first, column as i32);
            out.store(at, place.reshape(out.block()));
        }
        let to = self
            .lse
            .at(line * self.tokens + row)
            .mask(row < self.tokens);
        to.store(log_sum_exp);
    }
}
