//! The product of [`matmul_warp_specialized`](crate::products::matmul_warp_specialized) by
//! pairs of CTAs: tiles one above the other need the same columns of B, so each CTA loads half of them and multicasts it to
//! both.

use tilekit::prelude::*;

use crate::products::product::{Product, product};

/// CTAs of a cluster.
const CTAS: usize = 2;

/// Consumer warpgroups of each, and the rows of each: those of one instruction.
const GROUPS: usize = 2;
const ROWS: usize = 64;
const BM: usize = GROUPS * ROWS;

/// A tile of `[CTAS · BM, BN]` of `C[M, N] = A[M, K] · B[N, K]ᵀ` at a time and cluster; `HALF` is `BN / CTAS`.
#[kernel(warps = 4, min_ctas_per_sm = 1, cluster = CTAS, instances(<bf16, 256, 128, 64, 4>))]
pub fn matmul_cluster<
    T: Float + WgmmaOperand<T, f32>,
    const BN: usize,
    const HALF: usize,
    const BK: usize,
    const STAGES: usize,
>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([HALF, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([ROWS, BN], Nvmma::B128)] c: TensorMap<T>,
    m: i32,
    n: i32,
    k: i32,
) {
    static_assert!(HALF * CTAS == BN, "each CTA reads its share of the columns");
    // The consumers of both CTAs release a stage: a multicast load writes both.
    let tiles = (
        Smem::alloc([STAGES, BM, BK], a.layout()),
        Smem::alloc([STAGES, BN, BK], b.layout()),
    );
    let consumers = Consumers::warpgroups(GROUPS).of_ctas(CTAS);
    let pipeline = Pipeline::new(tiles, Producers::Tma, consumers);
    let epilogue = EpilogueStore::alloc(c, Turns::of_warpgroups(GROUPS).with_buffers(1));
    let rank = cluster_rank();
    let tiles = GroupedRows::new([m, n], [CTAS * BM, BN], 8);
    let steps = steps_along(k, BK);
    cluster_barrier_relaxed();

    let multiply = |group: usize| {
        let rows = group * ROWS..(group + 1) * ROWS;
        let (mut at, mut turn) = (pipeline.start(), epilogue.start());
        for _ in tiles.of_cluster(CTAS) {
            let sums = Wgmma::new([4, 1], [64, BN, 16]);
            let acc = Accumulator::zeros([ROWS, BN], sums);
            let acc = pipeline.multiply(&mut at, range(0, steps), acc, rows.clone());
            turn = epilogue.fill(group, turn, acc.wait_all().cast::<T>()); // mutate: equivalent(bar.sync): the buffer is ready when the results of all warps that were in it have been stored
        }
    };
    let store = |group: usize| {
        let mut turn = epilogue.start();
        for tile in tiles.of_cluster(CTAS) {
            let [row, column] = tiles.place(tile);
            let row = (row * CTAS + rank) * BM + group * ROWS;
            turn = epilogue.store(group, turn, c, [row, column * BN]);
        }
    };
    let copy = || {
        let shares = [STAGES * CTAS, HALF, BK];
        let (_, b_tiles) = pipeline.payload();
        let shares = b_tiles.reinterpret::<T>(shares, b.layout());
        let mut at = pipeline.start();
        for tile in tiles.of_cluster(CTAS) {
            let [row, column] = tiles.place(tile);
            for step in range(0, steps) {
                let stage = pipeline.producer_acquire(at);
                let (a_tile, _) = stage.tiles;
                let row = (row * CTAS + rank) * BM;
                a.load([row, step * BK], a_tile, stage.full);
                let share = shares.index(stage.index() * CTAS + rank);
                let to_both = b.copy().multicast((1 << CTAS) - 1);
                let column = column * BN + rank * HALF;
                to_both.load([column, step * BK], share, stage.full);
                at = pipeline.commit(stage).advance();
            }
        }
        pipeline.producer_tail(at); // mutate: equivalent(mbarrier.wait): warps release stages in their order, so that the wait for the last stage suffices here
    };
    warp_specialize() // mutate: equivalent(bar.sync): a barrier of the cluster stands in front
        .registers(232)
        .main(|| multiply(0))
        .workers(1..GROUPS, Warps(4).registers(232), multiply)
        .worker(Warps(1).registers(40), copy)
        .workers(0..GROUPS, Warps(1).registers(40), store)
        .run();
}

#[case(sizes(m = [512, 200, 128, 1], n = [512, 264, 256, 76_800], k = [256, 72, 712, 8]))]
fn matmul_cluster_bf16(case: &mut Case) -> CaseResult {
    product::<bf16>(case, |case, p: &Product<bf16>| {
        let kernel = matmul_cluster::<bf16, 256, 128, 64, 4>;
        let clusters = p.tiles([CTAS * BM, 256]).min(64);
        case.launch(kernel, clusters * CTAS, p.maps())
    })
}
