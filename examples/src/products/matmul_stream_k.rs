//! Programs share out the steps along K of the tiles that fill no whole wave, an equal run of steps for each (stream-K), so that no SM idles
//! where tiles are few, or a few more than there are SMs. A run may begin in the middle of one tile and end in the middle of another: the
//! partial tiles of several programs are added in memory by TMA reductions.

use std::convert::identity;

use tilekit::prelude::*;

use crate::copies::tma_add::clear_row;
use crate::products::product::{Product, product_of};

const BM: usize = 128;
const BN: usize = 128;
const BK: usize = 64;
const STAGES: usize = 4;

/// Adds `A[M, K] · B[N, K]ᵀ` to `C[M, N]`.
#[kernel(warps = 8, min_ctas_per_sm = 1)]
pub fn matmul_stream_k(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<bf16>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<bf16>,
    #[block([BM, BN], Nvmma::B128)] c: TensorMap<f32>,
    m: i32,
    n: i32,
    k: i32,
) {
    let pipeline = Pipeline::tma((a, b), STAGES, Consumers::warpgroups(2));
    let staging = Smem::<f32>::alloc(c.block(), c.layout());
    let (columns, steps) = (cdiv(n, BN), steps_along(k, BK));
    let shares = StreamK::new(cdiv(m, BM) * columns, steps);

    let multiply = || {
        let sums = Wgmma::new([8, 1], [64, BN, 16]);
        let mut at = pipeline.start();
        let mut work = shares.start();
        while work.steps_left() > 0 {
            let acc = Accumulator::zeros([BM, BN], sums.clone());
            let steps = range(work.first(), work.end());
            let acc = pipeline.multiply(&mut at, steps, acc, 0..BM);
            tma_store_wait_read(0);
            staging.store(acc.wait_all());
            let tile = work.tile();
            c.store_add([tile / columns * BM, tile % columns * BN], staging);
            work = shares.next(work);
        }
        tma_store_wait_read(0);
    };
    let copy = || {
        let mut at = pipeline.start();
        let mut work = shares.start();
        while work.steps_left() > 0 {
            let place = [work.tile() / columns, work.tile() % columns];
            let steps = range(work.first(), work.end());
            pipeline.load_operands(&mut at, steps, (a, b), place);
            work = shares.next(work);
        }
    };
    warp_specialize()
        .main(multiply)
        .worker(Warps(1), copy)
        .run();
}

#[case(sizes(m = [256, 136, 1, 128, 1], n = [256, 72, 1, 256, 76_800], k = [512, 200, 1, 712, 8]))]
fn matmul_stream_k_bf16(case: &mut Case) -> CaseResult {
    product_of(
        case,
        Case::normal,
        identity,
        |case, p: &Product<bf16, f32>| {
            let elements = (p.m() * p.strides()[1]) as usize;
            let cleared = (p.output(), elements as i32);
            case.launch(clear_row, grid(elements.div_ceil(1024)), cleared)?;
            // As many programs as SMs; small products have some for each tile all the same.
            let programs = (3 * p.tiles([BM, BN]) - 1).min(132);
            case.launch(matmul_stream_k, programs, p.maps())
        },
    )
}
