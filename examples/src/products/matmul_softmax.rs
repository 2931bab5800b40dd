//! `softmax(A · Bᵀ)`, as a classifier ends: a row of the product has more columns than the registers of a CTA hold, so the CTAs
//! of a cluster split them. Layouts say which CTA has which, and the rest is written as if one CTA did it: TMA loads
//! each CTA its part, `wgmma` multiplies it, and the largest and the sum of a row are those of all. The rows of A, which all
//! of them need, one CTA loads by multicast.

use tilekit::prelude::*;

/// Rows of a cluster: those of one instruction.
const ROWS: usize = 64;
const BK: usize = 64;
const STAGES: usize = 4;

/// CTAs with the same part.
fn copies(ctas: usize) -> Vec<[u32; 2]> {
    vec![[0, 0]; ctas.ilog2() as usize]
}

/// CTAs that split dimension `dim`, in the order of their ranks.
fn split(ctas: usize, dim: usize) -> Vec<[u32; 2]> {
    let of_bit = |bit| [0, 1].map(|d| if d == dim { 1_u32 << bit } else { 0 });
    (0..ctas.ilog2()).map(of_bit).collect()
}

/// `out = softmax(A[M, K] · B[N, K]ᵀ)` along rows of `n` columns, at most `COLUMNS`; `log2_scale` is `log2(e)` times what the
/// products are multiplied by before.
#[kernel(warps = 4, min_ctas_per_sm = 1, cluster = CTAS, instances(<4, 1024>))]
pub fn matmul_softmax<const CTAS: usize, const COLUMNS: usize>(
    #[block([ROWS, BK], Nvmma::B128.with_ctas(copies(CTAS)))] a: TensorMap<bf16>,
    #[block([COLUMNS, BK], Nvmma::B128.with_ctas(split(CTAS, 0)))] b: TensorMap<bf16>,
    #[block([ROWS, COLUMNS], Nvmma::B128.with_ctas(split(CTAS, 1)))] out: TensorMap<bf16>,
    n: i32,
    k: i32,
    log2_scale: f32,
) {
    // The warps of a CTA release a stage to it, and to the CTA that multicasts rows of A to all.
    let pipeline = Pipeline::tma((a, b), STAGES, Consumers::warpgroups(1)).multicasting(a);
    let row = cluster_id(0) * ROWS;
    let steps = steps_along(k, BK);
    cluster_barrier_relaxed();

    let multiply = || {
        let columns_of_cta = COLUMNS / CTAS;
        let sums = Wgmma::new([4, 1], [64, columns_of_cta, 16]).with_ctas(split(CTAS, 1));
        let mut acc = Accumulator::<f32>::zeros([ROWS, COLUMNS], sums.clone());
        let mut at = pipeline.start();
        for _ in range(0, steps) {
            let stage = pipeline.consumer_wait(at);
            let (left, right) = stage.tiles;
            acc = acc.mma(left, right.transpose()).wait(0);
            at = pipeline.consumer_release(stage).advance();
        }
        let column = arange(0..COLUMNS, Slice::new(0, sums)).expand_dims(0);
        let x = select(column < n, acc.wait_all() * log2_scale, f32::NEG_INFINITY);
        let powers = (x - x.max(1).expand_dims(1)).exp2();
        let shares = powers / powers.sum(1).expand_dims(1);
        let tile = Smem::alloc_with(shares.cast::<bf16>(), out.layout());
        out.store([row, scalar(0)], tile);
        tma_store_wait_read(0);
    };
    let copy = || {
        let mut at = pipeline.start();
        for step in range(0, steps) {
            let stage = pipeline.producer_acquire(at);
            let (left, right) = stage.tiles;
            let for_all = a.copy().multicast_copies();
            for_all.load([row, step * BK], left, stage.full);
            b.load([scalar(0), step * BK], right, stage.full);
            at = pipeline.commit(stage).advance();
        }
        pipeline.producer_tail(at); // mutate: equivalent(mbarrier.wait): warps release stages in their order, so that the wait for the last stage suffices here
    };
    warp_specialize() // mutate: equivalent(bar.sync): a barrier of the cluster stands in front
        .main(multiply)
        .worker(Warps(1), copy)
        .run();
}

fn softmax_of_product<const CTAS: usize, const COLUMNS: usize>(case: &mut Case) -> CaseResult {
    let [m, n, k] = ["m", "n", "k"].map(|name| case.size(name));
    let (a, b) = (
        case.normal::<bf16>("a", [m, k]),
        case.normal::<bf16>("b", [n, k]),
    );
    let out = case.output::<bf16>("out", [m, n]);
    let scale = 1.0 / (k as f64).sqrt();
    case.launch(
        matmul_softmax::<CTAS, COLUMNS>,
        grid(m.div_ceil(ROWS) * CTAS),
        (&a, &b, &out, n as i32, k as i32, (scale * LOG2_E) as f32),
    )?;
    let reference = || {
        let products = Gemm::new(&a, &b, &out).transposed_b().with_size([m, n, k]);
        let mut rows = products.reference();
        for row in rows.chunks_mut(n) {
            let most = row.iter().copied().fold(f64::MIN, f64::max);
            let powers: Vec<f64> = row.iter().map(|x| ((x - most) * scale).exp()).collect();
            let sum: f64 = powers.iter().sum();
            for (x, power) in row.iter_mut().zip(powers) {
                *x = power / sum;
            }
        }
        rows
    };
    // Half a step of the output's type.
    let tolerance = Close {
        relative: 5e-3,
        absolute: 1e-6,
    };
    case.expect_part_in_units(&out, [m, n], reference, tolerance)?;
    case.does_tensor_flops::<bf16>(2 * m * n * k);
    case.moves_bytes(2 * (m * k + n * k + m * n));
    Ok(())
}

#[case(sizes(m = [64, 130, 1], n = [512, 1000, 8], k = [128, 712, 8]))]
fn matmul_softmax_1024(case: &mut Case) -> CaseResult {
    softmax_of_product::<4, 1024>(case)
}
