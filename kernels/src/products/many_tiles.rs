//! Products with many tiles: a persistent kernel, warp-specialized. A producer warp issues TMA loads into a ring of stages, consumer
//! warpgroups multiply some rows of a tile each, and a warp for each of them issues the TMA store of its rows, so that the next tile is
//! loaded and multiplied while the last one is stored.

use tilekit::prelude::*;

use super::plan::MULTIPROCESSORS;

/// Depth of a stage: 128 bytes of a 16-bit type, the widest row that is swizzled.
pub(super) const BK: usize = 64;

/// Rows of one `wgmma`.
pub(super) const INSTRUCTION_ROWS: usize = 64;

/// The widest swizzle whose rows divide rows of `columns` elements.
fn swizzle_of<T: Element>(columns: usize) -> Nvmma {
    let bytes = columns * size_of::<T>();
    let widest = if bytes.is_multiple_of(128) {
        Nvmma::B128
    } else if bytes.is_multiple_of(64) {
        Nvmma::B64
    } else {
        Nvmma::B32
    };
    widest.of(T::DTYPE.bits())
}

/// Registers of a consumer thread, and of a thread that loads or stores, for so many consumer warpgroups.
fn registers(groups: usize) -> [u32; 2] {
    if groups == 3 { [160, 32] } else { [232, 40] }
}

/// Rows of tiles in a group, such that a wave of tiles reads the fewest rows of A and B.
fn rows_of_group([rows, columns]: [usize; 2]) -> usize {
    let read = |group: usize| group * rows + MULTIPROCESSORS.div_ceil(group) * columns;
    [4, 8, 16, 32]
        .into_iter()
        .min_by_key(|&group| read(group))
        .unwrap_or(16)
}

/// `C[M, N] = A[M, K] · B[N, K]ᵀ` in tiles of `[GROUPS * ROWS, BN]`: each of `GROUPS` consumer warpgroups multiplies `ROWS` rows of
/// it. Edges need no code: TMA loads read zeros outside of a tensor, and TMA
/// stores drop what is written there.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(
    <bf16, 2, 64, 256, 4>,
    <bf16, 3, 64, 192, 3>,
    <bf16, 2, 128, 160, 3>,
    <bf16, 2, 64, 192, 4>,
    <bf16, 3, 64, 176, 3>,
    <bf16, 2, 64, 128, 6>
), signature(
    a: [m, k],
    b: [n, k],
    c: [m, n],
    grid = min(cdiv(m, GROUPS * ROWS) * cdiv(n, BN), sms),
))]
pub fn many_tiles<
    T: Float + WgmmaOperand<T, f32>,
    const GROUPS: usize,
    const ROWS: usize,
    const BN: usize,
    const STAGES: usize,
>(
    #[block([GROUPS * ROWS, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([ROWS, BN], swizzle_of::<T>(BN))] c: TensorMap<T>,
    m: i32,
    n: i32,
    k: i32,
) {
    let pipeline = Pipeline::tma((a, b), STAGES, Consumers::warpgroups(GROUPS));
    let turns = Turns {
        buffers: 1,
        groups: GROUPS,
        warps: 4,
    };
    let epilogue = EpilogueStore::alloc(c, turns);
    let tile = [GROUPS * ROWS, BN];
    let tiles = GroupedRows::new([m, n], tile, rows_of_group(tile));
    let steps = steps_along(k, BK);

    let multiply = |part: usize| {
        let rows = part * ROWS..(part + 1) * ROWS;
        let (mut at, mut turn) = (pipeline.start(), epilogue.start());
        for _ in tiles.of_program() {
            let sums = Wgmma::new([4, 1], [INSTRUCTION_ROWS, BN, 16]);
            let mut acc = Accumulator::zeros([ROWS, BN], sums);
            for _ in range(0, steps) {
                let stage = pipeline.consumer_wait(at);
                let (a, b) = stage.tiles;
                acc = acc.mma(a.slice(0, rows.clone()), b.transpose()).wait(0);
                at = pipeline.consumer_release(stage).advance();
            }
            turn = epilogue.fill(part, turn, acc.wait_all().cast::<T>());
        }
    };
    let store = |part: usize| {
        let mut turn = epilogue.start();
        for tile in tiles.of_program() {
            let [row, column] = tiles.place(tile);
            let at = [row * (GROUPS * ROWS) + part * ROWS, column * BN];
            turn = epilogue.store(part, turn, c, at);
        }
    };
    let load = || {
        let mut at = pipeline.start();
        for tile in tiles.of_program() {
            let [row, column] = tiles.place(tile);
            for step in range(0, steps) {
                let stage = pipeline.producer_acquire(at);
                let (a_tile, b_tile) = stage.tiles;
                a.load([row * (GROUPS * ROWS), step * BK], a_tile, stage.full);
                b.load([column * BN, step * BK], b_tile, stage.full);
                at = pipeline.commit(stage).advance();
            }
        }
    };
    let [of_consumers, of_others] = registers(GROUPS);
    let mut parts = warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0));
    for part in 1..GROUPS {
        parts = parts.worker(Warps(4).registers(of_consumers), || multiply(part));
    }
    parts = parts.worker(Warps(1).registers(of_others), load);
    for part in 0..GROUPS {
        parts = parts.worker(Warps(1).registers(of_others), || store(part));
    }
    parts.run();
}
