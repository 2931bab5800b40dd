//! The product of [`matmul_warp_specialized`](crate::products::matmul_warp_specialized) with the
//! other types that the tensor cores multiply: 8-bit floats with a scale for each operand, 8-bit integers, and f32 as tf32. A stage is 128 bytes deep whatever an
//! element takes.

use std::convert::identity;

use tilekit::prelude::*;

use crate::products::product::{Product, product_of};

/// Consumer warpgroups, and the rows of each.
const GROUPS: usize = 2;
const ROWS: usize = 64;
const BM: usize = GROUPS * ROWS;
const BN: usize = 256;

/// The accumulator of a warpgroup, whose instructions take 32 bytes of K.
fn sums<T: Element>() -> Wgmma {
    Wgmma::new([4, 1], [64, BN, 32 / size_of::<T>()])
}

/// Goes over the tiles of `A · Bᵀ`. Each accumulates onto what `begin` returns; `store` gets the accumulator, the number of the
/// warpgroup, and the coordinates of its first element.
#[device]
fn multiply_each<T: WgmmaOperand<T, S>, S: Element>(
    [a, b]: [TensorMap<T>; 2],
    [m, n, k]: [Scalar<i32>; 3],
    stages: usize,
    begin: impl Fn() -> Accumulator<S>,
    store: impl Fn(Tensor<S>, usize, [Scalar<i32>; 2]),
) {
    let depth = 128 / size_of::<T>();
    let pipeline = Pipeline::tma((a, b), stages, Consumers::warpgroups(GROUPS));
    let tiles = GroupedRows::new([m, n], [BM, BN], 16);
    let steps = cdiv(k, depth);

    let multiply = |group: usize| {
        let first = group * ROWS;
        let mut at = pipeline.start();
        for tile in tiles.of_program() {
            let [row, column] = tiles.place(tile);
            let acc = pipeline.multiply(&mut at, range(0, steps), begin(), first..first + ROWS);
            store(acc.wait_all(), group, [row * BM + first, column * BN]);
        }
        tma_store_wait_read(0);
    };
    let copy = || pipeline.load_tiles(tiles, steps, (a, b));
    warp_specialize()
        .registers(232)
        .main(|| multiply(0))
        .workers(1..GROUPS, Warps(4).registers(232), multiply)
        .worker(Warps(1).registers(40), copy)
        .run();
}

/// `C[M, N] = (a_scale · A[M, K]) · (b_scale · B[N, K])ᵀ` of 8-bit floats. The tensor cores accumulate, with some 14
/// bits.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn matmul_fp8(
    #[block([BM, 128], Nvmma::B128)] a: TensorMap<E4m3>,
    #[block([BN, 128], Nvmma::B128)] b: TensorMap<E4m3>,
    #[block([ROWS, BN], Nvmma::B128)] c: TensorMap<bf16>,
    a_scale: Ptr<f32>,
    b_scale: Ptr<f32>,
    m: i32,
    n: i32,
    k: i32,
) {
    let scale = a_scale.load() * b_scale.load();
    let staging = [(); GROUPS].map(|()| Smem::<bf16>::alloc(c.block(), c.layout()));
    let begin = || Accumulator::zeros([ROWS, BN], sums::<E4m3>());
    multiply_each([a, b], [m, n, k], 3, begin, |sums, group, at| {
        tma_store_wait_read(0);
        staging[group].store((sums * scale).cast::<bf16>());
        c.store(at, staging[group]);
    });
}

/// Stores an accumulator of 4-byte elements, of which four threads fill a sector of 32 bytes: staging through shared memory
/// gains nothing. Rows are written to their last unit of 16 bytes, as TMA stores do, so that no mask cuts an access.
#[device]
fn store_sums<T: Element, S: Element>(
    c: Ptr<S>,
    stride: Scalar<i32>,
    m: Scalar<i32>,
    sums: Tensor<S>,
    [row, column]: [Scalar<i32>; 2],
) {
    let i = rows_of(self::sums::<T>(), row, ROWS);
    let j = columns_of(self::sums::<T>(), column, BN);
    c.at(i * stride + j)
        .mask((i < m) & (j < stride))
        .store(sums);
}

