//! Products with few tiles: the CTAs of a cluster share the steps along K of one tile (split-K), and add their parts through distributed
//! shared memory, each CTA some columns, in a fixed order: the sum is bit-identical in every run.

use tilekit::prelude::*;

use super::many_tiles::{BK, INSTRUCTION_ROWS};

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
struct Exchange {
    /// Of each warpgroup, for each CTA that adds, 64 rows of its columns.
    own: Smem<f32>,
    /// Of each warpgroup, from each CTA, 64 rows of the columns that this CTA adds up.
    parts: Smem<f32>,
    /// A phase completes when the copies of all parts of a warpgroup have completed.
    received: Mbarriers,
    /// Columns follow each other in shared memory, and not rows.
    turned: bool,
}

impl Exchange {
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
            Smem::<f32>::alloc(shape, Swizzled::plain([3, 2, 1, 0]))
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
    fn by_rows(self, part: Smem<f32>) -> Smem<f32> {
        if self.turned {
            part.permute([1, 0])
        } else {
            part
        }
    }

    /// Sends what this CTA has of the columns of CTA `to`, by a bulk copy that completes on its mbarrier: from registers (`st.async`) it takes
    /// three times as long.
    #[track_caller]
    fn send(self, group: usize, to: usize, part: Tensor<f32>) {
        let own = self.own.index(group).index(to);
        self.by_rows(own).store(part);
        let place = self.parts.index(group).index(cluster_rank()).in_cta(to);
        place.bulk().store(own, self.received.index(group));
    }

    /// Waits for the parts of all `ctas` CTAs and adds them in the order of ranks.
    #[track_caller]
    fn receive(self, group: usize, ctas: usize, layout: &Blocked) -> Tensor<f32> {
        self.received.index(group).wait(0);
        let parts = self.parts.index(group);
        let part = |cta: usize| self.by_rows(parts.index(cta)).load(layout.clone());
        (1..ctas).fold(part(0), |sum, cta| sum + part(cta))
    }
}

/// `D[M, N] = X[M, K] · Y[N, K]ᵀ`, a tile of `[GROUPS * 64, BN]` for each cluster of `CTAS`, which share the steps along K. Element
/// `[i, j]` of the result is at `out + i * stride + j`, or with `TURNED` at `out + j * stride + i`: the product with X and Y exchanged.
#[kernel(warps = 4, cluster = CTAS, min_ctas_per_sm = 1, instances(
    <bf16, 1, 1, 16, 8, true>,
    <bf16, 8, 1, 16, 8, true>,
    <bf16, 4, 1, 64, 8, false>,
    <bf16, 1, 1, 128, 6, false>,
    <bf16, 2, 2, 128, 3, false>
))]
pub fn few_tiles<
    T: Float + WgmmaOperand<T, f32>,
    const CTAS: usize,
    const GROUPS: usize,
    const BN: usize,
    const STAGES: usize,
    const TURNED: bool,
>(
    #[block([GROUPS * INSTRUCTION_ROWS, BK], Nvmma::B128)] x: TensorMap<T>,
    #[block([BN, BK], Nvmma::B128)] y: TensorMap<T>,
    out: Ptr<T>,
    #[multiple_of(8)] stride: i32,
    m: i32,
    n: i32,
    k: i32,
) {
    let rows = GROUPS * INSTRUCTION_ROWS;
    let adders = adders(BN, CTAS);
    let width = BN / adders;
    launch_dependents();
    let pipeline = Pipeline::tma((x, y), STAGES, Consumers::warpgroups(GROUPS));
    let rank = cluster_rank();
    let exchange = (CTAS > 1).then(|| Exchange::new([GROUPS, CTAS, adders, width], TURNED));
    let steps = steps_along(k, BK);
    let [row, column] = [cluster_id(0) * rows, program_id(1) * BN];

    let multiply = |group: usize| {
        let first = group * INSTRUCTION_ROWS;
        let sums = Wgmma::new([4, 1], [INSTRUCTION_ROWS, BN, 16]);
        let mut at = pipeline.start();
        let mut before = pipeline.nothing_held(&at);
        let mut acc = Accumulator::zeros([INSTRUCTION_ROWS, BN], sums);
        for step in range(rank, steps).step(CTAS) {
            let stage = pipeline.consumer_wait(at);
            let (x, y) = stage.tiles;
            let x = x.slice(0, first..first + INSTRUCTION_ROWS);
            acc = acc.mma(x, y.transpose()).wait(1);
            let held = stage.hold();
            at = held.next();
            let done = std::mem::replace(&mut before, held);
            pipeline.consumer_release_when(step >= CTAS, done);
        }
        let acc = acc.wait_all();
        let axis = if TURNED { 0 } else { 1 };
        let store = |sum: Tensor<T>, column: Scalar<i32>| {
            let layout = sum.layout();
            let i = rows_of(layout.clone(), row + first, INSTRUCTION_ROWS);
            let j = columns_of(layout, column, width);
            let inside = (i < m) & (j < n);
            let at = if TURNED {
                j * stride + i
            } else {
                i * stride + j
            };
            out.at(at).mask(inside).store(sum);
        };
        if let Some(exchange) = exchange {
            for adder in 0..adders {
                let columns = acc.slice(1, adder * width..(adder + 1) * width);
                exchange.send(group, adder, columns);
            }
            if rank < adders {
                let layout = along(axis, [INSTRUCTION_ROWS, width], 4);
                let sum = exchange.receive(group, CTAS, &layout);
                store(sum.cast::<T>(), column + rank * width);
            }
        } else {
            let layout = along(axis, [INSTRUCTION_ROWS, width], 8);
            store(acc.cast::<T>().convert_layout(layout), column);
        }
    };
    let load = || {
        launch_wait();
        let mut at = pipeline.start();
        for step in range(rank, steps).step(CTAS) {
            let stage = pipeline.producer_acquire(at);
            let (x_tile, y_tile) = stage.tiles;
            x.load([row, step * BK], x_tile, stage.full);
            y.load([column, step * BK], y_tile, stage.full);
            at = pipeline.commit(stage).advance();
        }
    };
    let mut parts = warp_specialize().main(|| multiply(0));
    for group in 1..GROUPS {
        parts = parts.worker(Warps(4), || multiply(group));
    }
    parts.worker(Warps(1), load).run();
    if CTAS > 1 {
        // Copies read this CTA's shared memory until they have arrived.
        cluster_barrier_relaxed();
    }
}
