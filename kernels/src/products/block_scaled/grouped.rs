//! Products of groups of rows with a matrix of B each, with scales for blocks. The kernel finds the rows of each group in memory.

use std::fmt;

use tilekit::prelude::*;

use super::factors::{BlockScales, Factors};
use super::mainloop::Mainloop;
use super::tile::{BLOCK, ScaledTile};
use crate::products::dense::rows_of_group;
use crate::products::factor::{Operand, ResultOf, unit};
use crate::products::form::swizzle_of;
use crate::products::grouped::RowsOfGroup;

/// What [`block_scaled_grouped`] is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupedForm {
    /// Its tile.
    pub tile: ScaledTile,
    /// Groups have equal room, and counts say how many rows of it they use; otherwise offsets say where they begin and end.
    pub is_counted: bool,
}

impl fmt::Display for GroupedForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = if self.is_counted { "+counted" } else { "" };
        write!(f, "{}{counted}", self.tile)
    }
}

/// `C[r, :] = A[r, :] · B[g]ᵀ` for the rows `r` of each group `g`: from `rows[g]` to `rows[g + 1]`, or the first `rows[g]` of the `m / groups` that each has room
/// for. A is `[M, K]` with scales `[K / 128, M]`, B is `[groups, N, K]` with a scale for each block of 128 by 128, which lie as those of
/// [`block_scaled`](super::dense::block_scaled); those of a group begin `b_scales_of_group` numbers after those of the group before. Rows of C begin every `pitch` elements at `out`, which is `c`.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn block_scaled_grouped<T: Operand<Sum = f32>, O: ResultOf<T>>(
    #[fixed] form: GroupedForm,
    #[block([form.tile.shape()[0], BLOCK], Nvmma::B128)] a: TensorMap<T>,
    #[block([1, form.tile.columns, BLOCK], Nvmma::B128)] b: TensorMap<T>,
    #[block([1, form.tile.shape()[0]], Nvmma::PLAIN)] a_scales: TensorMap<f32>,
    #[block([form.tile.rows, form.tile.columns], swizzle_of::<O>(form.tile.columns))] c: TensorMap<
        O,
    >,
    out: Ptr<O>,
    #[multiple_of(unit::<O>())] pitch: i32,
    #[readonly]
    #[align(4)]
    rows: Ptr<i32>,
    groups: i32,
    #[readonly]
    #[align(4)]
    b_scales: Ptr<f32>,
    b_scales_of_group: i32,
    b_scales_of_columns: i32,
    b_scales_of_steps: i32,
    m: i32,
    n: i32,
    k: i32,
) {
    let tile = form.tile;
    let [rows_of_tile, columns] = tile.shape();
    let factors = Factors::alloc([a, b], a_scales, None, tile.stages);
    let mainloop = Mainloop::new(factors, steps_along(k, BLOCK), tile);
    let staging = Smem::<O>::alloc(c.block().with_inserted(0, tile.groups), c.layout());
    let tiles = if form.is_counted {
        RaggedTiles::of_counts(rows, [groups, m / groups], n, tile.shape())
    } else {
        RaggedTiles::new(rows, groups, n, tile.shape())
    };
    // TMA loads scales of rows.
    let tiles = tiles.aligned(unit::<f32>());
    // The first row and column of a tile.
    let place = |tile: RaggedTile| {
        let rows = tile.end_row() - tile.first_row();
        let block = [rows_of_tile, columns];
        let order = GroupedRows::new([rows, n], block, rows_of_group(block));
        let [row, column] = order.place(tile.number());
        [tile.first_row() + row * rows_of_tile, column * columns]
    };

    let multiply = |part: usize| {
        let staging = staging.index(part);
        let (mut at, mut now) = (mainloop.pipeline.start(), tiles.start());
        mainloop.begin(part);
        while now.group() < groups {
            let [row, column] = place(now);
            let blocks = BlockScales {
                at: b_scales + now.group() * b_scales_of_group,
                of_columns: b_scales_of_columns,
                of_steps: b_scales_of_steps,
                n,
            };
            let (sums, next) = mainloop.of_blocks(part, at, blocks, column);
            at = next;
            tma_store_wait_read(0);
            mainloop.store(&sums, staging);
            let of_group = RowsOfGroup {
                c,
                out,
                pitch,
                begin: maximum(now.begin_row(), 0),
                end: [minimum(now.end_row(), m), n],
            };
            let first = row + part * tile.rows;
            of_group.store([first, column], [tile.rows, columns], staging);
            now = tiles.next(now);
        }
        mainloop.end(part);
        tma_store_wait_read(0);
    };
    let load = || {
        let (mut at, mut now) = (mainloop.pipeline.start(), tiles.start());
        while now.group() < groups {
            let [row, column] = place(now);
            for step in range(0, mainloop.steps) {
                let stage = mainloop.pipeline.producer_acquire(at);
                let tiles = stage.tiles;
                a.load([row, step * BLOCK], tiles.a, stage.full);
                b.load([now.group(), column, step * BLOCK], tiles.b, stage.full);
                a_scales.load([step, row], tiles.a_scales, stage.full);
                at = mainloop.pipeline.commit(stage).advance();
            }
            now = tiles.next(now);
        }
    };
    let [of_consumers, of_others] = tile.registers();
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..tile.groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), load)
        .run();
}
