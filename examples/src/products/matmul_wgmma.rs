//! The fourth step on the path to a fast product: the tensor cores multiply what TMA has copied, straight from shared memory
//! (`wgmma`). There is one block of each operand, so that copies and products take turns.

use tilekit::prelude::*;

use crate::products::product::{Product, product};

/// A tile of `[BM, BN]` of `C[M, N] = A[M, K] · B[N, K]ᵀ` per program, in steps of `BK`.
#[kernel(warps = 4, instances(<bf16, 128, 128, 64>))]
pub fn matmul_wgmma<
    T: Float + WgmmaOperand<T, f32>,
    const BM: usize,
    const BN: usize,
    const BK: usize,
>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([BM, BN], Nvmma::B128)] c: TensorMap<T>,
    k: i32,
) {
    let (row, column) = (program_id(0) * BM, program_id(1) * BN);
    let x = Smem::<T>::alloc(a.block(), a.layout());
    let y = Smem::<T>::alloc(b.block(), b.layout());
    let full = Mbarrier::alloc(1);

    let mut acc = Accumulator::zeros([BM, BN], Wgmma::new([4, 1], [64, BN, 16]));
    // mutate: equivalent(bar.sync): one in the loop stands before each wait
    for step in range(0, cdiv(k, BK)) {
        full.expect(a.block_bytes() + b.block_bytes());
        a.load([row, step * BK], x, full);
        b.load([column, step * BK], y, full);
        full.wait(step % 2);
        // The next copies overwrite both blocks.
        acc = acc.mma(x, y.transpose()).wait(0);
    }
    let staging = Smem::alloc_with(acc.wait_all().cast::<T>(), c.layout());
    c.store([row, column], staging);
    tma_store_wait(0);
}

#[case(sizes(m = [128, 1, 136], n = [128, 1, 264], k = [256, 1, 200]))]
fn matmul_wgmma_bf16(case: &mut Case) -> CaseResult {
    product::<bf16>(case, |case, p: &Product<bf16>| {
        let tiles = p.grid([128, 128]);
        let arguments = (p.a_map(), p.b_map(), p.c_map(), p.k());
        case.launch(matmul_wgmma::<bf16, 128, 128, 64>, tiles, arguments)
    })
}
