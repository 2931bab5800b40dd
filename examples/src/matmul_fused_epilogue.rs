//! What is done with a product before it leaves the registers is an ordinary closure: here bias and gelu, or a scale and a
//! residual. It adds no memory traffic but that of its own operands.

use tilekit::prelude::*;

use crate::gelu_bias::gelu;
use crate::pipeline::{Ring, Stage, Tiles};
use crate::product::{Product, product_then};

/// Warpgroups that multiply, and the rows of each.
const GROUPS: usize = 2;
const ROWS: usize = 64;

/// Rows, columns and depth of a tile, and stages of the ring.
const BM: usize = GROUPS * ROWS;
const BN: usize = 256;
const BK: usize = 64;
const STAGES: usize = 3;

fn sums() -> Wgmma {
    Wgmma::new([4, 1], [64, BN as u32, 16])
}

/// `C = epilogue(A · Bᵀ)` by warps that part. The closure gets the sums of a tile and where the tile begins, and gives what
/// is stored.
#[device]
fn multiply_then<T: Float + Factor<T, f32>>(
    [a, b, c]: [TensorMap<T>; 3],
    [m, n, k]: [Scalar<i32>; 3],
    epilogue: impl Fn(Tensor<f32>, [Scalar<i32>; 2]) -> Tensor<T>,
) {
    let ring = Ring::alloc([BM, BN, BK], STAGES, 4 * GROUPS);
    let tiles = Tiles::new(m, n, [BM, BN], 16);
    let steps = cdiv(k, BK);

    let multiply = |group: usize| {
        let first = group * ROWS;
        let staging = Smem::<T>::alloc(c.block(), c.layout());
        let mut stage = Stage::first();
        for tile in tiles.of_program() {
            let [row, column] = tiles.place(tile);
            let mut acc = Accumulator::zeros([ROWS, BN], sums());
            for _ in range(0, steps) {
                ring.full.at(stage.index).wait(stage.phase);
                let a = ring.a.index(stage.index).slice(0, first..first + ROWS);
                let b = ring.b.index(stage.index).transpose();
                acc = acc.mma(a, b).wait(0);
                let done = ring.empty.at(stage.index).arrival();
                done.by(Arrivers::Warp).arrive();
                stage = stage.next(STAGES);
            }
            let at = [row * BM + first, column * BN];
            let result = epilogue(acc.wait_all(), at);
            tma_store_wait_read(0);
            staging.store(result);
            c.store(at, staging);
        }
        tma_store_wait_read(0);
    };
    let copy = || {
        let mut stage = Stage::first();
        for tile in tiles.of_program() {
            let [row, column] = tiles.place(tile);
            for step in range(0, steps) {
                ring.empty.at(stage.index).wait(stage.phase ^ 1);
                let full = ring.full.at(stage.index);
                full.expect(a.block_bytes() + b.block_bytes());
                a.load([row * BM, step * BK], ring.a.index(stage.index), full);
                b.load([column * BN, step * BK], ring.b.index(stage.index), full);
                stage = stage.next(STAGES);
            }
        }
    };
    warp_specialize()
        .registers(232)
        .main(|| multiply(0))
        .worker(Warps(4).registers(232), || multiply(1))
        .worker(Warps(1).registers(40), copy);
}

/// `C[i, j] = gelu((A · Bᵀ)[i, j] + bias[j])`.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(<bf16>))]
pub fn matmul_bias_gelu<T: Float + Factor<T, f32>>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([ROWS, BN], Nvmma::B128)] c: TensorMap<T>,
    bias: Ptr<f32>,
    m: i32,
    n: i32,
    k: i32,
) {
    multiply_then([a, b, c], [m, n, k], |sums, [_, column]| {
        let at = column + arange(0..BN, Slice::new(0, self::sums()));
        let bias = bias.at(at).mask(at < n).other(0.0).load();
        gelu(sums + bias.expand_dims(0)).cast::<T>()
    });
}

/// `C[i, j] = scale · (A · Bᵀ)[i, j] + residual[i, j]`; rows of the residual are `stride` elements apart.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(<bf16>))]
#[expect(
    clippy::too_many_arguments,
    reason = "a kernel takes what its launch passes"
)]
pub fn matmul_scale_residual<T: Float + Factor<T, f32>>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([ROWS, BN], Nvmma::B128)] c: TensorMap<T>,
    residual: Ptr<T>,
    #[multiple_of(8)] stride: i32,
    scale: f32,
    m: i32,
    n: i32,
    k: i32,
) {
    multiply_then([a, b, c], [m, n, k], |sums, [row, column]| {
        let i = (row + arange(0..ROWS, Slice::new(1, self::sums()))).expand_dims(1);
        let j = (column + arange(0..BN, Slice::new(0, self::sums()))).expand_dims(0);
        let at = residual.at(i * stride + j).mask((i < m) & (j < n));
        let before = at.other(0.0).load().cast::<f32>();
        (sums * scale + before).cast::<T>()
    });
}

fn tiles(p: &Product<bf16>) -> usize {
    p.tiles([BM, BN]).min(128)
}

#[case(sizes(m = [256, 200], n = [512, 264], k = [128, 72]))]
fn matmul_bias_gelu_bf16(case: &mut Case) -> CaseResult {
    let bias = case.normal::<f32>("bias", [case.size("n")]);
    let launch = |case: &mut Case, p: &Product<bf16>| {
        let (a, b, c) = (p.a_map(), p.b_map(), p.c_map());
        let arguments = (a, b, c, &bias, p.m(), p.n(), p.k());
        case.launch(matmul_bias_gelu::<bf16>, tiles(p), arguments)
    };
    let after = |[_, j]: [usize; 2], sum: f64| {
        let x = sum + f64::from(bias[j]);
        let inner = (2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3));
        0.5 * x * (1.0 + inner.tanh())
    };
    // The hardware's tanh is good to 2^-11 of the larger of x and 1.
    product_then::<bf16>(case, launch, after, 4e-3)
}

#[case(sizes(m = [256, 200], n = [512, 264], k = [128, 72]))]
fn matmul_scale_residual_bf16(case: &mut Case) -> CaseResult {
    let (m, n) = (case.size("m"), case.size("n"));
    let stride = n.next_multiple_of(8);
    let residual = case.normal::<bf16>("residual", [m, stride]);
    let launch = |case: &mut Case, p: &Product<bf16>| {
        let (a, b, c) = (p.a_map(), p.b_map(), p.c_map());
        let arguments = (
            a,
            b,
            c,
            &residual,
            stride as i32,
            0.5_f32,
            p.m(),
            p.n(),
            p.k(),
        );
        case.launch(matmul_scale_residual::<bf16>, tiles(p), arguments)
    };
    let after = |at: [usize; 2], sum: f64| 0.5 * sum + residual[at].to_f64();
    product_then::<bf16>(case, launch, after, 0.0)
}
