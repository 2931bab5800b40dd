//! The first step on the path to a fast product: a thread for each element of C reads its row of A and its row of B from global
//! memory, and adds up their products on the FMA cores. Nothing is shared between threads but what caches keep.

use tilekit::prelude::*;

use crate::products::product::{Product, product};

/// The tile of C of one program: one element a thread.
const M: usize = 16;
const N: usize = 16;

/// `C[M, N] = A[M, K] · B[N, K]ᵀ`, `K` elements of each row at a time: what a thread loads by one instruction.
#[kernel(warps = 8, instances(<bf16, 8>))]
pub fn matmul_naive<T: Float + FmaOperand<T, f32>, const K: usize>(
    a: Ptr<T>,
    b: Ptr<T>,
    c: Ptr<T>,
    m: i32,
    n: i32,
    k: i32,
    #[multiple_of(8)] factor_stride: i32,
    #[multiple_of(8)] output_stride: i32,
) {
    let sums = Blocked::new([1, 1], [2, 16], [8, 1], [1, 0]);
    // A thread has all of K for the row and for the column of its element.
    let left = DotOperand::new(0, sums.clone(), 0);
    let right = DotOperand::new(1, sums.clone(), 0);
    let (first_row, first_column) = (program_id(0) * M, program_id(1) * N);
    let row_of_a = first_row + arange(0..M, Slice::new(1, left.clone())).expand_dims(1);
    let row_of_b = first_column + arange(0..N, Slice::new(0, right.clone())).expand_dims(0);
    let in_a = arange(0..K, Slice::new(0, left)).expand_dims(0);
    let in_b = arange(0..K, Slice::new(1, right)).expand_dims(1);

    let mut acc = zeros::<f32>([M, N], sums.clone());
    for step in range(0, cdiv(k, K)) {
        let (k_of_a, k_of_b) = (step * K + in_a, step * K + in_b);
        let x = a.at(row_of_a * factor_stride + k_of_a);
        let y = b.at(row_of_b * factor_stride + k_of_b);
        let x = x.mask((row_of_a < m) & (k_of_a < k)).other(0.0).load();
        let y = y.mask((row_of_b < n) & (k_of_b < k)).other(0.0).load();
        acc = dot_fma(x, y, acc);
    }
    let row = first_row + arange(0..M, Slice::new(1, sums.clone())).expand_dims(1);
    let column = first_column + arange(0..N, Slice::new(0, sums)).expand_dims(0);
    let place = c.at(row * output_stride + column);
    place.mask((row < m) & (column < n)).store(acc.cast::<T>());
}

#[case(sizes(m = [32, 1, 40], n = [32, 1, 24], k = [64, 1, 44]))]
fn matmul_naive_bf16(case: &mut Case) -> CaseResult {
    product::<bf16>(case, |case, p: &Product<bf16>| {
        case.launch(matmul_naive::<bf16, 8>, p.grid([M, N]), p.pointers())
    })
}
