//! The product of [`matmul_warp_specialized`](crate::products::matmul_warp_specialized) by
//! pairs of CTAs: tiles one above the other need the same columns of B, so each CTA loads half of them and multicasts it to
//! both.

use tilekit::prelude::*;

use crate::products::order::{Grouped, Order};
use crate::products::pipeline::{Outbox, Ring, Stage, Stages, Turns, steps_along};
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
    T: Float + Factor<T, f32>,
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
    // A stage is empty when the warps of both CTAs have released it: a multicast load writes both.
    let ring = Ring::alloc(
        [BM, BN, BK],
        Stages {
            stages: STAGES,
            releases: CTAS * 4 * GROUPS,
        },
    );
    let outbox = Outbox::alloc(
        c,
        Turns {
            places: 1,
            groups: GROUPS,
            warps: 4,
        },
    );
    let rank = cluster_rank();
    let tiles = Grouped::new([m, n], [CTAS * BM, BN], 8);
    let steps = steps_along(k, BK);
    cluster_barrier_relaxed();

    let multiply = |group: usize| {
        let rows = group * ROWS..(group + 1) * ROWS;
        let (mut stage, mut round) = (Stage::first(), scalar(0));
        for _ in tiles.of_cluster(CTAS) {
            let sums = Wgmma::new([4, 1], [64, BN, 16]);
            let mut acc = Accumulator::zeros([ROWS, BN], sums);
            for _ in range(0, steps) {
                ring.full.index(stage.index).wait(stage.phase);
                let a = ring.a.index(stage.index).slice(0, rows.clone());
                let b = ring.b.index(stage.index).transpose();
                acc = acc.mma(a, b).wait(0);
                for cta in 0..CTAS {
                    let done = ring.empty.index(stage.index).arrival();
                    done.by(Arrivers::Warp).in_cta(cta).arrive();
                }
                stage = stage.next(STAGES);
            }
            outbox.fill(group, round, acc.wait_all().cast::<T>());
            round ^= 1;
        }
    };
    let store = |group: usize| {
        let mut round = scalar(0);
        for tile in tiles.of_cluster(CTAS) {
            let [row, column] = tiles.place(tile);
            let row = (row * CTAS + rank) * BM + group * ROWS;
            outbox.store(group, round, c, [row, column * BN]);
            round ^= 1;
        }
    };
    let copy = || {
        let shares = [STAGES * CTAS, HALF, BK];
        let shares = ring.b.reinterpret::<T>(shares, b.layout());
        let mut stage = Stage::first();
        for tile in tiles.of_cluster(CTAS) {
            let [row, column] = tiles.place(tile);
            for step in range(0, steps) {
                ring.empty.index(stage.index).wait(stage.phase ^ 1);
                let full = ring.full.index(stage.index);
                full.expect(a.block_bytes() + CTAS * b.block_bytes());
                let row = (row * CTAS + rank) * BM;
                a.load([row, step * BK], ring.a.index(stage.index), full);
                let share = shares.index(stage.index * CTAS + rank);
                let to_both = b.copy().multicast((1 << CTAS) - 1);
                to_both.load([column * BN + rank * HALF, step * BK], share, full);
                stage = stage.next(STAGES);
            }
        }
        // A CTA must not exit while the other still arrives at its mbarriers: it waits for the last releases.
        for _ in 0..STAGES {
            ring.empty.index(stage.index).wait(stage.phase ^ 1);
            stage = stage.next(STAGES);
        }
    };
    warp_specialize()
        .registers(232)
        .main(|| multiply(0))
        .worker(Warps(4).registers(232), || multiply(1))
        .worker(Warps(1).registers(40), copy)
        .worker(Warps(1).registers(40), || store(0))
        .worker(Warps(1).registers(40), || store(1))
        .run();
}

#[case(sizes(m = [512, 200], n = [512, 264], k = [256, 72]))]
fn matmul_cluster_bf16(case: &mut Case) -> CaseResult {
    product::<bf16>(case, |case, p: &Product<bf16>| {
        let kernel = matmul_cluster::<bf16, 256, 128, 64, 4>;
        let arguments = (p.a_map(), p.b_map(), p.c_map(), p.m(), p.n(), p.k());
        let clusters = p.tiles([CTAS * BM, 256]).min(64);
        case.launch(kernel, clusters * CTAS, arguments)
    })
}
