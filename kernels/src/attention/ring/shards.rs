//! Shards of a sequence as a problem of the main loop: which keys of which rank a tile of queries sees, and in which order.

use tilekit::prelude::*;

use super::send::{Sender, Sent};
use crate::attention::mainloop::problem::{Blocks, Edges, Loads, Problem, ROWS, load};
use crate::attention::mainloop::softmax::{LEAST, Softmax};
use crate::attention::mainloop::tiles::Tiles;
use crate::attention::plan::FAR;
use crate::parallel::mail::Mail;

/// The queries of this rank, and the keys of all.
#[derive(Clone, Copy)]
pub(super) struct Shards<T> {
    /// Q, K and V of this rank, K and V of the others.
    pub(super) maps: [TensorMap<T>; 5],
    pub(super) out: TensorMap<T>,
    pub(super) lse: Ptr<f32>,
    pub(super) tiles: Tiles,
    /// Tiles of a chunk of queries, and of all heads: from the host, as [`Seen`].
    pub(super) of_tiles: [Scalar<i32>; 2],
    pub(super) heads: Scalar<i32>,
    pub(super) kv_heads: Scalar<i32>,
    pub(super) log2_scale: Scalar<f32>,
    pub(super) is_causal: bool,
    /// Rows of a tile, and keys of a block.
    pub(super) tile: [usize; 2],
    pub(super) seen: Seen,
    pub(super) sent: Sent,
    pub(super) mail: Mail,
    pub(super) sender: Sender<T>,
}

/// Whole blocks of keys, and the keys behind them.
pub(super) type Keys = [Scalar<i32>; 2];

/// The keys that tiles see, as the host counts them: what all partitions computed alike would be computed ahead of them and kept in local memory, and a loop to such an end has no uniform
/// registers.
#[derive(Clone, Copy, Aggregate, KernelParam)]
pub struct Seen {
    /// Blocks of a chunk, begun ones too.
    pub(super) of_chunk: Scalar<i32>,
    /// A chunk.
    pub(super) own: Keys,
    /// Chunks of one kind of all other ranks, of those that first chunks see, and of those that second chunks see of second ones.
    pub(super) all: Keys,
    pub(super) before: Keys,
    pub(super) behind: Keys,
}

/// Queries of a chunk of a head.
#[derive(Clone, Copy)]
pub(super) struct ShardTile {
    /// The head, counted over all batches.
    line: Scalar<i32>,
    chunk: Scalar<i32>,
    /// The first query in the chunk.
    first: Scalar<i32>,
}

/// The rows of a warpgroup.
#[derive(Clone, Copy)]
pub(super) struct ShardRows {
    tile: ShardTile,
    first: Scalar<i32>,
    row: Tensor<i32>,
    /// One past the last key that each row sees in a step. A mask of two comparisons for each element took registers that were spilled.
    end: Tensor<i32>,
}

/// Whole blocks of keys, all of which a tile sees, and `rest` keys behind them.
#[derive(Clone, Copy)]
struct Span {
    is_own: bool,
    chunk: Scalar<i32>,
    blocks: Scalar<i32>,
    rest: Scalar<i32>,
}

/// The keys of a step: a block of one's own, or of what other ranks have sent.
#[derive(Clone, Copy, Aggregate)]
struct Source {
    is_own: Scalar<bool>,
    chunk: Scalar<i32>,
    token: Scalar<i32>,
}

impl<T: Element> Shards<T> {
    /// Tokens of the chunks of one kind that other ranks send.
    #[device]
    fn end(self) -> Scalar<i32> {
        (self.mail.ranks - 1) * self.sent.tokens
    }

    /// The keys that a tile sees besides those of its own chunk: the first chunk of its rank, first chunks of others and second ones. Those of other ranks are the last ones, up to the end: first chunks
    /// of ranks before this one come last, and second chunks are in reverse.
    #[device]
    fn spans(self, tile: ShardTile) -> Vec<Span> {
        let Seen {
            own,
            all,
            before,
            behind,
            ..
        } = self.seen;
        let is_second = tile.chunk > 0;
        let of = |is_own: bool, chunk: i32, second: Keys, first: Keys| Span {
            is_own,
            chunk: scalar(chunk),
            blocks: select(is_second, second[0], first[0]),
            rest: select(is_second, second[1], first[1]),
        };
        let others = of(false, 0, all, before);
        if !self.is_causal {
            return vec![others];
        }
        let none = [scalar(0); 2];
        vec![of(true, 0, own, none), others, of(false, 1, behind, none)]
    }

    /// Blocks of keys of the tile's own chunk.
    #[device]
    fn diagonal(self, tile: ShardTile) -> Scalar<i32> {
        let [queries, keys] = self.tile;
        let all = self.seen.of_chunk;
        if self.is_causal {
            minimum(cdiv(tile.first + queries, keys), all)
        } else {
            all
        }
    }

