//! `C = A · Bᵀ` by two warpgroups that take turns at the tensor cores: while one multiplies a tile of its own, the other
//! converts and stores the tile that it had before. Named barriers order the turns. A producer warp issues TMA loads into
//! the ring that feeds both, one tile after the other.

use tilekit::prelude::*;

use crate::products::order::{Grouped, Order};
use crate::products::pipeline::{Ring, Stage, Stages};
use crate::products::product::{Product, product};

/// The tile of one warpgroup.
const BM: usize = 128;
const BN: usize = 128;
const BK: usize = 64;
const STAGES: usize = 4;
const GROUPS: usize = 2;

/// Tiles of `C[M, N] = A[M, K] · B[N, K]ᵀ`, of which each program has every so many, and each warpgroup every other one.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn matmul_ping_pong<T: Float + Factor<T, f32>>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([BM, BN], Nvmma::B128)] c: TensorMap<T>,
    m: i32,
    n: i32,
    k: i32,
) {
    let ring = Ring::alloc(
        [BM, BN, BK],
        Stages {
            stages: STAGES,
            releases: 4,
        },
    );
    let staging = Smem::<T>::alloc([GROUPS, BM, BN], c.layout());
    let tiles = Grouped::new([m, n], [BM, BN], 16);
    let (steps, all) = (cdiv(k, BK), tiles.count());
    // A warpgroup waits at its own named barrier for its turn; the other warpgroup arrives there.
    let turns = [(); GROUPS].map(|()| NamedBarrier::new(GROUPS * 128));

    let multiply = |group: usize| {
        let (staging, other) = (staging.index(group), turns[1 - group]);
        if group == 1 {
            other.arrive();
        }
        let mut position = steps * group;
        let own = range(program_id(0) + num_programs(0) * group, all);
        for tile in own.step(num_programs(0) * GROUPS) {
            let sums = Wgmma::new([4, 1], [64, BN, 16]);
            let mut acc = Accumulator::zeros([BM, BN], sums);
            let mut stage = stage_at(position);
            let mut before = stage;
            turns[group].sync();
            for step in range(0, steps) {
                ring.full.index(stage.index).wait(stage.phase);
                let (a, b) = (ring.a.index(stage.index), ring.b.index(stage.index));
                acc = acc.mma(a, b.transpose()).wait(1);
                // With one product in flight the one before is done.
                release(ring, before, step > 0);
                before = stage;
                stage = stage.next(STAGES);
            }
            if tile + num_programs(0) < all {
                other.arrive();
            }
            let sums = acc.wait_all();
            release(ring, before, scalar(true));
            tma_store_wait_read(0);
            staging.store(sums.cast::<T>());
            let [row, column] = tiles.place(tile);
            c.store([row * BM, column * BN], staging);
            position += steps * GROUPS;
        }
        tma_store_wait_read(0);
    };
    let copy = || {
        let mut stage = Stage::first();
        for tile in tiles.of_program() {
            let [row, column] = tiles.place(tile);
            for step in range(0, steps) {
                ring.fill(stage, [a, b], [row, column, step]);
                stage = stage.next(STAGES);
            }
        }
    };
    warp_specialize()
        .registers(240)
        .main(|| multiply(0))
        .worker(Warps(4).registers(240), || multiply(1))
        .worker(Warps(1).registers(24), copy)
        .run();
}

/// The stage of step `position`, counted over all tiles of the program.
#[device]
fn stage_at(position: Scalar<i32>) -> Stage {
    Stage {
        index: position % STAGES,
        phase: position / STAGES % 2,
    }
}

/// Releases a stage that the warps of this group have read.
#[device]
fn release<T: Element>(ring: Ring<T>, stage: Stage, is_done: Scalar<bool>) {
    let arrival = ring.empty.index(stage.index).arrival();
    arrival.by(Arrivers::Warp).when(is_done).arrive();
}

fn matmul<T: Float + Factor<T, f32> + DeviceElement>(case: &mut Case) -> CaseResult {
    product::<T>(case, |case, p: &Product<T>| {
        let arguments = (p.a_map(), p.b_map(), p.c_map(), p.m(), p.n(), p.k());
        // Fewer programs than tiles, at small sizes too, so that both warpgroups have some.
        let programs = p.tiles([BM, BN]).div_ceil(3).min(128);
        case.launch(matmul_ping_pong::<T>, programs, arguments)
    })
}

#[case(sizes(m = [256, 200, 1], n = [512, 264, 1], k = [256, 72, 1]))]
fn matmul_ping_pong_bf16(case: &mut Case) -> CaseResult {
    matmul::<bf16>(case)
}

#[case(sizes(m = [384], n = [256], k = [328]))]
fn matmul_ping_pong_f16(case: &mut Case) -> CaseResult {
    matmul::<f16>(case)
}
