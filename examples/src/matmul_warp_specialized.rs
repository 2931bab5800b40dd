//! `C = A · Bᵀ` by warps that part: one warp lets the copy engine fill a ring of stages, two warpgroups multiply what is
//! there. The kernel is persistent, and the copies of the next tile run while the last one is stored.

use tilekit::prelude::*;

use crate::pipeline::{Ring, Stage, Tiles};
use crate::product::{Product, product};

/// A tile of `[BM, BN]` of `C[M, N] = A[M, K] · B[N, K]ᵀ` at a time. Edges need no code: the copy engine reads zeros outside
/// of a tensor and drops what is written there.
#[kernel(warps = 8, min_ctas_per_sm = 1, instances(<bf16, 128, 256, 64, 3>))]
pub fn matmul_warp_specialized<
    T: Float + Factor<T, f32>,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([BM, BN], Nvmma::B128)] c: TensorMap<T>,
    m: i32,
    n: i32,
    k: i32,
) {
    let ring = Ring::alloc([BM, BN, BK], STAGES, 8);
    let staging = Smem::<T>::alloc(c.block(), c.layout());
    let tiles = Tiles::new(m, n, [BM, BN], 16);
    let steps = cdiv(k, BK);

    warp_specialize()
        .main(|| {
            let mut stage = Stage::first();
            for tile in tiles.of_program() {
                let mut acc = Accumulator::zeros([BM, BN], Wgmma::new([8, 1], [64, 256, 16]));
                for _ in range(0, steps) {
                    ring.full.at(stage.index).wait(stage.phase);
                    let (a, b) = (ring.a.index(stage.index), ring.b.index(stage.index));
                    acc = acc.mma(a, b.transpose()).wait(0);
                    let done = ring.empty.at(stage.index).arrival();
                    done.by(Arrivers::Warp).arrive();
                    stage = stage.next(STAGES);
                }
                let [row, column] = tiles.place(tile);
                tma_store_wait_read(0);
                staging.store(acc.wait_all().cast::<T>());
                c.store([row * BM, column * BN], staging);
            }
            tma_store_wait(0);
        })
        .worker(Warps(1).registers(40), || {
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
        });
}

#[case(sizes(m = [256, 200], n = [512, 264], k = [256, 72]))]
fn matmul_warp_specialized_bf16(case: &mut Case) -> CaseResult {
    product::<bf16>(case, |case, p: &Product<bf16>| {
        let arguments = (p.a_map(), p.b_map(), p.c_map(), p.m(), p.n(), p.k());
        case.launch(
            matmul_warp_specialized::<bf16, 128, 256, 64, 3>,
            p.tiles([128, 256]).min(128),
            arguments,
        )
    })
}
