//! The product of [`matmul_pipelined`](crate::products::matmul_pipelined) by as many programs as
//! there are SMs, each with one tile after the other. The first copies of the next tile are started before the last one is stored.

use tilekit::prelude::*;

use crate::products::product::{Product, product};

/// Tiles of `[BM, BN]` of `C[M, N] = A[M, K] · B[N, K]ᵀ`.
#[kernel(warps = 8, instances(<bf16, 128, 256, 64, 3>))]
pub fn matmul_persistent<
    T: Float + WgmmaOperand<T, f32>,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([BM, BN], Nvmma::B128)] c: TensorMap<T>,
    m: i32,
    n: i32,
    k: i32,
) {
    let pipeline = LoadAhead::tma((a, b), STAGES);
    let staging = Smem::<T>::alloc(c.block(), c.layout());
    let tiles = GroupedRows::new([m, n], [BM, BN], 16);
    let (steps, all) = (steps_along(k, BK), tiles.count());
    // Starts the copies of step `step` of a tile, unless there is no such tile or step.
    let fill = |tile: Scalar<i32>, step: Scalar<i32>, index: Scalar<i32>| {
        let is_inside = (tile < all) & (step < steps);
        // There is no place beyond the last tile: a group without rows would be divided by.
        let [row, column] = tiles.place(minimum(tile, all - 1));
        let stage = pipeline.load_when(is_inside, index);
        let (a_tile, b_tile) = stage.tiles;
        stage.load(a, [row * BM, step * BK], a_tile);
        stage.load(b, [column * BN, step * BK], b_tile);
    };
    // A tile with fewer steps than the ring has stages does not use the later stages.
    let ahead = minimum(steps, STAGES - 1);
    for step in range(0, ahead) {
        fill(program_id(0), step, step);
    }

    let mut at = pipeline.start();
    for tile in tiles.of_program() {
        let mut acc = Accumulator::zeros([BM, BN], Wgmma::new([8, 1], [64, BN, 16]));
        for step in range(0, steps) {
            let stage = pipeline.wait(at);
            let (a, b) = stage.tiles;
            acc = acc.mma(a, b.transpose()).wait(1);
            // The stage before this one is free: the next step that is missing is loaded there.
            fill(tile, step + ahead, (stage.index() + ahead) % STAGES);
            at = stage.advance();
        }
        let sums = acc.wait_all();
        for step in range(0, ahead) {
            fill(tile + num_programs(0), step, (at.index() + step) % STAGES);
        }
        let [row, column] = tiles.place(tile);
        tma_store_wait_read(0);
        staging.store(sums.cast::<T>());
        c.store([row * BM, column * BN], staging);
    }
    tma_store_wait_read(0);
}

#[case(sizes(m = [256, 200, 128, 1], n = [512, 264, 256, 76_800], k = [256, 72, 712, 8]))]
fn matmul_persistent_bf16(case: &mut Case) -> CaseResult {
    product::<bf16>(case, |case, p: &Product<bf16>| {
        // Fewer programs than tiles, at small sizes too, so that each takes several.
        let programs = p.tiles([128, 256]).div_ceil(2).min(128);
        case.launch(
            matmul_persistent::<bf16, 128, 256, 64, 3>,
            programs,
            p.maps(),
        )
    })
}