/// `C[M, N] = A[M, K] · B[N, K]ᵀ` of 8-bit integers, exact. Rows of `C` are `stride` elements apart, `n` rounded up to
/// 16 bytes.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn matmul_int8(
    #[block([BM, 128], Nvmma::B128)] a: TensorMap<i8>,
    #[block([BN, 128], Nvmma::B128)] b: TensorMap<i8>,
    c: Ptr<i32>,
    #[multiple_of(4)] stride: i32,
    m: i32,
    n: i32,
    k: i32,
) {
    let begin = || Accumulator::zeros([ROWS, BN], sums::<i8>());
    multiply_each([a, b], [m, n, k], 4, begin, |sums, _, at| {
        store_sums::<i8, i32>(c, stride, m, sums, at);
    });
}

/// The same of f32, of which the tensor cores read the upper 19 bits.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn matmul_tf32(
    #[block([BM, 32], Nvmma::B128)] a: TensorMap<f32>,
    #[block([BN, 32], Nvmma::B128)] b: TensorMap<f32>,
    c: Ptr<f32>,
    #[multiple_of(4)] stride: i32,
    m: i32,
    n: i32,
    k: i32,
) {
    let begin = || Accumulator::zeros([ROWS, BN], sums::<f32>()).tf32();
    multiply_each([a, b], [m, n, k], 4, begin, |sums, _, at| {
        store_sums::<f32, f32>(c, stride, m, sums, at);
    });
}

fn programs<T: DeviceElement, O: DeviceElement>(p: &Product<T, O>) -> usize {
    p.programs([BM, BN], 128)
}

#[case(sizes(m = [256, 200, 1, 128, 1], n = [512, 264, 1, 256, 76_800], k = [512, 144, 1, 712, 8]))]
fn matmul_fp8_scaled(case: &mut Case) -> CaseResult {
    let a_scale = case.input::<f32>("a_scale", [1], |_| 0.25);
    let b_scale = case.input::<f32>("b_scale", [1], |_| 0.375);
    let scaled = |gemm: Gemm| gemm.scaled(&a_scale, &b_scale);
    product_of(
        case,
        Case::normal,
        scaled,
        |case, p: &Product<E4m3, bf16>| {
            let (a, b, c, m, n, k) = p.maps();
            let arguments = (a, b, c, &a_scale, &b_scale, m, n, k);
            case.launch(matmul_fp8, programs(p), arguments)
        },
    )
}

#[case(sizes(m = [256, 200, 1, 128, 1], n = [512, 264, 1, 256, 76_800], k = [512, 144, 1, 712, 8]))]
fn matmul_int8_exact(case: &mut Case) -> CaseResult {
    let operand = |case: &mut Case, name: &str, shape: [usize; 2]| {
        case.integers::<i8>(name, shape, -128..128)
    };
    product_of(case, operand, identity, |case, p: &Product<i8, i32>| {
        let ((a, b, _, m, n, k), [_, stride]) = (p.maps(), p.strides());
        let arguments = (a, b, p.output(), stride, m, n, k);
        case.launch(matmul_int8, programs(p), arguments)
    })
}

#[case(sizes(m = [256, 200, 1, 128, 1], n = [512, 264, 1, 256, 76_800], k = [128, 72, 1, 712, 8]))]
fn matmul_tf32_f32(case: &mut Case) -> CaseResult {
    product_of(case, Case::normal, identity, |case, p: &Product<f32>| {
        let ((a, b, _, m, n, k), [_, stride]) = (p.maps(), p.strides());
        let arguments = (a, b, p.output(), stride, m, n, k);
        case.launch(matmul_tf32, programs(p), arguments)
    })
}
