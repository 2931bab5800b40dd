//! Queries that attend to the keys of a cache, which is split among CTAs.

use std::marker::PhantomData;

use tilekit::prelude::*;

use super::clear::clear_from;
use super::page_scales::{self, PageScales};
use super::pages::Pages;
use super::partial::Partial;
use super::splits::Splits;
use crate::attention::mainloop::problem::{Blocks, Edges, Loads, Problem, ROWS};
use crate::attention::mainloop::shape::swizzle;
use crate::attention::mainloop::softmax::{LEAST, Softmax};
use crate::attention::modifier::{Modifier, Place};

/// The range of the scale of scores that has the factor of a head in it. Scores are below 2^41 there, so that those times the least one are nothing.
const LEAST_SCALE: f32 = 1e-30;
const MOST_SCALE: f32 = 1e20;

/// The maximum of a row that has seen no key yet where the scale of scores has the factor of a head: below all scores of f16 and 8-bit floats, and finite when multiplied by [`MOST_SCALE`].
const LEAST_BY_HEAD: f32 = -1e18;

/// Q is `[batch, kv_heads, tokens, query_heads, depth]`. A tile has `pack` rows for each token, and the first `query_heads` of them are used:
/// the heads of a group, which read the same keys.
#[derive(Clone, Copy)]
pub(super) struct Cached<T, C, M> {
    pub(super) q: TensorMap<T>,
    pub(super) pages: Pages<C>,
    /// The factors of K and V, where the cache has other elements than Q.
    pub(super) scales: Option<[PageScales; 2]>,
    /// Whether all tokens of a sequence have the factors of their head: then scores and results are multiplied by them, and elements are converted as they are.
    pub(super) is_by_head: bool,
    pub(super) splits: Splits,
    pub(super) results: Partial<T>,
    pub(super) batch: Scalar<i32>,
    pub(super) kv_heads: Scalar<i32>,
    pub(super) query_heads: Scalar<i32>,
    pub(super) right: Scalar<i32>,
    pub(super) log2_scale: Scalar<f32>,
    pub(super) score_scale: Scalar<f32>,
    pub(super) data: Ptr<f32>,
    pub(super) pack: usize,
    pub(super) modifier: PhantomData<fn() -> M>,
}

/// Some queries of a head, and a split of their keys.
#[derive(Clone, Copy)]
pub(super) struct CachedTile {
    batch: Scalar<i32>,
    kv_head: Scalar<i32>,
    split: Scalar<i32>,
    /// The first query.
    token: Scalar<i32>,
    /// Keys of the sequence.
    keys: Scalar<i32>,
    /// Blocks of keys.
    first: Scalar<i32>,
    end: Scalar<i32>,
}

/// The rows of a tile, and the keys `low..high` that they see.
#[derive(Clone, Copy)]
pub(super) struct CachedRows {
    tile: CachedTile,
    low: Tensor<i32>,
    high: Tensor<i32>,
    /// The factors of scores, and of results, where the head has them.
    factors: Option<[Scalar<f32>; 2]>,
}

impl<T: Float, C: Element, M: Modifier> Cached<T, C, M> {
    #[device]
    fn row_tiles(self) -> Scalar<i32> {
        cdiv(self.splits.queries, self.splits.tile[0])
    }

    /// The keys `low..high` of a token.
    #[device]
    fn span(self, tile: CachedTile, token: Scalar<i32>) -> [Scalar<i32>; 2] {
        let place = token + tile.keys - self.splits.queries;
        let low = maximum(place - self.splits.left, 0);
        [low, minimum(place + self.right + 1, tile.keys)]
    }

    /// The pages of the pieces of `block`.
    #[device]
    fn pages_of(self, tile: CachedTile, block: Scalar<i32>) -> Vec<Scalar<i32>> {
        self.pages
            .of_block(tile.batch, tile.keys, block, self.splits.tile[1])
    }

    /// Issues the TMA loads of `block` of K or V, whose pieces are in `pages`, as fill `count`.
    #[device]
    fn load(
        self,
        tile: CachedTile,
        map: TensorMap<C>,
        to: Loads<C>,
        count: Scalar<i32>,
        block: Scalar<i32>,
        pages: &[Scalar<i32>],
    ) {
        let piece = self.pages.piece;
        let keys = self.splits.tile[1];
        let stage = to.producer_acquire(to.of_fill(count));
        for (part, &page) in pages.iter().enumerate() {
            let token = block * keys + part * piece;
            let in_page = self.pages.in_page(token);
            let tile_of_part = stage.tiles.slice(0, part * piece..(part + 1) * piece);
            let at = [page, tile.kv_head, in_page, scalar(0)];
            map.load(at, tile_of_part.reshape(map.block()), stage.full);
        }
        to.commit(stage);
    }
}

impl<T: Float, U: Float, C: Element, M: Modifier> Problem<U> for Cached<T, C, M> {
    type Tile = CachedTile;
    type Rows = CachedRows;
    type Output = T;
    type Loaded = C;

    const OVERLAPS: bool = true;
    const CLEARS: bool = true;