    /// The keys of a step: those of the own chunk from the last block to the first, whole blocks of each span, and what is left of them.
    #[device]
    fn source(self, tile: ShardTile, number: Scalar<i32>) -> Source {
        let keys = self.tile[1];
        let mut before = self.diagonal(tile);
        let mut source = Source {
            is_own: scalar(true),
            chunk: tile.chunk,
            token: (before - 1 - number) * keys,
        };
        let spans = self.spans(tile);
        let mut of = |span: &Span, token: Scalar<i32>, blocks: Scalar<i32>| {
            let is_behind = number >= before;
            source = Source {
                is_own: select(is_behind, scalar(span.is_own), source.is_own),
                chunk: select(is_behind, span.chunk, source.chunk),
                token: select(is_behind, token + (number - before) * keys, source.token),
            };
            before += blocks;
        };
        for span in &spans {
            of(span, self.first(span), span.blocks);
        }
        for span in &spans {
            let token = self.first(span) + span.blocks * keys;
            of(span, token, minimum(span.rest, 1));
        }
        source
    }

    /// One past the last key of the own chunk that each row sees.
    #[device]
    fn end_of_own(self, row: Tensor<i32>) -> Tensor<i32> {
        let tokens = self.sent.tokens;
        if self.is_causal {
            minimum(row + 1, tokens)
        } else {
            zeros_like(row) + tokens
        }
    }

    /// Where the keys of a span begin.
    #[device]
    fn first(self, span: &Span) -> Scalar<i32> {
        if span.is_own {
            scalar(0)
        } else {
            self.end() - (span.blocks * self.tile[1] + span.rest)
        }
    }

    /// Waits for what other ranks send up to the end of a block. `ready` is what has been waited for, in tokens of first chunks and behind them of second ones.
    #[device]
    fn wait(self, tile: ShardTile, source: Source, mut ready: Scalar<i32>) -> Scalar<i32> {
        let (end, others) = (self.end(), self.mail.ranks - 1);
        let last = source.chunk * end + minimum(source.token + self.tile[1], end);
        let needed = select(source.is_own, 0, last);
        let (line, segments) = (self.kv_line(tile), self.sent.segments());
        while ready < needed {
            let chunk = (ready >= end).cast::<i32>();
            let index = (ready - chunk * end) / self.sent.tokens;
            let number = self.sent.number([line, chunk, index], others);
            self.mail.wait_all(number * segments, segments);
            ready = self.next(tile, ready + self.sent.tokens);
        }
        ready
    }

    /// Behind the first chunks come those second chunks that a tile sees.
    #[device]
    fn next(self, tile: ShardTile, ready: Scalar<i32>) -> Scalar<i32> {
        if self.is_causal {
            let (end, spans) = (self.end(), self.spans(tile));
            select(ready == end, end + self.first(&spans[2]), ready)
        } else {
            ready
        }
    }

    /// The head of K and V, counted over all batches.
    #[device]
    fn kv_line(self, tile: ShardTile) -> Scalar<i32> {
        tile.line / (self.heads / self.kv_heads)
    }

    /// Issues the TMA load of the keys (side 0) or values (side 1) of a step, as fill `count`.
    #[device]
    fn load_block(
        self,
        tile: ShardTile,
        (to, count): (Loads<T>, Scalar<i32>),
        side: usize,
        source: Source,
    ) {
        let (own, others) = (self.maps[1 + side], self.maps[3 + side]);
        let line = self.kv_line(tile);
        let Source {
            is_own,
            chunk,
            token,
        } = source;
        let stage = to.producer_acquire(to.of_fill(count));
        let zero = scalar(0);
        if is_own {
            let (batch, head) = (line / self.kv_heads, line % self.kv_heads);
            let at = [batch, head, chunk, token, zero];
            own.load(at, stage.tiles.reshape(own.block()), stage.full);
        } else {
            let at = [line, chunk, token, zero];
            others.load(at, stage.tiles.reshape(others.block()), stage.full);
        }
        to.commit(stage);
    }
}

impl<T: Element> Problem<T> for Shards<T> {
    type Tile = ShardTile;
    type Rows = ShardRows;
    type Output = T;
    type Loaded = T;

    const SENDS: bool = true;

    fn bytes_beside(columns: [usize; 2]) -> usize {
        Sender::<T>::bytes(columns)
    }

    fn count(self) -> Scalar<i32> {
        self.of_tiles[1]
    }

    #[device]
    fn tile(self, number: Scalar<i32>) -> ShardTile {
        let [block, line] = self.tiles.place(number);
        let of_chunk = self.of_tiles[0];
        ShardTile {
            line,
            chunk: block / of_chunk,
            first: block % of_chunk * self.tile[0],
        }
    }

