//! Products of groups of rows with a matrix of B each, as the experts of a mixture compute them: how many rows a group has is known in memory
//! only. The kernel is [`dense`](super::dense::dense) but for its tiles, which it finds in the offsets of the groups, and their stores: tiles that end
//! within a group are stored by TMA, and the last rows of a group by threads, for behind them lies the next group.

use tilekit::prelude::*;
use tilekit::target::SM_90A;

use super::dense::{ManyTile, rows_of_group};
use super::epilogue::{Data, Epilogue};
use super::factor::{Operand, ResultOf, STAGE_BYTES, depth, unit};
use super::finished::Finished;
use super::form::{Form, Source, block_of, swizzle_of_results};
use super::instances::Instance;
use super::need::Need;
use super::output_handles::NoOutputs;
use super::plan::{MULTIPROCESSORS, Plan};
use super::registers::registers_of;
use super::ring::Ring;

/// Tiles of [`grouped`]: warpgroups, rows of each, columns, and the most stages.
const TILES: [[usize; 4]; 2] = [[2, 64, 256, 4], [2, 64, 128, 6]];

/// Bytes of mbarriers and what aligns buffers.
const BESIDES: usize = 1024;

/// The tile and the number of programs for groups of so many rows on average: of the tiles that the model says are fastest.
pub(super) fn plan(rows: usize, groups: usize, need: &Need) -> (ManyTile, usize) {
    let size = [
        rows.div_ceil(groups.max(1)).max(1),
        need.size[1],
        need.size[2],
    ];
    let of_groups = Need {
        size,
        batches: groups,
        ..*need
    };
    let plans = tiles(need.element_bytes[1]);
    let plans = plans.map(|tile| (tile, Plan::of(Instance::Many(tile), &of_groups)));
    let (tile, _) = plans
        .min_by(|(_, x), (_, y)| x.microseconds.total_cmp(&y.microseconds))
        .expect("a tile of 128 columns has room for results of 4 bytes");
    // Each group but one may end with a tile of one row.
    let [of_tile, columns] = tile.shape();
    let tiles = (rows.div_ceil(of_tile) + groups) * need.size[1].div_ceil(columns);
    (tile, tiles.clamp(1, MULTIPROCESSORS))
}

/// The tiles that have room for results of so many bytes.
pub(super) fn tiles(result_bytes: usize) -> impl Iterator<Item = ManyTile> {
    TILES.into_iter().filter_map(fitted(result_bytes))
}

/// A tile with as many stages as there is room for beside results of so many bytes.
fn fitted(result_bytes: usize) -> impl Fn([usize; 4]) -> Option<ManyTile> {
    move |[groups, rows, columns, most]| {
        let stage = (groups * rows + columns) * STAGE_BYTES;
        let results = groups * rows * staged(columns, result_bytes) * result_bytes;
        let room = SM_90A.cta.shared_bytes as usize - BESIDES;
        let stages = (room.saturating_sub(results) / stage).min(most);
        let tile = ManyTile::of([groups, rows, columns, stages]);
        (stages >= 3).then_some(tile)
    }
}

/// How many columns of results of so many bytes a warpgroup stages at a time: 256 bytes of a row. All of 256 columns would take the room of a stage of the ring, and with three stages the weights of small groups, which are
/// read from DRAM but once, do not arrive in time.
fn staged(columns: usize, result_bytes: usize) -> usize {
    columns.min(256 / result_bytes)
}

/// A thread's elements of 16 bytes of a row, a warp on as few rows as have room for it.
fn rows_of_threads<O: Element>(columns: usize) -> Blocked {
    let each = unit::<O>();
    let lanes = (1 << (columns / each).trailing_zeros()).min(32);
    Blocked::new([1, each], [32 / lanes, lanes], [4, 1], [1, 0])
}

/// Where rows of a group are stored, up to the end of the group and of the columns.
#[derive(Clone, Copy, Aggregate)]
pub(super) struct RowsOfGroup<O> {
    pub(super) c: TensorMap<O>,
    /// The same matrix, whose rows begin every `pitch` elements.
    pub(super) out: Ptr<O>,
    pub(super) pitch: Scalar<i32>,
    /// The first row of the group, 0 or more.
    pub(super) begin: Scalar<i32>,
    pub(super) end: [Scalar<i32>; 2],
}

impl<O: Element> RowsOfGroup<O> {
    /// Stores `rows` by `columns` results from shared memory to `first` row and column: by TMA, or where the group ends within them, by threads, for behind it lies the next group; so too where rows end
    /// within 16 bytes, of which a TMA store writes all.
    #[device]
    pub(super) fn store(
        self,
        [first, column]: [Scalar<i32>; 2],
        [rows, columns]: [usize; 2],
        staging: Smem<O>,
    ) {
        let [end, n] = self.end;
        let ends_whole = (column + columns <= n) | (n & (unit::<O>() - 1) == 0);
        if (first >= self.begin) & (first + rows <= end) & ends_whole {
            self.c.store([first, column], staging);
        } else {
            let layout = rows_of_threads::<O>(columns);
            let (i, j) = (
                rows_of(layout.clone(), first, rows),
                columns_of(layout.clone(), column, columns),
            );
            let inside = (i >= self.begin) & (i < end) & (j < n);
            let result = staging.load(layout);
            self.out.at(i * self.pitch + j).mask(inside).store(result);
        }
    }
}

