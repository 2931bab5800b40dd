//! `C = A · Bᵀ` of 8-bit floats with a scale for each 128 elements of a row of A and each 128 by 128 block of B (DeepSeek-V3). The tensor
//! cores multiply one block of K at a time, and its products are scaled and added in f32 on the CUDA cores. Two accumulators are in flight by
//! turns, so that the scaling of a block runs beside the product of the next one.

use tilekit::prelude::*;

use crate::products::product::Product;

/// Consumer warpgroups, and the rows of each.
const GROUPS: usize = 2;
const ROWS: usize = 64;
const BM: usize = GROUPS * ROWS;
const BN: usize = 128;
/// Elements along K, and columns of B, that share a scale.
const BLOCK: usize = 128;
const STAGES: usize = 5;

/// A tile of `[BM, BN]` of `C[M, N]` at a time. `a_scale` is `[K / 128, M]`, `b_scale` is `[K / 128, N / 128]`, both rounded up.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn matmul_block_scaled(
    #[block([BM, BLOCK], Nvmma::B128)] a: TensorMap<E4m3>,
    #[block([BN, BLOCK], Nvmma::B128)] b: TensorMap<E4m3>,
    #[block([ROWS, BN], Nvmma::B128)] c: TensorMap<bf16>,
    #[readonly]
    #[readonly]
    a_scale: Ptr<f32>,
    #[readonly]
    #[readonly]
    b_scale: Ptr<f32>,
    m: i32,
    n: i32,
    k: i32,
) {
    let pipeline = Pipeline::tma((a, b), STAGES, Consumers::warpgroups(GROUPS));
    let staging = [(); GROUPS].map(|()| Smem::<bf16>::alloc(c.block(), c.layout()));
    let tiles = GroupedRows::new([m, n], [BM, BN], 16);
    let steps = steps_along(k, BLOCK);

    let multiply = |group: usize| {
        let layout = Wgmma::new([4, 1], [64, BN, 32]);
        let rows = group * ROWS..(group + 1) * ROWS;
        let mut at = pipeline.start();
        for tile in tiles.of_program() {
            let [row, column] = tiles.place(tile);
            let first = row * BM + group * ROWS;
            let place = first + arange(0..ROWS, Slice::new(1, layout.clone()));
            let scale_of = |step: Scalar<i32>| {
                let of_rows = a_scale
                    .at(step * m + place)
                    .mask(place < m)
                    .other(0.0)
                    .load();
                of_rows * b_scale.at(step * cdiv(n, BLOCK) + column).load()
            };
            let start = |at: PipelineState| {
                let stage = pipeline.consumer_wait(at);
                let (a, b) = stage.tiles;
                let zeros = Accumulator::zeros([ROWS, BN], layout.clone());
                let product = zeros.mma(a.slice(0, rows.clone()), b.transpose()); // mutate: equivalent(wgmma.fence): the fence of another product stands between two that use the same registers
                (product, stage.hold())
            };
            let mut total = zeros([ROWS, BN], layout.clone());
            let ((mut pending, mut held), mut scale) = (start(at), scale_of(scalar(0)));
            for step in range(1, steps) {
                let ((next, next_held), next_scale) = (start(held.next()), scale_of(step));
                let products = pending.wait_older_than(1); // mutate: equivalent(wgmma.wait_group, wgmma.wait_group+1): what is carried is waited for before the next product begins, lest ptxas serialize both (C7514)
                pipeline.consumer_release(held);
                total += products * scale.expand_dims(1);
                (pending, held, scale) = (next, next_held, next_scale);
            }
            total += pending.wait_all() * scale.expand_dims(1); // mutate: equivalent(wgmma.wait_group, wgmma.wait_group+1): the loop has waited for it
            at = pipeline.consumer_release(held).advance();
            tma_store_wait_read(0);
            staging[group].store(total.cast::<bf16>());
            c.store([first, column * BN], staging[group]);
        }
        tma_store_wait_read(0);
    };
    let copy = || pipeline.load_tiles(tiles, steps, (a, b));
    warp_specialize()
        .registers(232)
        .main(|| multiply(0))
        .workers(1..GROUPS, Warps(4).registers(232), multiply)
        .worker(Warps(1).registers(40), copy)
        .run();
}

/// The product in f64 of operands that are scaled first.
fn reference(
    p: &Product<E4m3, bf16>,
    [m, n, k]: [usize; 3],
    [a_scale, b_scale]: [&Input<f32>; 2],
) -> Vec<f64> {
    let scaled = |x: &Input<E4m3>, row: usize, scale: &dyn Fn(usize) -> f32| -> Vec<f64> {
        let number = |at: usize| x[[row, at]].number().to_f64() * f64::from(scale(at / BLOCK));
        (0..k).map(number).collect()
    };
    let [a, b] = p.operands();
    let of_a = |row: usize| scaled(a, row, &|block| a_scale[[block, row]]);
    let of_b = |row: usize| scaled(b, row, &|block| b_scale[[block, row / BLOCK]]);
    let columns: Vec<Vec<f64>> = (0..n).map(of_b).collect();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let of_row = |row: Vec<f64>| columns.iter().map(move |column| dot(&row, column));
    (0..m).map(of_a).flat_map(of_row).collect()
}

#[case(sizes(m = [200, 256, 1], n = [264, 128, 8], k = [656, 384, 128]))]
fn matmul_block_scaled_fp8(case: &mut Case) -> CaseResult {
    let size = ["m", "n", "k"].map(|name| case.size(name));
    let [m, n, k] = size;
    let blocks = [k.div_ceil(BLOCK), n.div_ceil(BLOCK)];
    let p = Product::<E4m3, bf16>::new(case, Case::normal);
    let a_scale = case.uniform::<f32>("a_scale", [blocks[0], m], 0.25..1.0);
    let b_scale = case.uniform::<f32>("b_scale", blocks, 0.25..1.0);
    let (a, b, c, rows, columns, depth) = p.maps();
    let arguments = (a, b, c, &a_scale, &b_scale, rows, columns, depth);
    case.launch(matmul_block_scaled, p.programs([BM, BN], 132), arguments)?;
    // Half a step of bf16, and what the tensor cores lose of the 128 products of a block: they keep 14 bits.
    let tolerance = Close {
        relative: 4e-3,
        absolute: 4e-4 * (k as f64).sqrt(),
    };
    p.expect(
        case,
        || reference(&p, size, [&a_scale, &b_scale]),
        tolerance,
    )
}
