//! `C = A · Bᵀ` by warps that part: one warp lets the copy engine fill a ring of stages, two warpgroups multiply what is
//! there, each the half of a tile, and a warp for each of them lets the copy engine store it. The kernel is persistent: the
//! copies of the next tile run while the last one is stored, and the warpgroups do nothing but multiply and convert. They
//! convert one after the other, through one place in shared memory: so the second comes to lag behind the first by what that
//! takes, and the tensor cores have work while either converts.

use tilekit::prelude::*;

use crate::order::{Grouped, Order};
use crate::pipeline::{Outbox, Ring, Stage, steps_along};
use crate::product::{Product, product};

/// Warpgroups that multiply, and the rows of each: those of one instruction.
const GROUPS: usize = 2;
const ROWS: usize = 64;
const BM: usize = GROUPS * ROWS;

/// A tile of `[BM, BN]` of `C[M, N] = A[M, K] · B[N, K]ᵀ` at a time. Edges need no code: the copy engine reads zeros outside
/// of a tensor and drops what is written there.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(<bf16, 256, 64, 4>, <f16, 256, 64, 4>, <bf16, 128, 64, 4>))]
pub fn matmul_warp_specialized<
    T: Float + Factor<T, f32>,
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
    let ring = Ring::alloc([BM, BN, BK], STAGES, 4 * GROUPS);
    let outbox = Outbox::alloc(c, 1, GROUPS, 4);
    let tiles = Grouped::new(m, n, [BM, BN], 16);
    let steps = steps_along(k, BK);

    let multiply = |group: usize| {
        let rows = group * ROWS..(group + 1) * ROWS;
        let (mut stage, mut round) = (Stage::first(), scalar(0));
        for _ in tiles.of_program() {
            let sums = Wgmma::new([4, 1], [64, BN as u32, 16]);
            let mut acc = Accumulator::zeros([ROWS, BN], sums);
            for _ in range(0, steps) {
                ring.full.at(stage.index).wait(stage.phase);
                let a = ring.a.index(stage.index).slice(0, rows.clone());
                let b = ring.b.index(stage.index).transpose();
                acc = acc.mma(a, b).wait(0);
                let done = ring.empty.at(stage.index).arrival();
                done.by(Arrivers::Warp).arrive();
                stage = stage.next(STAGES);
            }
            outbox.fill(group, round, acc.wait_all().cast::<T>());
            round ^= 1;
        }
    };
    let store = |group: usize| {
        let mut round = scalar(0);
        for tile in tiles.of_program() {
            let [row, column] = tiles.place(tile);
            let at = [row * BM + group * ROWS, column * BN];
            outbox.store(group, round, c, at);
            round ^= 1;
        }
    };
    let copy = || {
        let mut stage = Stage::first();
        for tile in tiles.of_program() {
            let [row, column] = tiles.place(tile);
            for step in range(0, steps) {
                ring.fill(stage, [a, b], [row, column, step]);
                stage = stage.next(STAGES);
            }
        }
    };
    warp_specialize()
        .registers(232)
        .main(|| multiply(0))
        .worker(Warps(4).registers(232), || multiply(1))
        .worker(Warps(1).registers(40), copy)
        .worker(Warps(1).registers(40), || store(0))
        .worker(Warps(1).registers(40), || store(1));
}

fn matmul<T, const BN: usize, const STAGES: usize>(case: &mut Case) -> CaseResult
where
    T: Float + Factor<T, f32> + DeviceElement,
{
    product::<T>(case, |case, p: &Product<T>| {
        let kernel = matmul_warp_specialized::<T, BN, 64, STAGES>;
        let arguments = (p.a_map(), p.b_map(), p.c_map(), p.m(), p.n(), p.k());
        // A wave of whole tiles on an H200. Small products have few programs, so that these make several tiles.
        let tiles = p.tiles([BM, BN]);
        let programs = if tiles < 16 {
            tiles.min(3)
        } else {
            tiles.min(128)
        };
        case.launch(kernel, programs, arguments)
    })
}

#[case(sizes(m = [640, 200], n = [768, 264], k = [256, 72]))]
fn matmul_warp_specialized_bf16(case: &mut Case) -> CaseResult {
    matmul::<bf16, 256, 4>(case)
}

#[case(sizes(m = [256, 1], n = [512, 1], k = [256, 1]))]
fn matmul_warp_specialized_f16(case: &mut Case) -> CaseResult {
    matmul::<f16, 256, 4>(case)
}

#[case(sizes(m = [512, 136], n = [384, 72], k = [320, 200]))]
fn matmul_warp_specialized_narrow(case: &mut Case) -> CaseResult {
    matmul::<bf16, 128, 4>(case)
}
