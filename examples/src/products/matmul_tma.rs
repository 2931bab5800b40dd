//! The third step on the path to a fast product: TMA copies the blocks of `matmul_tiled` into shared memory, issued by one
//! thread. No thread computes addresses or masks, and edges need no code.

use tilekit::prelude::*;

use crate::products::product::{Product, product};

/// A tile of `[BM, BN]` of `C[M, N] = A[M, K] · B[N, K]ᵀ` per program, in steps of `BK`.
#[kernel(warps = 8, instances(<bf16, 128, 128, 16>), signature(
    a: [m, k],
    b: [n, k],
    c: [m, n],
    grid = [cdiv(m, BM), cdiv(n, BN)],
))]
pub fn matmul_tma<
    T: Float + FmaOperand<T, f32>,
    const BM: usize,
    const BN: usize,
    const BK: usize,
>(
    #[block([BM, BK], Nvmma::B32)] a: TensorMap<T>,
    #[block([BN, BK], Nvmma::B32)] b: TensorMap<T>,
    #[block([BM, BN], Nvmma::B128)] c: TensorMap<T>,
    k: i32,
) {
    let (row, column) = (program_id(0) * BM, program_id(1) * BN);
    let x = Smem::<T>::alloc(a.block(), a.layout());
    let y = Smem::<T>::alloc(b.block(), b.layout());
    let full = Mbarrier::alloc(1);
    let sums = Blocked::new([1, 1], [4, 8], [4, 2], [1, 0]);
    let (left, right) = (
        DotOperand::new(0, sums.clone(), 0),
        DotOperand::new(1, sums.clone(), 0),
    );

    let mut acc = zeros::<f32>([BM, BN], sums);
    // mutate: equivalent(bar.sync): one in the loop stands before each wait
    for step in range(0, cdiv(k, BK)) {
        full.expect(a.block_bytes() + b.block_bytes());
        a.load([row, step * BK], x, full);
        b.load([column, step * BK], y, full);
        full.wait(step % 2);
        acc = dot_fma(x.load(left.clone()), y.transpose().load(right.clone()), acc);
    }
    let staging = Smem::alloc_with(acc.cast::<T>(), c.layout());
    c.store([row, column], staging);
    tma_store_wait(0);
}

#[case(sizes(m = [128, 1, 136], n = [128, 1, 72], k = [64, 1, 44]))]
fn matmul_tma_bf16(case: &mut Case) -> CaseResult {
    product::<bf16>(case, |case, p: &Product<bf16>| {
        let tiles = p.grid([128, 128]);
        let arguments = (p.a_map(), p.b_map(), p.c_map(), p.k());
        case.launch(matmul_tma::<bf16, 128, 128, 16>, tiles, arguments)
    })
}
