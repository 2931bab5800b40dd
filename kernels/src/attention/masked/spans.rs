//! Heads whose rows each see a span of keys: causal masks, windows, chunks and sequences of any lengths are spans.

use std::marker::PhantomData;

use tilekit::prelude::*;

use super::lengths::{Lengths, from_column};
use crate::attention::dropout::{Corner, Drops};
use crate::attention::mainloop::problem::{
    Blocks, Edges, Loads, Problem, ROWS, load, load_numbered,
};
use crate::attention::mainloop::softmax::{LEAST, Softmax};
use crate::attention::mainloop::tiles::{Tiles, divide};
use crate::attention::modifier::{Modifier, Place};

/// The keys that a query sees: `position - left` to `position + right`, within its chunk of `chunk` keys. The last query has the last
/// key's position.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Window {
    pub(in crate::attention) left: Scalar<i32>,
    pub(in crate::attention) right: Scalar<i32>,
    pub(in crate::attention) chunk: Scalar<i32>,
}

/// What is stored beside the output, and the sinks that both have.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Results {
    /// LSE of the queries of each head.
    pub(in crate::attention) lse: Ptr<f32>,
    /// LSE of a head: one for each token of the output.
    pub(in crate::attention) lse_stride: Scalar<i32>,
    /// The attention sinks: a logit for each head.
    pub(in crate::attention) sinks: Ptr<f32>,
    pub(in crate::attention) has_sinks: Scalar<bool>,
}

/// Q and the output are `[batch, heads, tokens, PACK, depth]`: a tile packs `pack` query heads that share K and V, and the head varies
/// fastest. K is `[batch, heads, tokens, depth]`, and V has a dimension in front, for [sequences](Lengths::origin).
#[derive(Clone, Copy)]
pub(in crate::attention) struct Spans<T, M> {
    pub(in crate::attention) maps: [TensorMap<T>; 4],
    pub(in crate::attention) lengths: Lengths,
    pub(in crate::attention) window: Window,
    pub(in crate::attention) results: Results,
    pub(in crate::attention) tiles: Tiles,
    /// Packs of a batch, and packs of a head of K and V.
    pub(in crate::attention) heads: Scalar<i32>,
    pub(in crate::attention) query_heads: Scalar<i32>,
    pub(in crate::attention) log2_scale: Scalar<f32>,
    pub(in crate::attention) score_scale: Scalar<f32>,
    pub(in crate::attention) data: Ptr<f32>,
    pub(in crate::attention) pack: usize,
    /// Whether every block is masked: where products take long, masks cost less than the registers of an unmasked loop.
    pub(in crate::attention) masks_all: bool,
    /// Rows of a tile, and keys of a block.
    pub(in crate::attention) tile: [usize; 2],
    pub(in crate::attention) drops: Drops,
    pub(in crate::attention) modifier: PhantomData<fn() -> M>,
}

/// A tile: its head, its first row, and where its sequence begins.
#[derive(Clone, Copy)]
pub(in crate::attention) struct SpanTile {
    pub(in crate::attention) sequence: Scalar<i32>,
    batch: Scalar<i32>,
    pub(in crate::attention) head: Scalar<i32>,
    kv_head: Scalar<i32>,
    pub(in crate::attention) row: Scalar<i32>,
    starts: [Scalar<i32>; 2],
    lengths: [Scalar<i32>; 2],
}

/// The rows of a warpgroup, and the keys `low..high` that they see.
#[derive(Clone, Copy)]
pub(in crate::attention) struct SpanRows {
    tile: SpanTile,
    first: Scalar<i32>,
    low: Tensor<i32>,
    high: Tensor<i32>,
    output: Output,
}

/// The destination of a warpgroup's rows: the only values of a tile that live across its blocks.
#[derive(Clone, Copy)]
struct Output {
    /// The head, counted over all batches.
    line: Scalar<i32>,
    /// The token of the first row, counted over all sequences.
    token: Scalar<i32>,
    /// Rows from here to the end of the sequence.
    rows: Scalar<i32>,
}

impl SpanRows {
    /// The row indices, rematerialized where they are used: carrying them through the loop would take registers.
    #[device]
    fn numbers(self) -> Tensor<i32> {
        self.first + arange(0..ROWS, self.low.layout())
    }

    /// The rows, which see all of `keys` where `sees_all`.
    #[device]
    pub(in crate::attention) fn with_all(
        self,
        keys: Scalar<i32>,
        sees_all: Scalar<bool>,
    ) -> SpanRows {
        SpanRows {
            low: select(sees_all, 0, self.low),
            high: select(sees_all, keys, self.high),
            ..self
        }
    }
}

