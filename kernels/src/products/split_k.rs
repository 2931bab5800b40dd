//! Products whose tiles fill no whole wave: the steps along K of each tile are divided into parts (split-K), which programs compute in turn and add through memory, in a fixed
//! order. Other than in a cluster, any number of parts on any multiprocessors share a tile.
//!
//! Parts of all tiles at one place along K follow each other, so that what runs at a time reads the same rows of A and B. Shares of equal length that begin anywhere (stream-K) read them at
//! different times, which took up to twice as long (`bench/results/products.md`).

use std::fmt;

use tilekit::prelude::*;

use super::dense::rows_of_group;
use super::ending::Ending;
use super::epilogue::{Data, Epilogue};
use super::factor::{INSTRUCTION_ROWS, Operand, ResultOf, depth, unit};
use super::form::{Form, Source};

/// A tile of [`split_k`]: `[groups * 64, columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SplitTile {
    /// Consumer warpgroups.
    pub groups: usize,
    /// Columns.
    pub columns: usize,
    /// Stages of the ring.
    pub stages: usize,
}

impl SplitTile {
    /// Rows and columns.
    pub fn shape(self) -> [usize; 2] {
        [self.groups * INSTRUCTION_ROWS, self.columns]
    }

    /// Elements of `sums` and of `counts` that so many tiles in so many parts need, at least one of each.
    pub fn workspace(self, [tiles, parts]: [usize; 2]) -> [usize; 2] {
        let ([rows, columns], others) = (self.shape(), tiles * parts.saturating_sub(1));
        let sums = others * rows * columns;
        [sums.max(1), (tiles * self.groups).max(1)]
    }
}

impl fmt::Display for SplitTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SplitTile {
            groups,
            columns,
            stages,
        } = self;
        write!(f, "{groups}x{columns}x{stages}")
    }
}

/// Registers of a consumer thread, and of a thread that loads.
const REGISTERS: [u32; 2] = [232, 40];

/// Memory in which the parts of a tile are, but for the last one, whose program adds them.
#[derive(Clone, Copy)]
struct Exchange<S> {
    tile: SplitTile,
    tiles: Scalar<i32>,
    /// How many parts of a tile other programs store: all but one.
    others: Scalar<i32>,
    /// One tile for each part, those of all tiles at one place along K after each other.
    sums: Ptr<S>,
    /// For each warpgroup of each tile, how many parts are there: 0 before a launch and behind it.
    counts: Ptr<i32>,
}

impl<S: Numeric> Exchange<S> {
    /// The number of a part of a tile.
    #[track_caller]
    fn number(self, tile: Scalar<i32>, part: Scalar<i32>) -> Scalar<i32> {
        part * self.tiles + tile
    }

    /// The place of a part's rows of a warpgroup, as `like` says.
    #[track_caller]
    fn place(self, number: Scalar<i32>, group: usize, like: Layout) -> (Ptr<S>, Tensor<i32>) {
        let [rows, columns] = self.tile.shape();
        let row = scalar((group * INSTRUCTION_ROWS) as i32);
        let i = rows_of(like.clone(), row, INSTRUCTION_ROWS);
        let j = columns_of(like, scalar(0), columns);
        let tile = number.cast::<i64>() * (rows * columns) as i64;
        (self.sums + tile, i * columns as i32 + j)
    }

    #[track_caller]
    fn count(self, tile: Scalar<i32>, group: usize) -> Ptr<i32> {
        self.counts + (tile * self.tile.groups + group)
    }

    /// Stores the sums of a warpgroup and releases them.
    #[track_caller]
    fn store_part(self, [tile, part]: [Scalar<i32>; 2], group: usize, sums: Tensor<S>) {
        let (to, at) = self.place(self.number(tile, part), group, sums.layout());
        to.at(at).store(sums);
        self.count(tile, group).at(0).release().atomic_add(1);
    }

    /// Waits until the other parts of a tile are there. The count is 0 again when all warps have seen it.
    #[device]
    #[track_caller]
    fn wait(self, tile: Scalar<i32>, group: usize) {
        let count = self.count(tile, group);
        let others = self.others;
        count.at(0).acquire().atomic_poll(|seen| seen == others);
        count.at(0).release().atomic_store(0);
    }

    /// Adds the other parts, in ascending order.
    #[device]
    #[track_caller]
    fn add(self, tile: Scalar<i32>, group: usize, mut sums: Tensor<S>) -> Tensor<S> {
        for part in range(0, self.others) {
            let (part, at) = self.place(self.number(tile, part), group, sums.layout());
            sums += part.at(at).load();
        }
        sums
    }
}

