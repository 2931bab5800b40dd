//! Products with few tiles: the CTAs of a cluster share the steps along K of one tile (split-K), and add their parts through distributed
//! shared memory, each CTA some columns, in a fixed order: the sum is bit-identical in every run.

use std::fmt;

use tilekit::prelude::*;

use super::dense::INSTRUCTION_ROWS;
use super::epilogue::{Data, Epilogue, Place};
use super::factor::{Operand, ResultOf, depth, unit};
use super::form::{Form, Source};

/// A tile of [`few_tiles`]: `[groups * 64, columns]`, of `ctas` CTAs along K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FewTile {
    /// CTAs of a cluster.
    pub ctas: usize,
    /// Consumer warpgroups.
    pub groups: usize,
    /// Columns.
    pub columns: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// A and B are exchanged: rows of the tile are columns of C.
    pub turned: bool,
}

impl fmt::Display for FewTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FewTile {
            ctas,
            groups,
            columns,
            stages,
            turned,
        } = self;
        write!(f, "{ctas}x{groups}x{columns}x{stages}")?;
        if *turned {
            write!(f, "+turned")
        } else {
            Ok(())
        }
    }
}

/// Columns of one register pair of an accumulator over its four lanes, which are not divided.
const INSTRUCTION_COLUMNS: usize = 8;

/// CTAs of a cluster of `ctas` that add up and store columns of a tile of `columns`.
fn adders(columns: usize, ctas: usize) -> usize {
    ctas.min(columns / INSTRUCTION_COLUMNS)
}

/// A warpgroup over a part of `[rows, columns]`, whose elements follow each other in memory along `axis`: `each` of them a thread.
fn along(axis: usize, [rows, columns]: [usize; 2], each: usize) -> Blocked {
    let length = if axis == 0 { rows } else { columns };
    let each = length.min(each);
    let lanes = (length / each).min(32);
    if axis == 0 {
        let others = 32 / lanes;
        Blocked::new([each, 1], [lanes, others], [1, 4], [0, 1])
    } else {
        Blocked::new([1, each], [32 / lanes, lanes], [4, 1], [1, 0])
    }
}

/// Parts of a tile that CTAs of a cluster send to those that add them.
#[derive(Clone, Copy, Aggregate)]
struct Exchange<S> {
    /// Of each warpgroup, for each CTA that adds, 64 rows of its columns.
    own: Smem<S>,
    /// Of each warpgroup, from each CTA, 64 rows of the columns that this CTA adds up.
    parts: Smem<S>,
    /// A phase completes when the copies of all parts of a warpgroup have completed.
    received: Mbarriers,
    /// Columns follow each other in shared memory, and not rows.
    turned: bool,
}

impl<S: Numeric> Exchange<S> {
    /// Of `groups` warpgroups in `ctas` CTAs, of which `adders` add `width` columns each. All CTAs of the cluster synchronize, so that
    /// they observe the initialized mbarriers; they do so again before one ends.
    #[device]
    fn new([groups, ctas, adders, width]: [usize; 4], turned: bool) -> Self {
        let [rows, columns] = if turned {
            [width, INSTRUCTION_ROWS]
        } else {
            [INSTRUCTION_ROWS, width]
        };
        let tiles = |count| {
            let shape = [groups, count, rows, columns];
            Smem::<S>::alloc(shape, Swizzled::plain([3, 2, 1, 0]))
        };
        let (own, parts) = (tiles(adders), tiles(ctas));
        let adds = cluster_rank() < adders;
        let received = Mbarriers::alloc(groups, Arrivals(1));
        for group in 0..groups {
            let bytes = parts.bytes() / groups;
            received.index(group).expect_when(adds, bytes);
        }
        cluster_barrier_relaxed();
        Exchange {
            own,
            parts,
            received,
            turned,
        }
    }

    /// A part as `[64, width]`.
    #[track_caller]
    fn by_rows(self, part: Smem<S>) -> Smem<S> {
        if self.turned {
            part.permute([1, 0])
        } else {
            part
        }
    }

    /// Sends what this CTA has of the columns of CTA `to`, by a bulk copy that completes on its mbarrier: from registers (`st.async`) it takes
    /// three times as long.
    #[track_caller]
    fn send(self, group: usize, to: usize, part: Tensor<S>) {
        let own = self.own.index(group).index(to);
        self.by_rows(own).store(part);
        let place = self.parts.index(group).index(cluster_rank()).in_cta(to);
        place.bulk().store(own, self.received.index(group));
    }

    /// Waits for the parts of all `ctas` CTAs and adds them in the order of ranks.
    #[track_caller]
    fn receive(self, group: usize, ctas: usize, layout: &Blocked) -> Tensor<S> {
        self.received.index(group).wait(0);
        let parts = self.parts.index(group);
        let part = |cta: usize| self.by_rows(parts.index(cta)).load(layout.clone());
        (1..ctas).fold(part(0), |sum, cta| sum + part(cta))
    }
}

