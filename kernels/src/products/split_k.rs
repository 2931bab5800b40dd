//! Products whose tiles fill no whole wave: the steps along K of each tile are divided into parts (split-K), which programs compute in turn and add through memory, in a fixed
//! order. Other than in a cluster, any number of parts on any multiprocessors share a tile.
//!
//! Parts of all tiles at one place along K follow each other, so that what runs at a time reads the same rows of A and B. Shares of equal length that begin anywhere (stream-K) read them at
//! different times, which took up to twice as long (`bench/results/products.md`).

use std::fmt;

use tilekit::prelude::*;

use super::dense::{PAIR, rows_of_group, write_ctas};
use super::ending::Ending;
use super::epilogue::{Data, Epilogue};
use super::factor::{INSTRUCTION_ROWS, Operand, ResultOf, depth, unit};
use super::form::{Form, Source};
use super::ring::Ring;

/// A tile of [`split_k`]: `[groups * 64, columns]`, one of `ctas` of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SplitTile {
    /// Consumer warpgroups.
    pub groups: usize,
    /// Columns.
    pub columns: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// CTAs of a cluster, whose tiles are one above the other: each loads its share of the columns and multicasts it to all.
    pub ctas: usize,
    /// A and B are exchanged: rows of the tile are columns of C.
    pub turned: bool,
}

impl SplitTile {
    /// Of warpgroups, columns and stages, for CTAs without clusters.
    pub const fn of([groups, columns, stages]: [usize; 3]) -> Self {
        SplitTile {
            groups,
            columns,
            stages,
            ctas: 1,
            turned: false,
        }
    }

    /// The same of A and B exchanged.
    #[must_use]
    pub const fn exchanged(self) -> Self {
        SplitTile {
            turned: true,
            ..self
        }
    }

    /// The same for each CTA of pairs.
    #[must_use]
    pub const fn by_pairs(self) -> Self {
        SplitTile { ctas: PAIR, ..self }
    }

    /// Columns of B that a CTA loads.
    pub fn share(self) -> usize {
        self.columns / self.ctas
    }

    /// Rows and columns.
    pub fn shape(self) -> [usize; 2] {
        [self.groups * INSTRUCTION_ROWS, self.columns]
    }

    /// Registers of a consumer thread, and of a thread that loads.
    fn registers(self) -> [u32; 2] {
        if self.groups == 3 {
            [160, 32]
        } else {
            [232, 40]
        }
    }

    /// Elements of `sums` and of `counts` that so many tiles in so many parts need, at least one of each.
    pub fn workspace(self, [tiles, parts]: [usize; 2]) -> [usize; 2] {
        let [rows, columns] = self.shape();
        let sums = tiles * parts * rows * columns;
        [sums.max(1), (2 * tiles * self.groups).max(1)]
    }
}

impl fmt::Display for SplitTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SplitTile {
            groups,
            columns,
            stages,
            ctas,
            turned,
        } = self;
        write!(f, "{groups}x{columns}x{stages}")?;
        write_ctas(f, *ctas)?;
        f.write_str(if *turned { "+turned" } else { "" })
    }
}

/// Parts along K of a tile, at most.
pub(super) const MOST_PARTS: usize = 16;

/// Elements of sums that a warpgroup adds at a time: 16 bytes of each part a thread.
const ADDED: usize = 512;

/// Memory in which the parts of a tile are. Each of the programs that share a tile adds some of its rows when all parts are there.
#[derive(Clone, Copy)]
pub(super) struct Exchange<S> {
    pub(super) tile: SplitTile,
    pub(super) tiles: Scalar<i32>,
    /// How many parts a tile has, at most [`MOST_PARTS`].
    pub(super) parts: Scalar<i32>,
    /// One tile for each part, those of all tiles at one place along K after each other.
    pub(super) sums: Ptr<S>,
    /// For each warpgroup of each tile, how many parts are there and how many programs have seen that: 0 before a launch and behind it.
    pub(super) counts: Ptr<i32>,
}

impl<S: Numeric> Exchange<S> {
    /// Elements in front of a part of a tile.
    #[track_caller]
    fn first(self, tile: Scalar<i32>, part: Scalar<i32>) -> Scalar<i64> {
        let [rows, columns] = self.tile.shape();
        let number = part * self.tiles + tile;
        number.cast::<i64>() * (rows * columns) as i64
    }

    #[track_caller]
    fn count(self, tile: Scalar<i32>, group: usize) -> Ptr<i32> {
        self.counts + (tile * self.tile.groups + group) * 2
    }

