//! `C = A · Bᵀ`, warp-specialized: a producer warp issues TMA loads into a ring of stages, two consumer warpgroups multiply
//! half of a tile each, and a warp for each of them issues the TMA store of its half. The kernel is persistent: loads of the
//! next tile are in flight while the last one is stored, and the consumers only multiply and convert. They convert one after
//! the other, through one buffer in shared memory: so the second lags behind the first by the time of a conversion, and the
//! tensor cores have work while either converts.

use tilekit::prelude::*;

use crate::products::product::{Product, product};

/// Consumer warpgroups, and the rows of each: those of one instruction.
const GROUPS: usize = 2;
const ROWS: usize = 64;
const BM: usize = GROUPS * ROWS;

/// A tile of `[BM, BN]` of `C[M, N] = A[M, K] · B[N, K]ᵀ` at a time. Edges need no code: TMA loads read zeros outside of a
/// tensor, and TMA stores drop what is written there.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(<bf16, 256, 64, 4>, <f16, 256, 64, 4>, <bf16, 128, 64, 4>), signature(
    a: [m, k],
    b: [n, k],
    c: [m, n],
    grid = min(cdiv(m, BM) * cdiv(n, BN), sms),
))]
pub fn matmul_warp_specialized<
    T: Float + WgmmaOperand<T, f32>,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([ROWS, BN], Nvmma::B128)] c: TensorMap<T>,
    m: i32,
    n: i32,
    k: i32,
) {
    let pipeline = Pipeline::tma((a, b), STAGES, Consumers::warpgroups(GROUPS));
    let epilogue = EpilogueStore::alloc(c, Turns::of_warpgroups(GROUPS).with_buffers(1));
    let tiles = GroupedRows::new([m, n], [BM, BN], 16);
    let steps = steps_along(k, BK);

    let multiply = |group: usize| {
        let rows = group * ROWS..(group + 1) * ROWS;
        let (mut at, mut turn) = (pipeline.start(), epilogue.start());
        for _ in tiles.of_program() {
            let sums = Wgmma::new([4, 1], [64, BN, 16]);
            let mut acc = Accumulator::zeros([ROWS, BN], sums);
            for _ in range(0, steps) {
                let stage = pipeline.consumer_wait(at);
                let (a, b) = stage.tiles;
                acc = acc.mma(a.slice(0, rows.clone()), b.transpose()).wait(0);
                at = pipeline.consumer_release(stage).advance();
            }
            turn = epilogue.fill(group, turn, acc.wait_all().cast::<T>()); // mutate: equivalent(bar.sync): the buffer is ready when the results of all warps that were in it have been stored
        }
    };
    let store = |group: usize| {
        let mut turn = epilogue.start();
        for tile in tiles.of_program() {
            let [row, column] = tiles.place(tile);
            let at = [row * BM + group * ROWS, column * BN];
            turn = epilogue.store(group, turn, c, at);
        }
    };
    let copy = || {
        let mut at = pipeline.start();
        for tile in tiles.of_program() {
            let [row, column] = tiles.place(tile);
            for step in range(0, steps) {
                let stage = pipeline.producer_acquire(at);
                let (a_tile, b_tile) = stage.tiles;
                a.load([row * BM, step * BK], a_tile, stage.full);
                b.load([column * BN, step * BK], b_tile, stage.full);
                at = pipeline.commit(stage).advance();
            }
        }
    };
    warp_specialize()
        .registers(232)
        .main(|| multiply(0))
        .workers(1..GROUPS, Warps(4).registers(232), multiply)
        .worker(Warps(1).registers(40), copy)
        .workers(0..GROUPS, Warps(1).registers(40), store)
        .run();
}

fn matmul<T, const BN: usize, const STAGES: usize>(case: &mut Case) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + DeviceElement,
{
    product::<T>(case, |case, p: &Product<T>| {
        let kernel = matmul_warp_specialized::<T, BN, 64, STAGES>;
        // A wave of whole tiles on an H200.
        case.launch(kernel, p.programs([BM, BN], 128), p.maps())
    })
}

#[case(sizes(m = [640, 200, 128, 1], n = [768, 264, 256, 76_800], k = [256, 72, 712, 8]))]
fn matmul_warp_specialized_bf16(case: &mut Case) -> CaseResult {
    matmul::<bf16, 256, 4>(case)
}

#[case(sizes(m = [256, 1, 128, 1], n = [512, 1, 256, 76_800], k = [256, 1, 712, 8]))]
fn matmul_warp_specialized_f16(case: &mut Case) -> CaseResult {
    matmul::<f16, 256, 4>(case)
}

#[case(sizes(m = [512, 136, 128, 1], n = [384, 72, 256, 76_800], k = [320, 200, 712, 8]))]
fn matmul_warp_specialized_narrow(case: &mut Case) -> CaseResult {
    matmul::<bf16, 128, 4>(case)
}