    #[device]
    fn blocks(self, tile: ShardTile) -> Blocks {
        let mut count = self.diagonal(tile);
        for span in self.spans(tile) {
            count += span.blocks + minimum(span.rest, 1);
        }
        Blocks { top: count, count }
    }

    fn has_rows(self, _: ShardTile) -> Option<Scalar<bool>> {
        None
    }

    #[device]
    fn rows(self, tile: ShardTile, group: usize, layout: Slice) -> ShardRows {
        let first = tile.first + group * ROWS;
        let row = first + arange(0..ROWS, layout);
        ShardRows {
            tile,
            first,
            row,
            end: self.end_of_own(row),
        }
    }

    #[device]
    fn at(self, rows: ShardRows, number: Scalar<i32>) -> ShardRows {
        let is_own = number < self.diagonal(rows.tile);
        let end = select(is_own, self.end_of_own(rows.row), FAR);
        ShardRows { end, ..rows }
    }

    /// Positions in the own chunk; of what is left of a span, such that those that are no keys any more are [`FAR`] and beyond.
    #[device]
    fn first_key(
        self,
        tile: ShardTile,
        _: Blocks,
        number: Scalar<i32>,
        keys: usize,
    ) -> Scalar<i32> {
        let mut before = self.diagonal(tile);
        let mut first = (before - 1 - number) * keys;
        let spans = self.spans(tile);
        for span in &spans {
            before += span.blocks;
        }
        for span in &spans {
            first = select(number >= before, FAR - span.rest, first);
            before += minimum(span.rest, 1);
        }
        first
    }

    #[device]
    fn sees(self, rows: ShardRows, key: Tensor<i32>) -> Tensor<bool> {
        key < rows.end.expand_dims(1)
    }

    fn scores(self, _: ShardRows, _: Tensor<i32>, scores: Tensor<f32>) -> Tensor<f32> {
        scores
    }

    #[device]
    fn edges(self, rows: ShardRows, blocks: Blocks) -> Edges {
        let [queries, keys] = self.tile;
        let high = (self.is_causal && keys < queries).then(|| {
            let own = self.diagonal(rows.tile);
            minimum(maximum(own - (rows.first + 1) / keys, 1), own)
        });
        let mut low = blocks.count;
        for span in self.spans(rows.tile) {
            low -= minimum(span.rest, 1);
        }
        Edges {
            high,
            low: Some(low),
            all: false,
        }
    }

    fn log2_scale(self, _: ShardRows) -> Scalar<f32> {
        self.log2_scale
    }

    fn least(self) -> f32 {
        LEAST
    }

    #[device]
    fn load_queries(self, tile: ShardTile, group: usize, to: Loads<T>, count: Scalar<i32>) {
        let (batch, head) = (tile.line / self.heads, tile.line % self.heads);
        let row = tile.first + group * ROWS;
        let at = [batch, head, tile.chunk, row, scalar(0)];
        load(to, count, self.maps[0], at);
    }

    #[device]
    fn load_blocks(
        self,
        tile: ShardTile,
        blocks: Blocks,
        [keys, values]: [Loads<T>; 2],
        base: Scalar<i32>,
        load_queries: impl FnOnce(),
    ) {
        let mut ready = if self.is_causal {
            let spans = self.spans(tile);
            self.next(tile, self.first(&spans[1]))
        } else {
            scalar(0)
        };
        let end = base + blocks.count;
        let mut last = self.source(tile, scalar(0));
        self.load_block(tile, (keys, base), 0, last);
        load_queries();
        for fill in range(base + 1, end) {
            let source = self.source(tile, fill - base);
            ready = self.wait(tile, source, ready);
            self.load_block(tile, (keys, fill), 0, source);
            self.load_block(tile, (values, fill - 1), 1, last);
            last = source;
        }
        self.load_block(tile, (values, end - 1), 1, last);
    }

    #[device]
    fn send(self) {
        self.sender
            .send(self.mail, self.sent, self.kv_heads, self.is_causal);
    }

    #[device]
    fn store(self, rows: ShardRows, sums: Tensor<f32>, softmax: Softmax, place: Smem<T>) {
        let ShardRows {
            tile, first, row, ..
        } = rows;
        let ShardTile { line, chunk, .. } = tile;
        let (out, tokens) = (self.out, self.sent.tokens);
        let (total, log_sum_exp) = softmax.finish();
        tma_store_wait_read(0);
        let column = total.expand_dims(1).convert_layout_trivial(sums.layout());
        place.store((sums * (1.0 / column)).cast::<T>());
        let at = [
            line / self.heads,
            line % self.heads,
            chunk,
            first,
            scalar(0),
        ];
        out.store(at, place.reshape(out.block()));
        let of_chunk = (line * self.sent.chunks + chunk) * tokens;
        let to = self.lse.at(of_chunk + row).mask(row < tokens);
        to.store(log_sum_exp);
    }
}