/// `C[r, :] = A[r, :] · B[g]ᵀ` for the rows `r` of each group `g`, from `offsets[g]` to `offsets[g + 1]`, and 0 up to `m`. A is `[M, K]`, B is `[groups, N, K]`,
/// and rows of C begin every `pitch` elements at `out`, which is `c`. Scales of B and the bias of a group begin `b_scales_of_group` and `bias_of_group` numbers after those of the group
/// before.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn grouped<T: Operand, O: ResultOf<T, Addend = O>, E: Epilogue<O, Outputs = NoOutputs>>(
    #[fixed] form: Form<ManyTile, E>,
    #[block(form.sides[0].block::<T>(form.tile.shape()[0]), form.sides[0].swizzle::<T>(form.tile.shape()[0]))]
    a: TensorMap<T>,
    #[block(form.sides[1].block::<T>(form.tile.columns), form.sides[1].swizzle::<T>(form.tile.columns))]
    b: TensorMap<T>,
    #[block(block_of([form.tile.rows, staged(form.tile.columns, size_of::<O>())], false), swizzle_of_results::<O>(staged(form.tile.columns, size_of::<O>())))]
    c: TensorMap<O>,
    out: Ptr<O>,
    #[multiple_of(unit::<O>())] pitch: i32,
    #[align(4)] offsets: Ptr<i32>,
    groups: i32,
    m: i32,
    n: i32,
    k: i32,
    alpha: f32,
    beta: f32,
    source: Ptr<O>,
    #[multiple_of(unit::<O>())] source_pitch: i32,
    #[align(4)] bias: Ptr<O>,
    bias_of_group: i32,
    #[align(4)] a_scales: Ptr<f32>,
    #[align(4)] b_scales: Ptr<f32>,
    b_scales_of_group: i32,
) {
    let tile = form.tile;
    let [rows_of_tile, columns] = tile.shape();
    let a = Source::new(a, form.sides[0], rows_of_tile);
    let b = Source::new(b, form.sides[1], columns);
    let ring = Ring::new(a, b, tile.stages, tile.groups);
    let staging = Smem::<O>::alloc(c.block().with_inserted(0, tile.groups), c.layout());
    let tiles = RaggedTiles::new(offsets, groups, n, tile.shape()).within(m);
    let steps = steps_along(k, depth::<T>());
    // The first row and column of a tile.
    let place = |tile: RaggedTile| {
        let rows = tile.end_row() - tile.first_row();
        let order = GroupedRows::new(
            [rows, n],
            [rows_of_tile, columns],
            rows_of_group([rows_of_tile, columns]),
        );
        let [row, column] = order.place(tile.number());
        [tile.first_row() + row * rows_of_tile, column * columns]
    };

    let multiply = |part: usize| {
        let staging = staging.index(part);
        let (mut at, mut now) = (ring.pipeline.start(), tiles.start());
        while now.group() < groups {
            let (sums, next) = ring.sums(tile.rows_of(part), columns, || range(0, steps), at);
            at = next;
            let [row, column] = place(now);
            let first = row + part * tile.rows;
            let end = minimum(now.end_row(), m);
            let group = now.group();
            let data = Data {
                alpha,
                beta,
                source,
                source_pitch,
                source_batch: scalar(0_i64),
                bias: bias + group * bias_of_group,
                scales: [a_scales, b_scales + group * b_scales_of_group],
                outputs: NoOutputs,
            };
            let of_group = RowsOfGroup {
                c,
                out,
                pitch,
                begin: scalar(0),
                end: [end, n],
            };
            let width = staged(columns, size_of::<O>());
            for of_tile in (0..columns).step_by(width) {
                let column = column + of_tile;
                let finished = Finished {
                    first: [first, column],
                    batch: group,
                    size: [end, n],
                    rows_apart: 1,
                    turned: false,
                    data,
                };
                tma_store_wait_read(0);
                let sums = sums.slice(1, of_tile..of_tile + width);
                finished.store(form.epilogue, sums, staging);
                of_group.store([first, column], [tile.rows, width], staging);
            }
            now = tiles.next(now);
        }
        tma_store_wait_read(0);
    };
    let load = || {
        let (mut at, mut now) = (ring.pipeline.start(), tiles.start());
        while now.group() < groups {
            let [row, column] = place(now);
            for step in range(0, steps) {
                let of_a = || [scalar(0), row, step];
                at = ring.load(at, || [of_a(), [now.group(), column, step]]);
            }
            now = tiles.next(now);
        }
    };
    let [of_consumers, of_others] = registers_of(tile.groups);
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..tile.groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), load)
        .run();
}