    /// Exchanges the sums of a warpgroup's rows with the other programs of a tile, and gives `store` those of some rows over all parts, or of some columns of a turned tile, with the row and column of the tile where
    /// they begin.
    #[device]
    pub(super) fn add_up(
        self,
        [tile, part]: [Scalar<i32>; 2],
        group: usize,
        sums: Tensor<S>,
        store: impl Fn([Scalar<i32>; 2], Tensor<S>),
    ) {
        self.store_part([tile, part], group, sums);
        self.wait(tile, group);
        let chunks = (INSTRUCTION_ROWS * self.tile.columns / ADDED) as i32;
        let row = scalar((group * INSTRUCTION_ROWS) as i32);
        for chunk in range(part, chunks).step(self.parts) {
            let sums = self.added(tile, group, chunk);
            let first = if self.tile.turned {
                [row, chunk * (ADDED / INSTRUCTION_ROWS)]
            } else {
                [row + chunk * (ADDED / self.tile.columns), scalar(0)]
            };
            store(first, sums);
        }
    }

    /// Stores the sums of a warpgroup and releases them.
    #[track_caller]
    fn store_part(self, [tile, part]: [Scalar<i32>; 2], group: usize, sums: Tensor<S>) {
        let columns = self.tile.columns;
        let first = group * INSTRUCTION_ROWS;
        let j = columns_of(sums.layout(), scalar(0), columns);
        // Neighbours in C are neighbours here.
        let at = if self.tile.turned {
            let i = rows_of(sums.layout(), scalar(0), INSTRUCTION_ROWS);
            j * INSTRUCTION_ROWS as i32 + i + (first * columns) as i32
        } else {
            let i = rows_of(sums.layout(), scalar(first as i32), INSTRUCTION_ROWS);
            i * columns as i32 + j
        };
        let to = self.sums + self.first(tile, part);
        to.at(at).store(sums);
        self.count(tile, group).at(0).release().atomic_add(1);
    }

    /// Waits until all parts of a tile are there. The last program that has seen it sets the counts to 0 again.
    #[device]
    #[track_caller]
    fn wait(self, tile: Scalar<i32>, group: usize) {
        let (count, parts) = (self.count(tile, group), self.parts);
        count.at(0).acquire().atomic_poll(|there| there == parts);
        let seen = count.at(1).acq_rel().atomic_add(1).old();
        if seen == parts - 1 {
            count.at(0).relaxed().atomic_store(0);
            count.at(1).relaxed().atomic_store(0);
        }
    }

    /// The sums of all parts of some rows of a warpgroup, or of some columns of a turned tile, the parts in ascending order.
    #[device]
    #[track_caller]
    fn added(self, tile: Scalar<i32>, group: usize, chunk: Scalar<i32>) -> Tensor<S> {
        let [of_tile, columns] = self.tile.shape();
        // All parts at once: one load after the other would take as many times as long.
        let layout = Blocked::new([MOST_PARTS, 4], [1, 32], [1, 4], [1, 0]);
        let part = arange(0..MOST_PARTS, Slice::new(1, layout.clone())).expand_dims(1);
        let at = arange(0..ADDED, Slice::new(0, layout)).expand_dims(0);
        let before = chunk * ADDED + (group * INSTRUCTION_ROWS * columns) as i32;
        let from_part = self.tiles.cast::<i64>() * (of_tile * columns) as i64;
        let places = part.cast::<i64>() * from_part + (at + before).cast::<i64>();
        let from = self.sums + self.first(tile, scalar(0));
        let is_there = part < self.parts;
        let parts = from.at(places).mask(is_there).other(S::ZERO).load();
        let sums = parts.sum(0);
        if self.tile.turned {
            let shape = [ADDED / INSTRUCTION_ROWS, INSTRUCTION_ROWS];
            sums.reshape(shape).permute([1, 0])
        } else {
            sums.reshape([ADDED / columns, columns])
        }
    }
}

/// A product in parts of `each` steps along K, of which each tile has `count`.
#[derive(Clone, Copy)]
struct Parts<T: Operand> {
    ring: Ring<T>,
    order: GroupedRows,
    steps: Scalar<i32>,
    count: Scalar<i32>,
    each: Scalar<i32>,
    exchange: Exchange<T::Sum>,
}

impl<T: Operand> Parts<T> {
    /// The numbers of this program, of all parts of all tiles.
    #[track_caller]
    fn of_program(self) -> Range<i32> {
        let all = self.exchange.tiles * self.count;
        range(program_id(0), all).step(num_programs(0))
    }

    /// The row and column of a tile: CTAs of a cluster have the same part of tiles one above the other.
    #[device]
    fn place(self, tile: Scalar<i32>) -> [Scalar<i32>; 2] {
        let ctas = self.exchange.tile.ctas;
        if ctas > 1 {
            let [row, column] = self.order.place(tile / ctas);
            [row * ctas + cluster_rank(), column]
        } else {
            self.order.place(tile)
        }
    }

    #[track_caller]
    fn of_part(self, part: Scalar<i32>) -> Range<i32> {
        let first = part * self.each;
        range(first, minimum(first + self.each, self.steps))
    }

    /// The sums of the rows of warpgroup `group`, and the first stage of the next part.
    #[device]
    fn sums(
        self,
        (group, part): (usize, Scalar<i32>),
        at: PipelineState,
    ) -> (Tensor<T::Sum>, PipelineState) {
        let own = group * INSTRUCTION_ROWS..(group + 1) * INSTRUCTION_ROWS;
        let columns = self.exchange.tile.columns;
        self.ring.sums(own, columns, || self.of_part(part), at)
    }
}

