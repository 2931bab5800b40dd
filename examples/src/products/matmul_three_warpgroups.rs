//! `C = A · Bᵀ` by one partition of twelve warps: its three warpgroups share a tile of 192 rows, 64 each, and one accumulator,
//! one epilogue and one state of the pipeline, where `matmul_widths` gives each warpgroup a partition of its own. A thirteenth
//! warp issues the TMA loads. Twelve warps are three sets of four, which divide a dimension that is three times a power of two.

use tilekit::prelude::*;

use crate::products::product::{Product, product};

const GROUPS: usize = 3;
const BM: usize = GROUPS * 64;
const BK: usize = 64;

/// A tile of `[BM, BN]` of `C[M, N] = A[M, K] · B[N, K]ᵀ` per program.
#[kernel(warps = 12, min_ctas_per_sm = 1, instances(<128, 4>, <192, 3>))]
pub fn matmul_three_warpgroups<const BN: usize, const STAGES: usize>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<bf16>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<bf16>,
    #[block([BM, BN], Nvmma::B128)] c: TensorMap<bf16>,
    k: i32,
) {
    let pipeline = Pipeline::tma((a, b), STAGES, Consumers::warpgroups(GROUPS));
    let steps = steps_along(k, BK);
    let place = [program_id(0), program_id(1)];

    let multiply = || {
        let sums = Wgmma::new([4 * GROUPS, 1], [64, BN, 16]);
        let acc = Accumulator::<f32>::zeros([BM, BN], sums);
        let acc = pipeline.multiply(&mut pipeline.start(), range(0, steps), acc, 0..BM);
        let staging = Smem::alloc_with(acc.wait_all().cast::<bf16>(), c.layout());
        c.store([place[0] * BM, place[1] * BN], staging);
        tma_store_wait_read(0);
    };
    let copy = || pipeline.load_operands(&mut pipeline.start(), range(0, steps), (a, b), place);
    warp_specialize()
        .main(multiply)
        .worker(Warps(1).registers(40), copy)
        .run();
}

fn matmul<const BN: usize, const STAGES: usize>(case: &mut Case) -> CaseResult {
    product::<bf16>(case, |case, p: &Product<bf16>| {
        let arguments = (p.a_map(), p.b_map(), p.c_map(), p.k());
        let kernel = matmul_three_warpgroups::<BN, STAGES>;
        case.launch(kernel, p.grid([BM, BN]), arguments)
    })
}

#[case(sizes(m = [384, 200, 192, 1], n = [256, 136, 128, 8], k = [712, 72, 256, 8]))]
fn matmul_of_192_rows(case: &mut Case) -> CaseResult {
    matmul::<128, 4>(case)
}

#[case(sizes(m = [384, 260, 1], n = [384, 200, 1], k = [712, 72, 1]))]
fn matmul_of_192_rows_and_columns(case: &mut Case) -> CaseResult {
    matmul::<192, 3>(case)
}
