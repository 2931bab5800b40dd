//! `C = A · Bᵀ` by two warpgroups that take turns at the tensor cores: while one multiplies a tile of its own, the other
//! converts and stores the tile that it had before. Named barriers order the turns. A producer warp issues TMA loads into
//! the ring that feeds both, one tile after the other.

use tilekit::prelude::*;

use crate::products::product::{Product, product};

/// The tile of one warpgroup.
const BM: usize = 128;
const BN: usize = 128;
const BK: usize = 64;
const STAGES: usize = 4;
const GROUPS: usize = 2;

/// Tiles of `C[M, N] = A[M, K] · B[N, K]ᵀ`, of which each program has every so many, and each warpgroup every other one.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn matmul_ping_pong<T: Float + WgmmaOperand<T, f32>>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([BM, BN], Nvmma::B128)] c: TensorMap<T>,
    m: i32,
    n: i32,
    k: i32,
) {
    // Each stage is read by one of the warpgroups.
    let pipeline = Pipeline::tma((a, b), STAGES, Consumers::warpgroups(1));
    let staging = Smem::<T>::alloc([GROUPS, BM, BN], c.layout());
    let tiles = GroupedRows::new([m, n], [BM, BN], 16);
    let (steps, all) = (cdiv(k, BK), tiles.count());
    let turns = NamedTurns::<GROUPS>::new(128);

    let multiply = |group: usize| {
        let staging = staging.index(group);
        turns.begin(group);
        let mut position = steps * group;
        let own = range(program_id(0) + num_programs(0) * group, all);
        for tile in own.step(num_programs(0) * GROUPS) {
            let sums = Wgmma::new([4, 1], [64, BN, 16]);
            let mut acc = Accumulator::zeros([BM, BN], sums);
            let mut at = pipeline.of_fill(position);
            let mut before = pipeline.nothing_held(&at);
            turns.wait(group);
            for step in range(0, steps) {
                let stage = pipeline.consumer_wait(at);
                let (a, b) = stage.tiles;
                acc = acc.mma(a, b.transpose()).wait(1);
                // With one product in flight the one before is done.
                pipeline.consumer_release_when(step > 0, before);
                before = stage.hold();
                at = before.next();
            }
            if tile + num_programs(0) < all {
                turns.pass(group);
            }
            let sums = acc.wait_all();
            pipeline.consumer_release(before);
            tma_store_wait_read(0);
            staging.store(sums.cast::<T>());
            let [row, column] = tiles.place(tile);
            c.store([row * BM, column * BN], staging);
            position += steps * GROUPS;
        }
        tma_store_wait_read(0);
    };
    let copy = || pipeline.load_tiles(tiles, steps, (a, b));
    warp_specialize()
        .registers(240)
        .main(|| multiply(0))
        .workers(1..GROUPS, Warps(4).registers(240), multiply)
        .worker(Warps(1).registers(24), copy)
        .run();
}

fn matmul<T: Float + WgmmaOperand<T, f32> + DeviceElement>(case: &mut Case) -> CaseResult {
    product::<T>(case, |case, p: &Product<T>| {
        // Fewer programs than tiles, at small sizes too, so that both warpgroups have some.
        let programs = p.tiles([BM, BN]).div_ceil(3).min(128);
        case.launch(matmul_ping_pong::<T>, programs, p.maps())
    })
}

#[case(sizes(m = [256, 200, 1, 128, 1], n = [512, 264, 1, 256, 76_800], k = [256, 72, 1, 712, 8]))]
fn matmul_ping_pong_bf16(case: &mut Case) -> CaseResult {
    matmul::<bf16>(case)
}

#[case(sizes(m = [384, 128, 1], n = [256, 256, 76_800], k = [328, 712, 8]))]
fn matmul_ping_pong_f16(case: &mut Case) -> CaseResult {
    matmul::<f16>(case)
}
