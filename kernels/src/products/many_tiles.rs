//! The product of two matrices with many tiles as a kernel with a signature, for exports: [`dense`](super::dense::dense) without an epilogue.

use tilekit::prelude::*;

use super::dense::{ManyTile, multiply_tiles};
use super::epilogue::Plain;
use super::factor::{Operand, ResultOf, depth, unit};
use super::form::{Form, swizzle_of_results};

/// `C[M, N] = A[M, K] · B[N, K]ᵀ` in tiles of `[GROUPS * ROWS, BN]`: each of `GROUPS` consumer warpgroups multiplies `ROWS` rows of it. N is a multiple of 16 bytes:
/// TMA stores write whole units of as many, and what lies beside C is not theirs.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(
    <bf16, 2, 64, 256, 4>,
    <bf16, 3, 64, 192, 3>,
    <bf16, 2, 128, 160, 3>,
    <bf16, 2, 64, 192, 4>,
    <bf16, 3, 64, 176, 3>,
    <bf16, 2, 64, 128, 6>
), signature(
    a: [m, k],
    b: [n, k],
    c: [m, n],
    requires(n % unit::<T>() == 0),
    grid = min(cdiv(m, GROUPS * ROWS) * cdiv(n, BN), sms),
))]
pub fn many_tiles<
    T: Operand + ResultOf<T>,
    const GROUPS: usize,
    const ROWS: usize,
    const BN: usize,
    const STAGES: usize,
>(
    #[block([GROUPS * ROWS, depth::<T>()], Nvmma::B128)] a: TensorMap<T>,
    #[block([BN, depth::<T>()], Nvmma::B128)] b: TensorMap<T>,
    #[block([ROWS, BN], swizzle_of_results::<T>(BN))] c: TensorMap<T>,
    m: i32,
    n: i32,
    k: i32,
) {
    let tile = ManyTile::of([GROUPS, ROWS, BN, STAGES]);
    let form = Form::new(tile, Plain);
    multiply_tiles(form, (a, b, c), [m, n, k, scalar(1)], None);
}