/// A scalar, or a tensor.
macro_rules! span {
    ($self:ident, $tile:ident, $token:expr) => {{
        let place = $token + ($tile.lengths[1] - $tile.lengths[0]);
        let chunk = $self.window.chunk;
        let number = maximum(place, 0).cast::<u32>() / chunk.cast::<u32>();
        let first = number.cast::<i32>() * chunk;
        let low = maximum(maximum(place - $self.window.left, first), 0);
        let end = minimum(place + $self.window.right + 1, first + chunk);
        [low, maximum(minimum(end, $tile.lengths[1]), 0)]
    }};
}

impl<T: Element, M: Modifier> Spans<T, M> {
    /// The keys `low..high` of one token.
    #[device]
    fn span(self, tile: SpanTile, token: Scalar<i32>) -> [Scalar<i32>; 2] {
        span!(self, tile, token)
    }

    /// The keys `low..high` of each token.
    #[device]
    fn spans(self, tile: SpanTile, token: Tensor<i32>) -> [Tensor<i32>; 2] {
        span!(self, tile, token)
    }

    /// The token of a row, at most the last one.
    #[device]
    fn last_token(self, tile: SpanTile, row: Scalar<i32>) -> Scalar<i32> {
        minimum(row / self.pack, tile.lengths[0] - 1)
    }

    /// Whether keys are between the limits of rows.
    #[device]
    pub(in crate::attention) fn is_between(self, rows: SpanRows, key: Tensor<i32>) -> Tensor<bool> {
        (key >= rows.low.expand_dims(1)) & (key < rows.high.expand_dims(1))
    }

    #[device]
    pub(in crate::attention) fn place(self, rows: SpanRows, key: Tensor<i32>) -> Place {
        let SpanTile { head, lengths, .. } = rows.tile;
        let row = rows.numbers();
        let token = row / self.pack;
        Place {
            head: (head * self.pack + row % self.pack).expand_dims(1),
            query: (token + (lengths[1] - lengths[0])).expand_dims(1),
            key,
            scale: self.score_scale,
            data: self.data,
        }
    }
}

impl<T: Element, M: Modifier> Problem<T> for Spans<T, M> {
    type Tile = SpanTile;
    type Rows = SpanRows;
    type Output = T;
    type Loaded = T;

    fn count(self) -> Scalar<i32> {
        self.tiles.count()
    }

    #[device]
    fn tile(self, number: Scalar<i32>) -> SpanTile {
        let [block, head] = self.tiles.place(number);
        let [batch, head] = divide(head, self.heads);
        let [kv_head, _] = divide(head, self.query_heads);
        let [starts, lengths] = self.lengths.of(batch);
        SpanTile {
            sequence: batch,
            batch: select(self.lengths.is_ragged, 0, batch),
            head,
            kv_head,
            row: block * self.tile[0],
            starts,
            lengths,
        }
    }

    #[device]
    fn blocks(self, tile: SpanTile) -> Blocks {
        let [rows, keys] = self.tile;
        let [low, _] = self.span(tile, tile.row / self.pack);
        let [_, high] = self.span(tile, self.last_token(tile, tile.row + rows - 1));
        let bottom = low / keys;
        // Rows that see no key have one block as well, all of which is masked.
        let top = maximum(cdiv(high, keys), bottom + 1);
        Blocks {
            top,
            count: top - bottom,
        }
    }

    #[device]
    fn has_rows(self, tile: SpanTile) -> Option<Scalar<bool>> {
        Some(tile.row < tile.lengths[0] * self.pack)
    }

    #[device]
    fn rows(self, tile: SpanTile, group: usize, layout: Slice) -> SpanRows {
        let first = tile.row + group * ROWS;
        let row = first + arange(0..ROWS, layout);
        let [low, high] = self.spans(tile, row / self.pack);
        SpanRows {
            tile,
            first,
            low,
            high,
            output: Output {
                line: tile.batch * self.heads + tile.head,
                token: tile.starts[0] + first / self.pack,
                rows: tile.lengths[0] * self.pack - first,
            },
        }
    }

    #[device]
    fn sees(self, rows: SpanRows, key: Tensor<i32>) -> Tensor<bool> {
        let seen = self.is_between(rows, key);
        if M::MASKS {
            seen & M::sees(self.place(rows, key))
        } else {
            seen
        }
    }

    #[device]
    fn scores(self, rows: SpanRows, key: Tensor<i32>, scores: Tensor<f32>) -> Tensor<f32> {
        M::scores(scores, self.place(rows, key))
    }

