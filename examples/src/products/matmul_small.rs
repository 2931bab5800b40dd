//! `C = A · Bᵀ` of sizes that fill the GPU about once: a tile a program, and nothing that pays off only over many tiles.
//! Launches overlap: mbarriers are initialized and tensor maps prefetched while the launch before still runs. Stages that have
//! been read hold the result, so that the ring is as deep as shared memory allows.

use tilekit::prelude::*;

use crate::products::product::{Product, product};

/// Rows of a warpgroup that multiplies, those of one instruction, and the depth of a stage. A stage of B then has the bytes
/// of what a warpgroup stores.
const ROWS: usize = 64;
const BK: usize = 64;

/// The tile of `[GROUPS * ROWS, BN]` of `C[M, N] = A[M, K] · B[N, K]ᵀ` at this program's row and column of tiles.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(<bf16, 1, 128, 8>, <f16, 1, 128, 8>, <bf16, 2, 64, 8>, <bf16, 2, 256, 4>))]
pub fn matmul_small<
    T: Float + WgmmaOperand<T, f32>,
    const GROUPS: usize,
    const BN: usize,
    const STAGES: usize,
>(
    #[block([GROUPS * ROWS, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([ROWS, BN], Nvmma::B128)] c: TensorMap<T>,
    k: i32,
) {
    launch_dependents();
    let pipeline = Pipeline::tma((a, b), STAGES, Consumers::warpgroups(GROUPS));
    let place = [program_id(0), program_id(1)];
    let [row, column] = [place[0] * (GROUPS * ROWS), place[1] * BN];
    let steps = steps_along(k, BK);
    // A warpgroup that is alone keeps the tensor cores busy only if a product runs while it starts the next.
    let pending = if GROUPS == 1 { 1 } else { 0 };

    let multiply = |group: usize| {
        let first = group * ROWS;
        let mut at = pipeline.start();
        let mut before = pipeline.nothing_held(&at);
        let sums = Wgmma::new([4, 1], [64, BN, 16]);
        let mut acc = Accumulator::zeros([ROWS, BN], sums);
        for step in range(0, steps) {
            let stage = pipeline.consumer_wait(at);
            let (a, b) = stage.tiles;
            let a = a.slice(0, first..first + ROWS);
            acc = acc.mma(a, b.transpose()).wait(pending);
            let held = stage.hold();
            at = held.next();
            let done = if pending == 0 {
                held
            } else {
                std::mem::replace(&mut before, held)
            };
            pipeline.consumer_release_when(step >= pending, done);
        }
        let result = acc.wait_all().cast::<T>();
        // The oldest stages are the first that all warpgroups have released: one for the result of each.
        let (_, b_tile) = pipeline.wait_released(&at.skip(group));
        let staging = b_tile.reinterpret::<T>(c.block(), c.layout());
        staging.store(result); // mutate: equivalent(bar.sync): each warp has waited until all warps released the stage
        c.store([row + first, column], staging);
        tma_store_wait_read(0);
    };
    let copy = || {
        launch_wait();
        pipeline.load_operands(&mut pipeline.start(), range(0, steps), (a, b), place);
    };
    // The TMA loads come first in the code too: all warps wait for them, and the first instructions miss the instruction cache.
    warp_specialize()
        .main(copy)
        .workers(0..GROUPS, Warps(4), multiply)
        .run();
}

fn matmul<T, const GROUPS: usize, const BN: usize, const STAGES: usize>(
    case: &mut Case,
) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + DeviceElement,
{
    let (m, n) = (case.size("m"), case.size("n"));
    let programs = [m.div_ceil(GROUPS * ROWS), n.div_ceil(BN)];
    product::<T>(case, |case, p: &Product<T>| {
        let arguments = (p.a_map(), p.b_map(), p.c_map(), p.k());
        case.launch_programmatic(matmul_small::<T, GROUPS, BN, STAGES>, programs, arguments)
    })
}

#[case(sizes(m = [128, 100, 128], n = [256, 200, 256], k = [1024, 72, 712]))]
fn matmul_small_bf16(case: &mut Case) -> CaseResult {
    matmul::<bf16, 1, 128, 8>(case)
}

#[case(sizes(m = [128, 1, 128], n = [256, 1, 256], k = [576, 1, 712]))]
fn matmul_small_f16(case: &mut Case) -> CaseResult {
    matmul::<f16, 1, 128, 8>(case)
}

#[case(sizes(m = [256, 136, 128], n = [128, 72, 256], k = [1024, 200, 712]))]
fn matmul_small_tall(case: &mut Case) -> CaseResult {
    matmul::<bf16, 2, 64, 8>(case)
}

#[case(sizes(m = [256, 200, 128], n = [512, 264, 256], k = [512, 328, 712]))]
fn matmul_small_large(case: &mut Case) -> CaseResult {
    matmul::<bf16, 2, 256, 4>(case)
}