/// `C[M, N] = A[M, K] · B[N, K]ᵀ` in parts of `each` steps along K, of which each tile has `parts`, none empty. `sums` and `counts` are as [`SplitTile::workspace`] says; counts are 0. The
/// program of a tile's last part waits for those of the others, which have lower numbers and wait for none where each program has one part: the number of programs that are resident at a time
/// (`kernels/src/products/plan.rs` plans no more). Element `[i, j]` of the result is at `out + i * stride + j`.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn split_k<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: Form<SplitTile, E>,
    #[block(form.sides[0].block::<T>(form.tile.shape()[0]), form.sides[0].swizzle::<T>(form.tile.shape()[0]))]
    a: TensorMap<T>,
    #[block(form.sides[1].block::<T>(form.tile.columns), form.sides[1].swizzle::<T>(form.tile.columns))]
    b: TensorMap<T>,
    out: Ptr<O>,
    #[multiple_of(unit::<O>())] stride: i32,
    m: i32,
    n: i32,
    k: i32,
    parts: i32,
    each: i32,
    alpha: f32,
    beta: f32,
    source: Ptr<O>,
    #[multiple_of(unit::<O>())] source_pitch: i32,
    bias: Ptr<O>,
    a_scales: Ptr<f32>,
    b_scales: Ptr<f32>,
    sums: Ptr<T::Sum>,
    counts: Ptr<i32>,
) {
    let tile = form.tile;
    let [rows, columns] = tile.shape();
    launch_dependents();
    let pipeline = Pipeline::tma((a, b), tile.stages, Consumers::warpgroups(tile.groups));
    let order = GroupedRows::new([m, n], tile.shape(), rows_of_group(tile.shape()));
    let (tiles, steps) = (order.count(), steps_along(k, depth::<T>()));
    let all = || range(program_id(0), tiles * parts).step(num_programs(0));
    let of_part = |part: Scalar<i32>| {
        let first = part * each;
        range(first, minimum(first + each, steps))
    };
    let data = Data {
        alpha,
        beta,
        source,
        source_pitch,
        source_batch: scalar(0),
        bias,
        scales: [a_scales, b_scales],
    };
    let ending = Ending {
        epilogue: form.epilogue,
        columns,
        ctas: 1,
        turned: false,
        is_batched: false,
        out,
        stride,
        batch_stride: scalar(0),
        size: [m, n],
        batch: scalar(0),
        data,
    };
    let exchange = Exchange {
        tile,
        tiles,
        others: parts - 1,
        sums,
        counts,
    };
    let a = Source::new(a, form.sides[0], rows);
    let b = Source::new(b, form.sides[1], columns);

    let multiply = |group: usize| {
        let own = group * INSTRUCTION_ROWS..(group + 1) * INSTRUCTION_ROWS;
        let mut at = pipeline.start();
        // The launch before may still read the workspace.
        launch_wait();
        for number in all() {
            let (part, tile) = (number / tiles, number % tiles);
            let mut acc = T::zeros([INSTRUCTION_ROWS, columns], columns);
            for _ in of_part(part) {
                let stage = pipeline.consumer_wait(at);
                let (of_a, of_b) = stage.tiles;
                let of_a = a.by_rows(of_a).slice(0, own.clone());
                acc = acc.mma(of_a, b.by_rows(of_b).transpose()).wait(0);
                at = pipeline.consumer_release(stage).advance();
            }
            let sums = acc.wait_all();
            if part == parts - 1 {
                exchange.wait(tile, group);
                let sums = exchange.add(tile, group, sums);
                let [row, column] = order.place(tile);
                let place = [row * rows + own.start, column * columns];
                ending.store(None, group, place, sums);
            } else {
                exchange.store_part([tile, part], group, sums);
            }
        }
    };
    let load = || {
        let mut at = pipeline.start();
        launch_wait();
        for number in all() {
            let (part, tile) = (number / tiles, number % tiles);
            let [row, column] = order.place(tile);
            for step in of_part(part) {
                let stage = pipeline.producer_acquire(at);
                let (of_a, of_b) = stage.tiles;
                a.load([scalar(0), row * rows, step], of_a, stage.full);
                b.load([scalar(0), column * columns, step], of_b, stage.full);
                at = pipeline.commit(stage).advance();
            }
        }
    };
    let [of_consumers, of_others] = REGISTERS;
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..tile.groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), load)
        .run();
}
