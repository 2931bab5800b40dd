//! Products of groups of rows with a matrix of B each, with scales for blocks. The kernel finds the rows of each group in memory.

use std::fmt;

use tilekit::prelude::*;

use super::factors::{BlockScales, Factors, Maps};
use super::mainloop::Mainloop;
use super::order::{first_of_cta, rows_of_order};
use super::tile::ScaledTile;
use crate::products::factor::{BLOCK, Operand, ResultOf, unit};
use crate::products::form::swizzle_of_results;
use crate::products::grouped::RowsOfGroup;
use crate::products::registers::registers_of;

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
#[kernel(warps = 4, cluster = form.tile.ctas(), min_ctas_per_sm = 1)]
pub fn block_scaled_grouped<T: Operand<Sum = f32>, O: ResultOf<T, Addend = O>>(
    #[fixed] form: GroupedForm,
    #[block([form.tile.shares()[0], BLOCK], Nvmma::B128)] a: TensorMap<T>,
    #[block([1, form.tile.shares()[1], BLOCK], Nvmma::B128)] b: TensorMap<T>,
    #[block([1, form.tile.shape()[0]], Nvmma::PLAIN)] a_scales: TensorMap<f32>,
    #[block([form.tile.rows, form.tile.columns], swizzle_of_results::<O>(form.tile.columns))]
    c: TensorMap<O>,
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
    launch_dependents();
    let tile = form.tile;
    let of_cluster = tile.of_cluster();
    let factors = Factors::alloc([a, b], a_scales, None, tile);
    let mainloop = Mainloop::new(factors, steps_along(k, BLOCK), tile);
    let staging = Smem::<O>::alloc(c.block().with_inserted(0, tile.groups), c.layout());
    let tiles = if form.is_counted {
        RaggedTiles::of_counts(rows, [groups, m / groups], n, of_cluster)
    } else {
        RaggedTiles::new(rows, groups, n, of_cluster).within(m)
    };
    // TMA loads scales of rows.
    let tiles = tiles.aligned(unit::<f32>()).of_cluster(tile.ctas());
    // The first row and column of a tile.
    let place = |tile: RaggedTile| {
        let rows = tile.end_row() - tile.first_row();
        let order = GroupedRows::new([rows, n], of_cluster, rows_of_order(form.tile));
        let [row, column] = first_of_cta(form.tile, order.place(tile.number()));
        [tile.first_row() + row, column]
    };

    let multiply = |part: usize| {
        // Rows of groups may be of the launch before.
        launch_wait();
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
            of_group.store([first, column], [tile.rows, tile.columns], staging);
            now = tiles.next(now);
        }
        mainloop.end(part);
        tma_store_wait_read(0);
    };
    let load = || {
        launch_wait();
        let (mut at, mut now) = (mainloop.pipeline.start(), tiles.start());
        let maps = Maps { a, b, a_scales };
        while now.group() < groups {
            let (first, group) = (place(now), Some(now.group()));
            for step in range(0, mainloop.steps) {
                let stage = mainloop.pipeline.producer_acquire(at);
                maps.load(tile.shared, (stage.tiles, stage.full), first, group, step);
                at = mainloop.pipeline.commit(stage).advance();
            }
            now = tiles.next(now);
        }
        mainloop.end_of_loads(at);
    };
    let [of_consumers, of_others] = registers_of(tile.groups);
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..tile.groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), load)
        .run();
}
