//! `C = A · Bᵀ` with few rows of A, as when a model decodes tokens: the weights B are read once, and there are too few tiles of them to fill the
//! GPU. So the CTAs of a cluster share the steps along K of one tile. Each stores its partial product into the shared memory of the first
//! CTA, which adds them. The weights stand on the left of `wgmma`, whose instructions take 64 rows, and the tokens are its columns.

use tilekit::prelude::*;

use crate::products::product::{Product, product};

/// CTAs of a cluster, and the weights' rows of a tile.
const CTAS: usize = 4;
const ROWS: usize = 64;
const BK: usize = 64;
const STAGES: usize = 6;

/// A tile of `[TOKENS, ROWS]` of `C[M, N] = A[M, K] · B[N, K]ᵀ` for each cluster. Rows of C are `stride` elements apart.
#[kernel(warps = 4, cluster = 4, min_ctas_per_sm = 1, instances(<bf16, 16>, <f16, 64>))]
pub fn matmul_decode<T: Float + WgmmaOperand<T, f32>, const TOKENS: usize>(
    #[block([TOKENS, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([ROWS, BK], Nvmma::B128)] b: TensorMap<T>,
    c: Ptr<T>,
    #[multiple_of(8)] stride: i32,
    m: i32,
    n: i32,
    k: i32,
) {
    let pipeline = Pipeline::tma((b, a), STAGES, Consumers::warpgroups(1));
    let partial = ClusterSum::<CTAS>::new([ROWS, TOKENS]);
    let rank = cluster_rank();
    cluster_barrier_relaxed();
    let all = steps_along(k, BK);
    let steps = || range(rank, all).step(CTAS);
    let (tile, tokens) = (cluster_id(0), program_id(1));

    let multiply = || {
        let layout = Wgmma::new([4, 1], [64, TOKENS, 16]);
        let acc = Accumulator::zeros([ROWS, TOKENS], layout);
        let acc = pipeline.multiply(&mut pipeline.start(), steps(), acc, 0..ROWS);
        partial.send(acc.wait_all());
        if rank == 0 {
            let by_rows = Blocked::new([1, 1], [32, 1], [2, 2], [0, 1]);
            let sum = partial.receive(by_rows.clone());
            let row = rows_of(by_rows.clone(), tile * ROWS, ROWS);
            let token = columns_of(by_rows, tokens * TOKENS, TOKENS);
            let inside = (row < n) & (token < m);
            c.at(token * stride + row)
                .mask(inside)
                .store(sum.cast::<T>());
        }
    };
    let copy = || {
        pipeline.load_operands(&mut pipeline.start(), steps(), (b, a), [tile, tokens]);
    };
    warp_specialize() // mutate: equivalent(bar.sync): a barrier of the cluster stands in front
        .main(multiply)
        .worker(Warps(1).registers(40), copy)
        .run();
}

fn decode<T: Float + WgmmaOperand<T, f32> + DeviceElement, const TOKENS: usize>(
    case: &mut Case,
) -> CaseResult {
    let (m, n) = (case.size("m"), case.size("n"));
    let programs = [n.div_ceil(ROWS) * CTAS, m.div_ceil(TOKENS)];
    product::<T>(case, |case, p: &Product<T>| {
        let ((a, b, _, m, n, k), [_, stride]) = (p.maps(), p.strides());
        let arguments = (a, b, p.output(), stride, m, n, k);
        case.launch(matmul_decode::<T, TOKENS>, programs, arguments)
    })
}

#[case(sizes(m = [16, 3, 1], n = [256, 200, 72], k = [2048, 1096, 64]))]
fn matmul_decode_bf16(case: &mut Case) -> CaseResult {
    decode::<bf16, 16>(case)
}

#[case(sizes(m = [64, 70], n = [128, 72], k = [4096, 136]))]
fn matmul_decode_f16(case: &mut Case) -> CaseResult {
    decode::<f16, 64>(case)
}
