//! `C = A · Bᵀ` with all warps doing the same: the copies of later stages are started before each product, and run while
//! the tensor cores work.

use tilekit::prelude::*;

use crate::products::product::{Product, product};

/// One tile of `[BM, BN]` of `C[M, N] = A[M, K] · B[N, K]ᵀ` per program.
#[kernel(warps = 4, instances(<bf16, 128, 128, 64, 4>, <f16, 64, 256, 64, 3>))]
pub fn matmul_pipelined<
    T: Float + WgmmaOperand<T, f32>,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([BM, BN], Nvmma::B128)] c: TensorMap<T>,
    k: i32,
) {
    let pipeline = LoadAhead::tma((a, b), STAGES);
    let (row, column) = (program_id(0) * BM, program_id(1) * BN);
    let steps = cdiv(k, BK);
    let fill = |step: Scalar<i32>, index: Scalar<i32>| {
        let stage = pipeline.load_when(step < steps, index);
        let (a_tile, b_tile) = stage.tiles;
        stage.load(a, [row, step * BK], a_tile);
        stage.load(b, [column, step * BK], b_tile);
    };
    for step in 0..STAGES - 1 {
        fill(Scalar::of(step), Scalar::of(step));
    }

    let mut acc = Accumulator::zeros([BM, BN], Wgmma::new([4, 1], [64, BN, 16]));
    let mut at = pipeline.start();
    let mut free = Scalar::of(STAGES - 1);
    for step in range(0, steps) {
        let stage = pipeline.wait(at);
        let (a, b) = stage.tiles;
        // With one product in flight the one before is done, and its stage may be filled again.
        acc = acc.mma(a, b.transpose()).wait(1);
        fill(step + (STAGES - 1), free);
        free = stage.index();
        at = stage.advance();
    }
    let staging = Smem::alloc_with(acc.wait_all().cast::<T>(), c.layout());
    c.store([row, column], staging);
    tma_store_wait(0);
}

fn matmul<
    T: Float + WgmmaOperand<T, f32> + DeviceElement,
    const BM: usize,
    const BN: usize,
    const STAGES: usize,
>(
    case: &mut Case,
) -> CaseResult {
    product::<T>(case, |case, p: &Product<T>| {
        let tiles = p.grid([BM, BN]);
        let arguments = (p.a_map(), p.b_map(), p.c_map(), p.k());
        case.launch(matmul_pipelined::<T, BM, BN, 64, STAGES>, tiles, arguments)
    })
}

#[case(sizes(m = [256, 1, 136, 128], n = [128, 1, 264, 256], k = [512, 1, 200, 712]))]
fn matmul_pipelined_bf16(case: &mut Case) -> CaseResult {
    matmul::<bf16, 128, 128, 4>(case)
}

/// Tiles of 192 columns: an instruction has any multiple of 8, and three boxes of 64 columns leave no hole.
#[case(sizes(m = [128, 100, 128], n = [384, 200, 256], k = [192, 72, 712]))]
fn matmul_pipelined_of_192_columns(case: &mut Case) -> CaseResult {
    matmul::<bf16, 128, 192, 4>(case)
}

#[case(sizes(m = [64, 100, 128], n = [512, 72, 256], k = [128, 72, 712]))]
fn matmul_pipelined_f16(case: &mut Case) -> CaseResult {
    matmul::<f16, 64, 256, 3>(case)
}