/// Multiplies, adds parts through memory, and gives `store` the sums of some rows with the row and column where they begin.  All programs run at a time.
#[device]
fn multiply_parts<T: Operand>(of: Parts<T>, store: impl Fn([Scalar<i32>; 2], Tensor<T::Sum>)) {
    let Parts { ring, exchange, .. } = of;
    let (tile, tiles) = (exchange.tile, exchange.tiles);
    let [rows, columns] = tile.shape();
    let multiply = |group: usize| {
        let mut at = ring.pipeline.start();
        // The launch before may still read the workspace.
        launch_wait();
        for number in of.of_program() {
            let (part, tile) = (number / tiles, number % tiles);
            let (sums, next) = of.sums((group, part), at);
            at = next;
            let [row, column] = of.place(tile);
            exchange.add_up([tile, part], group, sums, |[i, j], sums| {
                store([row * rows + i, column * columns + j], sums);
            });
        }
    };
    let load = || {
        let mut at = ring.pipeline.start();
        launch_wait();
        for number in of.of_program() {
            let (part, place) = (number / tiles, number % tiles);
            let [row, column] = of.place(place);
            for step in of.of_part(part) {
                let of_a = || [scalar(0), row * rows, step];
                at = ring.load(at, || [of_a(), [scalar(0), column * columns, step]]);
            }
        }
        ring.end(at);
    };
    let [of_consumers, of_others] = tile.registers();
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..tile.groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), load)
        .run();
}

/// `C[M, N] = A[M, K] · B[N, K]ᵀ` in parts of `each` steps along K, of which each tile has `parts`, none empty. `sums` and `counts` are as [`SplitTile::workspace`] says; counts are 0. The
/// programs of a tile wait for each other: where a tile has several parts, there are no more programs than are resident at a time
/// (`kernels/src/products/division.rs` plans no more), one for each part. Element `[i, j]` of the result is at `out + i * stride + j`, or in a turned tile
/// at `out + j * stride + i`: the product with A and B exchanged. By clusters of several CTAs B is along K.
#[kernel(warps = 4, cluster = form.tile.ctas, min_ctas_per_sm = 1)]
pub fn split_k<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: Form<SplitTile, E>,
    #[block(form.sides[0].block::<T>(form.tile.shape()[0]), form.sides[0].swizzle::<T>(form.tile.shape()[0]))]
    a: TensorMap<T>,
    #[block(form.sides[1].block::<T>(form.tile.share()), form.sides[1].swizzle::<T>(form.tile.share()))]
    b: TensorMap<T>,
    out: Ptr<O>,
    #[multiple_of(unit::<O>())] stride: i32,
    m: i32,
    n: i32,
    k: i32,
    parts: i32,
    each: i32,
    data: Data<O>,
    sums: Ptr<T::Sum>,
    counts: Ptr<i32>,
) {
    launch_dependents();
    let of_parts = [parts, each];
    divide(
        form,
        (a, b),
        (out, stride),
        [m, n, k],
        of_parts,
        data,
        (sums, counts),
    );
}

/// How many tiles there are, those of a cluster one by one.
#[track_caller]
fn tiles_of(order: GroupedRows, ctas: usize) -> Scalar<i32> {
    if ctas > 1 {
        order.count() * ctas
    } else {
        order.count()
    }
}

/// The part of this program, or of the tiles that the CTAs of a cluster have, one above the other.
#[device]
fn divide<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    form: Form<SplitTile, E>,
    (a, b): (TensorMap<T>, TensorMap<T>),
    (out, stride): (Ptr<O>, Scalar<i32>),
    [m, n, k]: [Scalar<i32>; 3],
    [parts, each]: [Scalar<i32>; 2],
    data: Data<O>,
    (sums, counts): (Ptr<T::Sum>, Ptr<i32>),
) {
    let tile = form.tile;
    let ([rows, columns], ctas) = (tile.shape(), tile.ctas);
    let a = Source::new(a, form.sides[0], rows).of_clusters(ctas, m);
    let b = Source::new(b, form.sides[1], columns).shared_by(ctas);
    let ring = Ring::new(a, b, tile.stages, tile.groups);
    let of_cluster = [ctas * rows, columns];
    let order = GroupedRows::new([m, n], of_cluster, rows_of_group(of_cluster));
    let (tiles, steps) = (tiles_of(order, ctas), steps_along(k, depth::<T>()));
    let ending = Ending {
        epilogue: form.epilogue,
        columns,
        ctas: 1,
        turned: tile.turned,
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
        parts,
        sums,
        counts,
    };
    let parts = Parts {
        ring,
        order,
        steps,
        count: parts,
        each,
        exchange,
    };
    let store = |place, sums| ending.store_rows(place, sums);
    multiply_parts(parts, store);
}
