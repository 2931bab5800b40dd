//! The second step on the path to a fast product: a program loads blocks of both operands into shared memory once, from where
//! its threads take them many times, each for 8 by 8 sums in registers. The FMA cores still do the arithmetic.

use tilekit::prelude::*;

use crate::products::product::{Product, product};

/// A tile of `[BM, BN]` of `C[M, N] = A[M, K] · B[N, K]ᵀ` per program, in steps of `BK`.
#[kernel(warps = 8, instances(<bf16, 128, 128, 16>))]
pub fn matmul_tiled<
    T: Float + FmaOperand<T, f32>,
    const BM: usize,
    const BN: usize,
    const BK: usize,
>(
    a: Ptr<T>,
    b: Ptr<T>,
    c: Ptr<T>,
    m: i32,
    n: i32,
    k: i32,
    #[multiple_of(8)] factor_stride: i32,
    #[multiple_of(8)] output_stride: i32,
) {
    let (first_row, first_column) = (program_id(0) * BM, program_id(1) * BN);
    // The block of `x` from row `first` and column `at_k` on, whose rows end at `k`, as it lies in global memory.
    let loaded = Blocked::new([1, 8], [16, 2], [8, 1], [1, 0]);
    let block =
        |x: Ptr<T>, first: Scalar<i32>, rows: Scalar<i32>, size: usize, at_k: Scalar<i32>| {
            let row = first + arange(0..size, Slice::new(1, loaded.clone())).expand_dims(1);
            let at_k = at_k + arange(0..BK, Slice::new(0, loaded.clone())).expand_dims(0);
            let inside = (row < rows) & (at_k < k);
            x.at(row * factor_stride + at_k)
                .mask(inside)
                .other(0.0)
                .load()
        };
    // Neighbouring threads have neighbouring rows and columns, which lie in different banks.
    let sums = Blocked::new([1, 1], [4, 8], [4, 2], [1, 0]);
    let (left, right) = (
        DotOperand::new(0, sums.clone(), 0),
        DotOperand::new(1, sums.clone(), 0),
    );
    let swizzle = Swizzled::new(8, 4, 2, [1, 0]);
    let x = Smem::<T>::alloc([BM, BK], swizzle.clone());
    let y = Smem::<T>::alloc([BN, BK], swizzle);

    let mut acc = zeros::<f32>([BM, BN], sums);
    for step in range(0, cdiv(k, BK)) {
        x.store(block(a, first_row, m, BM, step * BK));
        y.store(block(b, first_column, n, BN, step * BK));
        acc = dot_fma(x.load(left.clone()), y.transpose().load(right.clone()), acc);
    }
    let stored = Blocked::new([1, 8], [2, 16], [8, 1], [1, 0]);
    let row = first_row + arange(0..BM, Slice::new(1, stored.clone())).expand_dims(1);
    let column = first_column + arange(0..BN, Slice::new(0, stored.clone())).expand_dims(0);
    let place = c.at(row * output_stride + column);
    let result = acc.cast::<T>().convert_layout(stored);
    place.mask((row < m) & (column < n)).store(result);
}

#[case(sizes(m = [128, 1, 136], n = [128, 1, 72], k = [64, 1, 44]))]
fn matmul_tiled_bf16(case: &mut Case) -> CaseResult {
    product::<bf16>(case, |case, p: &Product<bf16>| {
        let kernel = matmul_tiled::<bf16, 128, 128, 16>;
        case.launch(kernel, p.grid([128, 128]), p.pointers())
    })
}
