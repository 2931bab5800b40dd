//! A product of f32 on tensor cores that have no f32: each operand is a large and a small part in tf32, and three of their four products make
//! the result nearly as exact as f32 arithmetic does (`tf32x3`). `wgmma` takes both operands from shared memory. So a warpgroup of its own splits what TMA
//! loaded, between the producer and the warpgroups that multiply.

use tilekit::prelude::*;

use crate::products::product::Product;

/// Warpgroups that multiply, and the rows of each.
const GROUPS: usize = 2;
const ROWS: usize = 64;
const BM: usize = GROUPS * ROWS;
const BN: usize = 128;
const BK: usize = 32;

/// A tile of `[BM, BN]` of `C[M, N] = A[M, K] · B[N, K]ᵀ` per program. Rows of C are `stride` elements apart, and written to their last
/// unit of 16 bytes.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn matmul_tf32x3(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<f32>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<f32>,
    c: Ptr<f32>,
    #[multiple_of(4)] stride: i32,
    m: i32,
    k: i32,
) {
    let loaded = Pipeline::tma((a, b), 2, Consumers::warpgroups(1));
    let parts = (
        Tf32Parts::alloc([2, BM, BK], a.layout()),
        Tf32Parts::alloc([2, BN, BK], b.layout()),
    );
    let stores = Producers::Stores { warps: 4 };
    let split = Pipeline::new(parts, stores, Consumers::warpgroups(GROUPS));
    let (row, column) = (program_id(0) * BM, program_id(1) * BN);
    let steps = steps_along(k, BK);

    let multiply = |group: usize| {
        let rows = group * ROWS..(group + 1) * ROWS;
        let layout = Wgmma::new([4, 1], [64, BN, 8]);
        let mut sums = zeros::<f32>([ROWS, BN], layout.clone());
        let mut at = split.start();
        for _ in range(0, steps) {
            let stage = split.consumer_wait(at);
            let (a, b) = stage.tiles;
            sums = wgmma_tf32x3(a.slice(0, rows.clone()), b.transpose(), sums); // mutate: equivalent(wgmma.fence, wgmma.commit_group): three products on the same accumulators, with nothing between them, of which the first has a fence and the last is waited for
            at = split.consumer_release(stage).advance();
        }
        let i = rows_of(layout.clone(), row + group * ROWS, ROWS);
        let j = columns_of(layout, column, BN);
        c.at(i * stride + j)
            .mask((i < m) & (j < stride))
            .store(sums);
    };
    let split_loaded = || {
        let along_rows = Blocked::new([1, 4], [4, 8], [4, 1], [1, 0]);
        let (mut from, mut to) = (loaded.start(), split.start());
        for _ in range(0, steps) {
            let whole = loaded.consumer_wait(from);
            let parts = split.producer_acquire(to);
            let ((a, b), (a_parts, b_parts)) = (whole.tiles, parts.tiles);
            a_parts.store(a.load(along_rows.clone()));
            b_parts.store(b.load(along_rows.clone()));
            to = split.commit(parts).advance();
            from = loaded.consumer_release(whole).advance();
        }
    };
    let copy = || {
        let mut at = loaded.start();
        for step in range(0, steps) {
            let stage = loaded.producer_acquire(at);
            let (a_tile, b_tile) = stage.tiles;
            a.load([row, step * BK], a_tile, stage.full);
            b.load([column, step * BK], b_tile, stage.full);
            at = loaded.commit(stage).advance();
        }
    };
    warp_specialize()
        .registers(168)
        .main(|| multiply(0))
        .workers(1..GROUPS, Warps(4).registers(168), multiply)
        .worker(Warps(4).registers(120), split_loaded)
        .worker(Warps(1).registers(40), copy)
        .run();
}

/// The product of two matrices that `operand` makes.
fn matmul(
    case: &mut Case,
    operand: impl Fn(&mut Case, &str, [usize; 2]) -> Input<f32>,
    tolerance: impl Fn(usize) -> Tolerance,
) -> CaseResult {
    let p = Product::<f32, f32>::new(case, operand);
    let [_, stride] = p.strides();
    let arguments = (p.a_map(), p.b_map(), p.output(), stride, p.m(), p.k());
    case.launch(matmul_tf32x3, p.grid([BM, BN]), arguments)?;
    let tolerance = tolerance(case.size("k"));
    p.expect(case, || p.gemm().reference(), tolerance)
}

/// Sums that cancel: what is lost grows with the root of their terms.
#[case(sizes(m = [256, 200, 1], n = [256, 136, 1], k = [128, 72, 1]))]
fn matmul_tf32x3_normal(case: &mut Case) -> CaseResult {
    let operand = |case: &mut Case, name: &str, shape: [usize; 2]| case.normal::<f32>(name, shape);
    matmul(case, operand, |k| Close {
        relative: 1e-6,
        absolute: 1e-6 * (k as f64).sqrt(),
    })
}

/// Sums whose terms have one sign: each is right to 1e-6, where one product of tf32 has 1e-3.
#[case(sizes(m = [128, 40], n = [128, 72], k = [512, 100]))]
fn matmul_tf32x3_positive(case: &mut Case) -> CaseResult {
    let operand =
        |case: &mut Case, name: &str, shape: [usize; 2]| case.uniform::<f32>(name, shape, 0.5..2.0);
    matmul(case, operand, |_| Relative(1e-6))
}
