//! `C = A · Bᵀ` with a 2:4 sparse A, of which two of four elements of a row are kept, at up to twice the rate: the
//! kernel of [`matmul_warp_specialized`] with `mma_sparse`. A stage has the kept elements of a block of A, the block of B,
//! and the metadata that says where the elements were. That comes by a bulk copy: the host writes it tile after tile.

use std::sync::{Arc, LazyLock};

use tilekit::prelude::*;
use tilekit::sparse::Compressed;

use crate::products::matmul_warp_specialized::matmul_warp_specialized;
use crate::products::product::Product;

/// Consumer warpgroups, and the rows of each: those of one instruction.
const GROUPS: usize = 2;
const ROWS: usize = 64;
const BM: usize = GROUPS * ROWS;
const BN: usize = 256;
/// The depth of a stage, of which A keeps half, and the numbers of metadata for it: one for 16 elements of a row.
const BK: usize = 64;
const NUMBERS: usize = BK / 16;
const STAGES: usize = 4;

/// A tile of `[BM, BN]` of `C[M, N] = A[M, K] · B[N, K]ᵀ` at a time. `kept` is `[M, K / 2]`, `metadata` has tiles of
/// `[BM, NUMBERS]`, those of the same rows side by side. Edges need no code: TMA loads read zeros outside of a tensor, TMA stores
/// drop what is written there, and the metadata ends with a whole tile.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(<bf16>))]
pub fn matmul_sparse<T: Float + WgmmaOperand<T, f32>>(
    #[block([BM, BK / 2], Nvmma::B64)] kept: TensorMap<T>,
    metadata: Ptr<u16>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([ROWS, BN], Nvmma::B128)] c: TensorMap<T>,
    m: i32,
    n: i32,
    k: i32,
) {
    let buffers = (
        Smem::<T>::alloc([STAGES, BM, BK / 2], kept.layout()),
        Smem::<T>::alloc([STAGES, BN, BK], b.layout()),
        Smem::<u16>::alloc([STAGES, BM * NUMBERS], Swizzled::plain([0])),
    );
    let pipeline = Pipeline::new(buffers, Producers::Tma, Consumers::warpgroups(GROUPS));
    let epilogue = EpilogueStore::alloc(c, Turns::of_warpgroups(GROUPS).with_buffers(1));
    let tiles = GroupedRows::new([m, n], [BM, BN], 16);
    let steps = steps_along(k, BK);

    let multiply = |group: usize| {
        let rows = group * ROWS..(group + 1) * ROWS;
        let sums = Wgmma::new([4, 1], [64, BN, 16]);
        let (mut at, mut turn) = (pipeline.start(), epilogue.start());
        for _ in tiles.of_program() {
            let mut acc = Accumulator::zeros([ROWS, BN], sums.clone());
            for _ in range(0, steps) {
                let stage = pipeline.consumer_wait(at);
                let (a, b, places) = stage.tiles;
                let places = places.reshape([BM, NUMBERS]).slice(0, rows.clone());
                let places = places.load(sparse_metadata::<T>(&sums, [ROWS, BK]));
                let a = a.slice(0, rows.clone());
                acc = acc.mma_sparse(a, places, b.transpose()).wait(0);
                at = pipeline.consumer_release(stage).advance();
            }
            turn = epilogue.fill(group, turn, acc.wait_all().cast::<T>()); // mutate: equivalent(bar.sync): the buffer is ready when the results of all warps that were in it have been stored
        }
    };
    let store = |group: usize| epilogue.store_tiles(group, tiles, c);
    let copy = || {
        let mut at = pipeline.start();
        for tile in tiles.of_program() {
            let [row, column] = tiles.place(tile);
            for step in range(0, steps) {
                let stage = pipeline.producer_acquire(at);
                let (a_tile, b_tile, places) = stage.tiles;
                kept.load([row * BM, step * (BK / 2)], a_tile, stage.full);
                b.load([column * BN, step * BK], b_tile, stage.full);
                let tile = metadata.bulk((row * steps + step) * (BM * NUMBERS));
                tile.load(places, stage.full);
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

/// A sparse product beside the dense products of the same matrix, in which zeroes stand where nothing is kept: by our own
/// kernel, and by cuBLAS.
fn sparse<T: Float + WgmmaOperand<T, f32> + DeviceElement>(
    case: &mut Case,
    operand: impl Fn(&mut Case, &str, [usize; 2]) -> Input<T>,
    tolerance: impl FnOnce(&Gemm) -> Tolerance,
) -> CaseResult {
    let [m, n, k] = ["m", "n", "k"].map(|name| case.size(name));
    let stride = k.next_multiple_of(8);
    let whole = operand(case, "whole", [m, stride]);
    // Only a case that runs is compressed: cases are listed for each command.
    let compressed = Arc::new(LazyLock::new(move || Compressed::of(whole.host(), stride)));
    let shape = [m, Compressed::<T>::kept_columns_of(stride)];
    let of = Arc::clone(&compressed);
    let kept = case.input("kept", shape, move |at| of.kept()[at]);
    let of = Arc::clone(&compressed);
    let numbers = LazyLock::new(move || of.metadata_tiles([BM, BK]));
    let count = m.div_ceil(BM) * stride.div_ceil(BK) * BM * NUMBERS;
    let metadata = case.input("metadata", [count], move |at| numbers[at]);
    let p = Product::<T>::new(case, |case, name, shape| match name {
        "a" => {
            let of = Arc::clone(&compressed);
            let dense = LazyLock::new(move || of.dense());
            case.input(name, shape, move |at| dense[at])
        }
        _ => operand(case, name, shape),
    });

    let gemm = p.gemm();
    case.peer(Peer::Cublas(gemm.clone()));
    let programs = p.programs([BM, BN], 128);
    let twin = matmul_warp_specialized::<T, 256, 64, 4>;
    case.rival("dense", gemm.tolerance(), twin, programs, p.maps())?;
    // Of the rows' last group all is read, for it has its own metadata.
    let kept = kept.view().with_shape([m, k.div_ceil(4) * 2]);
    let kept = kept.with_strides([shape[1], 1]);
    let (_, b, c, rows, columns, depth) = p.maps();
    let arguments = (kept, &metadata, b, c, rows, columns, depth);
    case.launch(matmul_sparse::<T>, programs, arguments)?;
    p.expect(case, || gemm.reference(), tolerance(&gemm))?;
    case.moves_bytes(size_of::<T>() * (m * k / 2 + n * k + m * n) + m * k / 8);
    Ok(())
}

#[case(sizes(m = [640, 200, 1, 128, 1], n = [768, 264, 1, 256, 76_800], k = [256, 72, 1, 712, 8]))]
fn matmul_sparse_bf16(case: &mut Case) -> CaseResult {
    sparse::<bf16>(case, Case::normal, Gemm::tolerance)
}

/// Small whole numbers, whose sums are exact.
#[case(sizes(m = [256, 136, 128, 1], n = [512, 72, 256, 76_800], k = [320, 200, 712, 8]))]
fn matmul_sparse_exact(case: &mut Case) -> CaseResult {
    let operand =
        |case: &mut Case, name: &str, shape: [usize; 2]| case.integers::<f16>(name, shape, -3..4);
    sparse(case, operand, |_| Exactly)
}
