//! The product by clusters of two rows and two columns of CTAs: CTAs of a row multiply the same rows of A, and CTAs of a column the same
//! columns of B. Each loads half of either and multicasts it to the two that need it, so that a cluster reads half of what four CTAs would.
//! Clusters draw their tiles from a counter: the warp that loads draws in the first CTA, and all partitions of all CTAs receive what it
//! has drawn.

use tilekit::prelude::*;

use crate::products::matmul_block_sparse::clear_counter;
use crate::products::product::{Product, product};

/// CTAs of a column and of a row of the cluster; the rank of a CTA is `row * 2 + column`.
const SIDE: usize = 2;
const CTAS: usize = SIDE * SIDE;

/// Consumer warpgroups of a CTA, and the rows of each: those of one instruction.
const GROUPS: usize = 2;
const ROWS: usize = 64;
const BM: usize = GROUPS * ROWS;

/// Warps of a CTA that multiply and that store: all but the one that loads.
const RECEIVERS: usize = GROUPS * 4 + GROUPS;

/// What one CTA loads of a tile, `[rows, BK]` of those that it shares.
const fn share(rows: usize) -> usize {
    rows / SIDE
}

/// A tile of `[2 · BM, 2 · BN]` of `C[M, N] = A[M, K] · B[N, K]ᵀ` at a time and cluster; `HALF` is `BN / 2`. `counter` is 0 before
/// and after a launch.
#[kernel(warps = 4, min_ctas_per_sm = 1, cluster = 4, instances(<bf16, 256, 128, 64, 4>))]
pub fn matmul_cluster_grid<
    T: Float + WgmmaOperand<T, f32>,
    const BN: usize,
    const HALF: usize,
    const BK: usize,
    const STAGES: usize,
>(
    #[block([share(BM), BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([HALF, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([ROWS, BN], Nvmma::B128)] c: TensorMap<T>,
    counter: Ptr<i32>,
    m: i32,
    n: i32,
    k: i32,
) {
    static_assert!(HALF == share(BN), "each CTA loads its share of the columns");
    let buffers = (
        Smem::<T>::alloc([STAGES, BM, BK], a.layout()),
        Smem::<T>::alloc([STAGES, BN, BK], b.layout()),
    );
    let consumers = Consumers::warpgroups(GROUPS).of_grid([SIDE, SIDE]);
    let pipeline = Pipeline::new(buffers, Producers::Tma, consumers);
    let epilogue = EpilogueStore::alloc(c, Turns::of_warpgroups(GROUPS).with_buffers(1));
    let tiles = GroupedRows::new([m, n], [SIDE * BM, SIDE * BN], 4);
    let receivers = Consumers::warps(RECEIVERS);
    let drawn = DynamicTiles::of_cluster(counter, tiles.count(), receivers, CTAS);
    let rank = cluster_rank();
    let (cta_row, cta_column) = (rank / SIDE, rank % SIDE);
    // The part of this CTA of the cluster's tile.
    let place = |tile: &DynamicTile| {
        let [row, column] = tiles.place(tile.number());
        [
            (row * SIDE + cta_row) * BM,
            (column * SIDE + cta_column) * BN,
        ]
    };
    let steps = steps_along(k, BK);
    cluster_barrier_relaxed();

    let multiply = |group: usize| {
        let rows = group * ROWS..(group + 1) * ROWS;
        let (mut at, mut turn) = (pipeline.start(), epilogue.start());
        let mut tile = drawn.start();
        while tile.number() < drawn.count() {
            let sums = Wgmma::new([4, 1], [64, BN, 16]);
            let acc = Accumulator::zeros([ROWS, BN], sums);
            let acc = pipeline.multiply(&mut at, range(0, steps), acc, rows.clone());
            turn = epilogue.fill(group, turn, acc.wait_all().cast::<T>()); // mutate: equivalent(bar.sync): the buffer is ready when the results of all warps that were in it have been stored
            tile = drawn.receive(tile);
        }
    };
    let store = |group: usize| {
        let mut turn = epilogue.start();
        let mut tile = drawn.start();
        while tile.number() < drawn.count() {
            let [row, column] = place(&tile);
            turn = epilogue.store(group, turn, c, [row + group * ROWS, column]); // mutate: equivalent(bar.warp.sync): only the first lane stores, waits for the reads of its stores and arrives
            tile = drawn.receive(tile);
        }
    };
    let copy = || {
        // Shares of a tile lie one behind the other.
        let (a_tiles, b_tiles) = pipeline.payload();
        let a_shares = a_tiles.reinterpret::<T>([STAGES * SIDE, share(BM), BK], a.layout());
        let b_shares = b_tiles.reinterpret::<T>([STAGES * SIDE, HALF, BK], b.layout());
        // Ranks of this row are neighbours, and those of this column are `SIDE` apart.
        let of_row = scalar(0b11) << (cta_row * SIDE);
        let of_column = scalar(0b101) << cta_column;
        let mut at = pipeline.start();
        let mut tile = drawn.start();
        while tile.number() < drawn.count() {
            let next = drawn.draw();
            let [row, column] = place(&tile);
            for step in range(0, steps) {
                let stage = pipeline.producer_acquire(at);
                let first = stage.index() * SIDE;
                let to_row = a.copy().multicast(of_row);
                let from = [row + cta_column * share(BM), step * BK];
                to_row.load(from, a_shares.index(first + cta_column), stage.full);
                let to_column = b.copy().multicast(of_column);
                let from = [column + cta_row * HALF, step * BK];
                to_column.load(from, b_shares.index(first + cta_row), stage.full);
                at = pipeline.commit(stage).advance();
            }
            tile = drawn.send(tile, next);
        }
        pipeline.producer_tail(at); // mutate: equivalent(mbarrier.wait): warps release stages in their order, so that the wait for the last stage suffices here
        drawn.end(tile);
    };
    warp_specialize() // mutate: equivalent(bar.sync): a barrier of the cluster stands in front
        .registers(232)
        .main(|| multiply(0))
        .workers(1..GROUPS, Warps(4).registers(232), multiply)
        .worker(Warps(1).registers(40), copy)
        .workers(0..GROUPS, Warps(1).registers(40), store)
        .run();
}

fn matmul(case: &mut Case, most_clusters: usize) -> CaseResult {
    let counter = case.output::<i32>("counter", [1]);
    product::<bf16>(case, |case, p: &Product<bf16>| {
        // Beside peers too: what a contestant writes is poisoned before it runs.
        case.launch(clear_counter, 1, (&counter,))?;
        let (a, b, c) = (p.a_map(), p.b_map(), p.c_map());
        let arguments = (a, b, c, &counter, p.m(), p.n(), p.k());
        let clusters = p.tiles([SIDE * BM, SIDE * 256]).min(most_clusters);
        let kernel = matmul_cluster_grid::<bf16, 256, 128, 64, 4>;
        case.launch(kernel, clusters * CTAS, arguments)
    })?;
    case.expect(&counter, |[_]| 0_i64, Exactly)
}

/// As many clusters as an H200 has room for.
#[case(sizes(m = [512, 200], n = [1024, 264], k = [256, 72]))]
fn matmul_cluster_grid_bf16(case: &mut Case) -> CaseResult {
    matmul(case, 32)
}

/// Two clusters draw what tiles there are.
#[case(sizes(m = [700, 1, 1], n = [1032, 8, 28_160], k = [136, 1, 8]))]
fn matmul_cluster_grid_by_two(case: &mut Case) -> CaseResult {
    matmul(case, 2)
}
