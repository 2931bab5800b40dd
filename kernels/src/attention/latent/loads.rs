//! The buffers of a CTA of `decode_latent`, and what its producer loads into them.

use tilekit::prelude::*;

use super::plan::Plan;
use super::shape::{HALF, PAGE, ROPE};
use crate::attention::mainloop::problem::{Loads, ROWS};
use crate::attention::mainloop::shape::swizzle;

/// Q of a tile: both halves, and the columns behind them.
pub(super) type LatentQueries<T> = Pipeline<(Smem<T>, Smem<T>, Smem<T>)>;

/// A block of the cache, which is freed half by half. The warpgroup of the block reads all of it, and the other one the half whose columns it
/// multiplies by P.
#[derive(Clone, Copy)]
pub(super) struct LatentBlock<T> {
    pub(super) halves: [Loads<T>; 2],
    pub(super) rope: Loads<T>,
}

/// The buffers of a CTA.
#[derive(Clone, Copy)]
pub(super) struct LatentTiles<T> {
    pub(super) queries: LatentQueries<T>,
    /// The block of each warpgroup.
    pub(super) blocks: [LatentBlock<T>; 2],
    /// P of one block. The warpgroup that reads it is the next one that writes it.
    pub(super) powers: Smem<T>,
    /// The maxima of rows after that block.
    pub(super) maxima: Smem<f32>,
    /// The sums of each warpgroup's P.
    pub(super) totals: [Smem<f32>; 2],
    /// P and the maxima of a warpgroup's block are there.
    pub(super) ready: [NamedBarrier; 2],
    pub(super) both: NamedBarrier,
}

impl<T: Element> LatentTiles<T> {
    #[device]
    pub(super) fn alloc() -> Self {
        let tile = |rows: usize, columns: usize| {
            Smem::<T>::alloc([1, rows, columns], swizzle::<T>(columns, 2))
        };
        let of_queries = (tile(ROWS, HALF), tile(ROWS, HALF), tile(ROWS, ROPE));
        let line = || Smem::<f32>::alloc([ROWS], Swizzled::plain([0]));
        let block = |group: usize| {
            let half = |half: usize| {
                let readers = if half == group { 1 } else { 2 };
                Pipeline::new(
                    tile(PAGE, HALF),
                    Producers::Tma,
                    Consumers::warpgroups(readers),
                )
            };
            LatentBlock {
                halves: [half(0), half(1)],
                rope: Pipeline::new(tile(PAGE, ROPE), Producers::Tma, Consumers::warpgroups(1)),
            }
        };
        LatentTiles {
            queries: Pipeline::new(of_queries, Producers::Tma, Consumers::warpgroups(2)),
            blocks: [block(0), block(1)],
            powers: Smem::alloc([ROWS, PAGE], swizzle::<T>(PAGE, 2)),
            maxima: line(),
            totals: [line(), line()],
            ready: [NamedBarrier::new(256), NamedBarrier::new(256)],
            both: NamedBarrier::new(256),
        }
    }
}

/// Q and the cache in global memory, each by the halves of a value and by the columns behind them.
#[derive(Clone, Copy)]
pub(super) struct LatentMaps<T> {
    pub(super) q: [TensorMap<T>; 2],
    pub(super) cache: [TensorMap<T>; 2],
    pub(super) table: Ptr<i32>,
    pub(super) table_row: Scalar<i32>,
    /// The cache, of which pages are so many elements apart.
    pub(super) rows: Ptr<T>,
    pub(super) page_stride: Scalar<i64>,
    pub(super) row_tiles: Scalar<i32>,
    /// Whether pages are brought into L2 ahead of their loads.
    pub(super) is_ahead: bool,
}

impl<T: Element> LatentMaps<T> {
    /// Issues the TMA loads of a part's pieces.
    #[device]
    pub(super) fn load(
        self,
        plan: Plan,
        part: Scalar<i32>,
        tile: Scalar<i32>,
        tiles: LatentTiles<T>,
    ) {
        plan.each_piece(plan.span(part), |piece| {
            let blocks = minimum(piece.to * 2, cdiv(piece.keys, PAGE));
            // The table is read a step ahead: its latency is not on the way of a load.
            let page_of = |number: Scalar<i32>, group: usize| {
                let block = number * 2 + group;
                let entry = self.table.at(piece.sequence * self.table_row + block);
                entry.mask(block < blocks).other(-1).load()
            };
            let mut pages = [page_of(piece.from, 0), page_of(piece.from, 1)];
            // The first Q is on its way while the table is read. Later ones wait for the end of the piece before, which blocks of the cache need not.
            if piece.round == 0 {
                self.load_queries(tiles, piece.round, piece.sequence, tile);
            }
            self.load_step(tiles, piece.fill, pages);
            if piece.round > 0 {
                self.load_queries(tiles, piece.round, piece.sequence, tile);
            }
            pages = [page_of(piece.from + 1, 0), page_of(piece.from + 1, 1)];
            if self.is_ahead {
                self.prefetch(pages, tile);
            }
            for number in range(piece.from + 1, piece.to) {
                let next = [page_of(number + 1, 0), page_of(number + 1, 1)];
                self.load_step(tiles, piece.fill + number - piece.from, pages);
                if self.is_ahead {
                    self.prefetch(next, tile);
                }
                pages = next;
            }
        });
    }

    /// Brings pages into L2, behind the loads of the step before. The CTAs of several tiles of rows divide them.
    #[device]
    fn prefetch(self, pages: [Scalar<i32>; 2], tile: Scalar<i32>) {
        for (group, page) in pages.into_iter().enumerate() {
            let is_mine = (page >= 0) & (group as i32 % self.row_tiles == tile);
            let count = select(is_mine, (PAGE * (2 * HALF + ROPE)) as i32, 0);
            let first = maximum(page, 0).cast::<i64>() * self.page_stride;
            self.rows.bulk(first).count(count).prefetch();
        }
    }

    #[device]
    fn load_queries(
        self,
        tiles: LatentTiles<T>,
        round: Scalar<i32>,
        sequence: Scalar<i32>,
        tile: Scalar<i32>,
    ) {
        let queries = tiles.queries;
        let stage = queries.producer_acquire(queries.of_fill(round));
        let (left, right, rope) = stage.tiles;
        let [q, q_rope] = self.q;
        for (map, column, to) in [(q, 0, left), (q, HALF, right), (q_rope, 2 * HALF, rope)] {
            let at = [sequence, tile * ROWS, scalar(column as i32)];
            map.load(at, to.reshape(map.block()), stage.full);
        }
        queries.commit(stage);
    }

    /// Loads a block for each warpgroup. Where no key is there is no page: TMA fills the block with zeros.
    #[device]
    fn load_step(self, tiles: LatentTiles<T>, fill: Scalar<i32>, pages: [Scalar<i32>; 2]) {
        let [cache, cache_rope] = self.cache;
        let load = |map: TensorMap<T>, group: usize, column: usize, to: Loads<T>| {
            let stage = to.producer_acquire(to.of_fill(fill));
            let at = [pages[group], scalar(0), scalar(column as i32)];
            map.load(at, stage.tiles.reshape(map.block()), stage.full);
            to.commit(stage);
        };
        // In the order in which they are freed.
        for (group, block) in tiles.blocks.into_iter().enumerate() {
            load(cache_rope, group, 2 * HALF, block.rope);
        }
        for (group, block) in tiles.blocks.into_iter().enumerate() {
            for half in [1, 0] {
                load(cache, group, half * HALF, block.halves[half]);
            }
        }
    }
}