    #[device]
    fn kept(self, rows: SpanRows, first: Scalar<i32>, weights: Tensor<f32>) -> Tensor<f32> {
        if !M::DROPS {
            return weights;
        }
        static_assert!(self.pack == 1, "rows of packed heads are no queries");
        let at = Corner {
            sequence: rows.tile.sequence,
            head: rows.tile.head,
            query: rows.first,
            key: first,
            rows_are_keys: false,
        };
        let kept = self.drops.kept(weights, [ROWS, self.tile[1]], at);
        select(kept, weights, 0.0)
    }

    #[device]
    fn edges(self, rows: SpanRows, blocks: Blocks) -> Edges {
        if M::MASKS || self.masks_all {
            return Edges::every();
        }
        let SpanRows { tile, first, .. } = rows;
        let [_, high] = self.span(tile, first / self.pack);
        let [low, _] = self.span(tile, self.last_token(tile, first + ROWS - 1));
        Edges::of(blocks, [low, high], self.tile[1])
    }

    fn log2_scale(self, _: SpanRows) -> Scalar<f32> {
        self.log2_scale
    }

    /// Finite, and still so when multiplied by any scale of scores.
    fn least(self) -> f32 {
        LEAST
    }

    #[device]
    fn load_queries(self, tile: SpanTile, group: usize, to: Loads<T>, count: Scalar<i32>) {
        let row = tile.row + group * ROWS;
        let token = tile.starts[0] + row / self.pack;
        let zero = scalar(0);
        // Of rows behind the end of their sequence nothing is stored, whatever they hold.
        let at = [tile.batch, tile.head, token, zero, zero];
        load(to, count, self.maps[0], at);
    }

    #[device]
    fn load_blocks(
        self,
        tile: SpanTile,
        blocks: Blocks,
        [keys, values]: [Loads<T>; 2],
        base: Scalar<i32>,
        load_queries: impl FnOnce(),
    ) {
        load_numbered(
            blocks,
            base,
            load_queries,
            |count, number| load(keys, count, self.maps[1], self.keys_at(tile, number)),
            |count, number| load(values, count, self.maps[2], self.values_at(tile, number)),
        );
    }

    #[device]
    fn store(self, rows: SpanRows, sums: Tensor<f32>, softmax: Softmax, place: Smem<T>) {
        let SpanRows { output, low, .. } = rows;
        let row = arange(0..ROWS, low.layout());
        let Results {
            lse,
            lse_stride,
            sinks,
            has_sinks,
        } = self.results;
        let [batch, of_batch] = divide(output.line, self.heads);
        let head = of_batch * self.pack + row % self.pack;
        let all_heads = output.line * self.pack + row % self.pack;
        let sink = sinks
            .at(head)
            .mask(has_sinks)
            .other(f32::NEG_INFINITY)
            .load();
        let (factor, log_sum_exp) = softmax.finish_with_sink(sink);
        let factor = if M::DROPS {
            factor * self.drops.factor()
        } else {
            factor
        };
        tma_store_wait_read(0);
        let factor = factor.expand_dims(1).convert_layout_trivial(sums.layout());
        place.store((sums * factor).cast::<T>());
        let rows = [output.token, output.rows / self.pack];
        let [batch, token] = self.lengths.stored_at(batch, rows, lse_stride);
        let at = [batch, of_batch, token, scalar(0), scalar(0)];
        let out = self.maps[3];
        out.store(at, place.reshape(out.block()));
        let to = lse.at(all_heads * lse_stride + output.token + row / self.pack);
        to.mask(row < output.rows).store(log_sum_exp);
    }
}

impl<T: Element, M: Modifier> Spans<T, M> {
    /// The coordinates of a block of keys in the map of K. Scores of rows behind the end of a sequence are masked, whatever they are.
    #[device]
    pub(in crate::attention) fn keys_at(
        self,
        tile: SpanTile,
        number: Scalar<i32>,
    ) -> [Scalar<i32>; 4] {
        let first = tile.starts[1] + number * self.tile[1];
        [tile.batch, tile.kv_head, first, scalar(0)]
    }

    /// Those in the map of V, whose rows behind the end of a sequence are zeros: a weight of 0 does not mask NaN.
    #[device]
    pub(in crate::attention) fn values_at(
        self,
        tile: SpanTile,
        number: Scalar<i32>,
    ) -> [Scalar<i32>; 5] {
        let rows = [tile.starts[1], tile.lengths[1]];
        let origin = self.lengths.origin(tile.batch, rows);
        from_column(origin.at(tile.kv_head, number * self.tile[1]), scalar(0))
    }
}