    #[device]
    fn count(self) -> Scalar<i32> {
        self.batch * self.kv_heads * self.splits.parts * self.row_tiles()
    }

    #[device]
    fn tile(self, number: Scalar<i32>) -> CachedTile {
        let (rest, kv_head) = (number / self.kv_heads, number % self.kv_heads);
        let splits = self.splits.parts;
        let (rest, split) = (rest / splits, rest % splits);
        let row_tiles = self.row_tiles();
        let (batch, row_tile) = (rest / row_tiles, rest % row_tiles);
        let keys = self.splits.keys(batch);
        let [first, end] = self.splits.shares(keys, row_tile).of(split);
        CachedTile {
            batch,
            kv_head,
            split,
            token: row_tile * self.splits.tile[0],
            keys,
            first,
            end,
        }
    }

    #[device]
    fn blocks(self, tile: CachedTile) -> Blocks {
        Blocks {
            top: tile.end,
            count: tile.end - tile.first,
        }
    }

    #[device]
    fn has_rows(self, tile: CachedTile) -> Option<Scalar<bool>> {
        Some(tile.first < tile.end)
    }

    #[device]
    fn rows(self, tile: CachedTile, _: usize, layout: Slice) -> CachedRows {
        let token = tile.token + arange(0..ROWS, layout) / self.pack;
        let place = token + (tile.keys - self.splits.queries);
        let scales = self.scales.filter(|_| self.is_by_head);
        let page = select(self.pages.is_paged, 0, tile.batch);
        CachedRows {
            factors: scales.map(|scales| scales.map(|of| of.of_head(page, tile.kv_head))),
            tile,
            low: maximum(place - self.splits.left, 0),
            high: minimum(place + self.right + 1, tile.keys),
        }
    }

    #[device]
    fn sees(self, rows: CachedRows, key: Tensor<i32>) -> Tensor<bool> {
        let seen = (key >= rows.low.expand_dims(1)) & (key < rows.high.expand_dims(1));
        if M::MASKS {
            seen & M::sees(self.place(rows, key))
        } else {
            seen
        }
    }

    #[device]
    fn scores(self, rows: CachedRows, key: Tensor<i32>, scores: Tensor<f32>) -> Tensor<f32> {
        M::scores(scores, self.place(rows, key))
    }

    #[device]
    fn edges(self, rows: CachedRows, blocks: Blocks) -> Edges {
        if M::MASKS {
            return Edges::every();
        }
        let tile = rows.tile;
        let [tokens, keys] = self.splits.tile;
        let [_, high] = self.span(tile, tile.token);
        let last = minimum(tile.token + tokens, self.splits.queries) - 1;
        let [low, _] = self.span(tile, last);
        // Queries that see nothing end before the first key.
        Edges::of(blocks, [low, maximum(high, 0)], keys)
    }

    #[device]
    fn log2_scale(self, rows: CachedRows) -> Scalar<f32> {
        match rows.factors {
            // Masked scores of -inf times 0 would be NaN, and so would be the least maximum times what makes it infinite.
            Some([of_scores, _]) if M::SCALES_LATER => {
                let scale = self.log2_scale * of_scores;
                minimum(maximum(scale, LEAST_SCALE), MOST_SCALE)
            }
            _ => self.log2_scale,
        }
    }

    fn least(self) -> f32 {
        if self.is_by_head && M::SCALES_LATER {
            LEAST_BY_HEAD
        } else {
            LEAST
        }
    }

    /// Queries of another type than that of the products lie in the same bytes until [`ready`](Problem::ready) converts them.
    #[device]
    fn load_queries(self, tile: CachedTile, _: usize, to: Loads<U>, count: Scalar<i32>) {
        let zero = scalar(0);
        let at = [tile.batch, tile.kv_head, tile.token, zero, zero];
        let stage = to.producer_acquire(to.of_fill(count));
        let queries = bits::<U, T>(stage.tiles);
        self.q.load(at, queries.reshape(self.q.block()), stage.full);
        to.commit(stage);
    }

    #[device]
    fn ready(self, rows: CachedRows, queries: Smem<U>) -> CachedRows {
        if U::DTYPE == T::DTYPE {
            return rows;
        }
        let back = page_scales::narrow_range(bits::<U, T>(queries), queries);
        let factors = rows
            .factors
            .map(|[of_scores, of_results]| [of_scores * back, of_results]);
        CachedRows { factors, ..rows }
    }

    /// The table is read a block ahead, and once for K and V: its latency is not on the way of a load.
    #[device]
    fn load_blocks(
        self,
        tile: CachedTile,
        blocks: Blocks,
        [keys, values]: [Loads<C>; 2],
        base: Scalar<i32>,
        load_queries: impl FnOnce(),
    ) {
        let [k, v] = [self.pages.keys, self.pages.values];
        let end = base + blocks.count;
        let top = base + blocks.top - 1;
        let mut pages = self.pages_of(tile, blocks.top - 1);
        let mut next = self.pages_of(tile, blocks.top - 2);
        self.load(tile, k, keys, base, blocks.top - 1, &pages);
        load_queries();
        for fill in range(base + 1, end) {
            let after = self.pages_of(tile, top - fill - 1);
            self.load(tile, k, keys, fill, top - fill, &next);
            self.load(tile, v, values, fill - 1, top - fill + 1, &pages);
            pages = next;
            next = after;
        }
        self.load(tile, v, values, end - 1, top - end + 1, &pages);
    }