/// `D[M, N] = X[M, K] · Y[N, K]ᵀ` of each product of a batch, a tile for each cluster, whose CTAs share the steps along K. Element
/// `[i, j]` of the result is at `out + i * stride + j`, or in a turned tile at `out + j * stride + i`: the product with X and Y exchanged.
#[kernel(warps = 4, cluster = form.tile.ctas, min_ctas_per_sm = 1)]
pub fn few_tiles<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: Form<FewTile, E>,
    #[block(form.sides[0].block::<T>(form.tile.groups * INSTRUCTION_ROWS), form.sides[0].swizzle::<T>(form.tile.groups * INSTRUCTION_ROWS))]
    x: TensorMap<T>,
    #[block(form.sides[1].block::<T>(form.tile.columns), form.sides[1].swizzle::<T>(form.tile.columns))]
    y: TensorMap<T>,
    out: Ptr<O>,
    #[multiple_of(unit::<O>())] stride: i32,
    #[multiple_of(unit::<O>())] batch_stride: i64,
    m: i32,
    n: i32,
    k: i32,
    alpha: f32,
    beta: f32,
    source: Ptr<O>,
    #[multiple_of(unit::<O>())] source_pitch: i32,
    #[multiple_of(unit::<O>())] source_batch: i64,
    bias: Ptr<O>,
    a_scales: Ptr<f32>,
    b_scales: Ptr<f32>,
) {
    let FewTile {
        ctas,
        groups,
        columns,
        stages,
        turned,
    } = form.tile;
    let rows = groups * INSTRUCTION_ROWS;
    let adders = adders(columns, ctas);
    let width = columns / adders;
    launch_dependents();
    let pipeline = Pipeline::tma((x, y), stages, Consumers::warpgroups(groups));
    let rank = cluster_rank();
    let exchange =
        (ctas > 1).then(|| Exchange::<T::Sum>::new([groups, ctas, adders, width], turned));
    let steps = steps_along(k, depth::<T>());
    let [row, column] = [cluster_id(0) * rows, program_id(1) * columns];
    let batch = if form.is_batched {
        program_id(2)
    } else {
        scalar(0)
    };
    let x = Source::new(x, form.sides[0], rows);
    let y = Source::new(y, form.sides[1], columns);
    let data = Data {
        alpha,
        beta,
        source,
        source_pitch,
        source_batch,
        bias,
        scales: [a_scales, b_scales],
    };

    let multiply = |group: usize| {
        let first = group * INSTRUCTION_ROWS;
        let mut at = pipeline.start();
        let mut before = pipeline.nothing_held(&at);
        let mut acc = T::zeros([INSTRUCTION_ROWS, columns], columns);
        for step in range(rank, steps).step(ctas) {
            let stage = pipeline.consumer_wait(at);
            let (of_x, of_y) = stage.tiles;
            let of_x = x.by_rows(of_x).slice(0, first..first + INSTRUCTION_ROWS);
            acc = acc.mma(of_x, y.by_rows(of_y).transpose()).wait(1);
            let held = stage.hold();
            at = held.next();
            let done = std::mem::replace(&mut before, held);
            pipeline.consumer_release_when(step >= ctas, done);
        }
        let acc = acc.wait_all();
        let axis = if turned { 0 } else { 1 };
        // Results and where they go.
        let place = |layout: Layout, column: Scalar<i32>| {
            let i = rows_of(layout.clone(), row + first, INSTRUCTION_ROWS);
            let j = columns_of(layout, column, width);
            let (row, column, size) = if turned {
                (j, i, [n, m])
            } else {
                (i, j, [m, n])
            };
            Place {
                row,
                column,
                batch,
                size,
                data,
            }
        };
        let store = |result: Tensor<O>, at: Place<O>| {
            let inside = (at.row < at.size[0]) & (at.column < at.size[1]);
            let out = if form.is_batched {
                out + batch.cast::<i64>() * batch_stride
            } else {
                out
            };
            out.at(at.row * stride + at.column)
                .mask(inside)
                .store(result);
        };
        let finish = |sums: Tensor<T::Sum>, at: Place<O>| {
            if form.epilogue.is_plain() {
                sums.cast::<O>()
            } else {
                // What it reads may be of the launch before.
                launch_wait();
                let results = form.epilogue.finish(sums.cast::<f32>(), at);
                results.cast::<O>()
            }
        };
        if let Some(exchange) = exchange {
            for adder in 0..adders {
                let columns = acc.slice(1, adder * width..(adder + 1) * width);
                exchange.send(group, adder, columns);
            }
            if rank < adders {
                let layout = along(axis, [INSTRUCTION_ROWS, width], 4);
                let sum = exchange.receive(group, ctas, &layout);
                let at = place(sum.layout(), column + rank * width);
                store(finish(sum, at), at);
            }
        } else {
            let layout = along(axis, [INSTRUCTION_ROWS, width], 8);
            if form.epilogue.is_plain() {
                let results = acc.cast::<O>().convert_layout(layout);
                store(results, place(results.layout(), column));
            } else {
                let sums = acc.convert_layout(layout);
                let at = place(sums.layout(), column);
                store(finish(sums, at), at);
            }
        }
    };
    let load = || {
        launch_wait();
        let mut at = pipeline.start();
        for step in range(rank, steps).step(ctas) {
            let stage = pipeline.producer_acquire(at);
            let (of_x, of_y) = stage.tiles;
            x.load([batch, row, step], of_x, stage.full);
            y.load([batch, column, step], of_y, stage.full);
            at = pipeline.commit(stage).advance();
        }
    };
    let parts = warp_specialize().main(|| multiply(0));
    let parts = parts.workers(1..groups, Warps(4), multiply);
    parts.worker(Warps(1), load).run();
    if ctas > 1 {
        // Copies read this CTA's shared memory until they have arrived.
        cluster_barrier_relaxed();
    }
}