    #[device]
    fn factors(self, tile: CachedTile, side: usize, block: Scalar<i32>) -> Vec<Tensor<f32>> {
        let Some(scales) = self.scales.filter(|_| !self.is_by_head) else {
            return Vec::new();
        };
        let piece = self.pages.piece;
        let first = block * self.splits.tile[1];
        let mut factors = Vec::new();
        for (part, page) in self.pages_of(tile, block).into_iter().enumerate() {
            let token = first + part * piece;
            let in_page = self.pages.in_page(token);
            let of_page = [page, tile.kv_head, in_page];
            factors.extend(scales[side].of_piece(of_page, tile.keys - token, piece));
        }
        factors
    }

    #[device]
    fn convert(self, factors: &[Tensor<f32>], from: Smem<C>, to: Smem<U>) {
        if self.is_by_head {
            page_scales::widen(from, to);
        } else {
            page_scales::convert(factors, from, to);
        }
    }

    #[device]
    fn clear(self, rows: CachedRows, number: Scalar<i32>, values: Smem<U>) {
        let keys = self.splits.tile[1];
        clear_from(values, rows.tile.keys - number * keys);
    }

    #[device]
    fn store(self, rows: CachedRows, sums: Tensor<f32>, softmax: Softmax, _: Smem<T>) {
        let CachedRows {
            tile, low, factors, ..
        } = rows;
        let Partial {
            out,
            strides,
            lse,
            sums: parts,
            lse_of_splits,
            sinks,
            has_sinks,
        } = self.results;
        let row = arange(0..ROWS, low.layout());
        let (token, member) = (tile.token + row / self.pack, row % self.pack);
        let head = tile.kv_head * self.query_heads + member;
        let is_row = (token < self.splits.queries) & (member < self.query_heads);
        // The sink counts once: in one split.
        let has_sink = is_row & (has_sinks & (tile.split == 0));
        let sink = sinks
            .at(head)
            .mask(has_sink)
            .other(f32::NEG_INFINITY)
            .load();
        let (factor, log_sum_exp) = softmax.finish_with_sink(sink);
        let factor = match factors {
            Some([_, of_results]) => factor * of_results,
            None => factor,
        };
        let factor = factor.expand_dims(1).convert_layout_trivial(sums.layout());
        let sums = sums * factor;
        let heads = self.kv_heads * self.query_heads;
        let line = (tile.batch * heads + head) * self.splits.queries + token;
        let columns = sums.shape()[1] as usize;
        let of_rows = Slice::new(1, sums.layout());
        let spread = |x: Tensor<i32>| x.convert_layout_trivial(of_rows.clone());
        let is_row_of_sums =
            (spread(token) < self.splits.queries) & (spread(member) < self.query_heads);
        let mask = is_row_of_sums.expand_dims(1);
        let column = arange(0..columns, Slice::new(0, sums.layout())).expand_dims(0);
        if self.splits.parts == 1 {
            let [of_batch, of_head, of_token] = strides;
            let (head, token) = (spread(head).cast::<i64>(), spread(token).cast::<i64>());
            let first = tile.batch.cast::<i64>() * of_batch;
            let at = head * of_head + token * of_token + first;
            let to = out.at(at.expand_dims(1) + column.cast::<i64>());
            to.mask(mask).store(sums.cast::<T>());
            lse.at(line).mask(is_row).store(log_sum_exp);
        } else {
            let all = self.batch * heads * self.splits.queries;
            let first = (tile.split * all).cast::<i64>();
            let parts = parts + first * columns as i64;
            let at = (spread(line) * columns).expand_dims(1) + column;
            parts.at(at).mask(mask).store(sums);
            let lse = (lse_of_splits + first).at(line);
            lse.mask(is_row).store(log_sum_exp);
        }
    }
}

impl<T: Float, C: Element, M: Modifier> Cached<T, C, M> {
    #[device]
    fn place(self, rows: CachedRows, key: Tensor<i32>) -> Place {
        let tile = rows.tile;
        let row = arange(0..ROWS, rows.low.layout());
        let token = tile.token + row / self.pack;
        // Unused rows of the tile read what the last head reads.
        let member = minimum(row % self.pack, self.query_heads - 1);
        let head = tile.kv_head * self.query_heads + member;
        Place {
            head: head.expand_dims(1),
            query: (token + (tile.keys - self.splits.queries)).expand_dims(1),
            key,
            scale: match rows.factors {
                Some([of_scores, _]) => self.score_scale * of_scores,
                None => self.score_scale,
            },
            data: self.data,
        }
    }
}

/// The same bytes of queries as elements of another type of 16 bits, or the same.
#[device]
fn bits<U: Element, T: Element>(queries: Smem<U>) -> Smem<T> {
    let [rows, columns] = [0, 1].map(|dim| queries.shape()[dim] as usize);
    queries.reinterpret([rows, columns], swizzle::<T>(columns, 2))
}
