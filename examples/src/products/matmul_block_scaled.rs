//! `C = A · Bᵀ` of 8-bit floats with a scale for each 128 elements of a row of A and each 128 by 128 block of B (DeepSeek-V3). The tensor
//! cores multiply one block of K at a time, and its products are scaled and added in f32 on the CUDA cores. Two accumulators are in flight by
//! turns, so that the scaling of a block runs beside the product of the next one.

use tilekit::prelude::*;

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
    #[readonly] a_scale: Ptr<f32>,
    #[readonly] b_scale: Ptr<f32>,
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
                let product = zeros.mma(a.slice(0, rows.clone()), b.transpose());
                (product, stage.hold())
            };
            let mut total = zeros([ROWS, BN], layout.clone());
            let ((mut pending, mut held), mut scale) = (start(at), scale_of(scalar(0)));
            for step in range(1, steps) {
                let ((next, next_held), next_scale) = (start(held.next()), scale_of(step));
                let products = pending.wait_older_than(1);
                pipeline.consumer_release(held);
                total += products * scale.expand_dims(1);
                (pending, held, scale) = (next, next_held, next_scale);
            }
            total += pending.wait_all() * scale.expand_dims(1);
            at = pipeline.consumer_release(held).advance();
            tma_store_wait_read(0);
            staging[group].store(total.cast::<bf16>());
            c.store([first, column * BN], staging[group]);
        }
        tma_store_wait_read(0);
    };
    let copy = || {
        let mut at = pipeline.start();
        for tile in tiles.of_program() {
            let [row, column] = tiles.place(tile);
            for step in range(0, steps) {
                let stage = pipeline.producer_acquire(at);
                let (a_tile, b_tile) = stage.tiles;
                a.load([row * BM, step * BLOCK], a_tile, stage.full);
                b.load([column * BN, step * BLOCK], b_tile, stage.full);
                at = pipeline.commit(stage).advance();
            }
        }
    };
    warp_specialize()
        .registers(232)
        .main(|| multiply(0))
        .worker(Warps(4).registers(232), || multiply(1))
        .worker(Warps(1).registers(40), copy)
        .run();
}

/// The product in f64 of factors that are scaled first.
fn reference(
    [m, n, k]: [usize; 3],
    stride: usize,
    [a, b]: [&Input<E4m3>; 2],
    [a_scale, b_scale]: [&Input<f32>; 2],
) -> Vec<f64> {
    let scaled = |x: &Input<E4m3>, rows: usize, scale: &dyn Fn(usize, usize) -> f32| {
        let numbers = x.host().iter().enumerate();
        let scaled = numbers.map(|(at, x)| {
            let (row, column) = (at / stride, at % stride);
            x.number().to_f64() * f64::from(scale(row, column / BLOCK))
        });
        scaled.take(rows * stride).collect::<Vec<f64>>()
    };
    let blocks = k.div_ceil(BLOCK);
    let of_a = |row: usize, block: usize| a_scale.host()[block.min(blocks - 1) * m + row];
    let columns = n.div_ceil(BLOCK);
    let of_b =
        |row: usize, block: usize| b_scale.host()[block.min(blocks - 1) * columns + row / BLOCK];
    let (a, b) = (scaled(a, m, &of_a), scaled(b, n, &of_b));
    let row = |x: &[f64], at: usize| -> Vec<f64> { x[at * stride..at * stride + k].to_vec() };
    let mut all = Vec::with_capacity(m * n);
    let rows: Vec<Vec<f64>> = (0..n).map(|at| row(&b, at)).collect();
    for at in 0..m {
        let of_a = row(&a, at);
        let dot = |of_b: &Vec<f64>| of_a.iter().zip(of_b).map(|(x, y)| x * y).sum::<f64>();
        all.extend(rows.iter().map(dot));
    }
    all
}

#[case(sizes(m = [200, 256, 1], n = [264, 128, 8], k = [656, 384, 128]))]
fn matmul_block_scaled_fp8(case: &mut Case) -> CaseResult {
    let size = ["m", "n", "k"].map(|name| case.size(name));
    let [m, n, k] = size;
    // Rows begin at multiples of 16 bytes.
    let (stride, c_stride) = (k.next_multiple_of(16), n.next_multiple_of(8));
    let blocks = [k.div_ceil(BLOCK), n.div_ceil(BLOCK)];
    let a = case.normal::<E4m3>("a", [m, stride]);
    let b = case.normal::<E4m3>("b", [n, stride]);
    let a_scale = case.uniform::<f32>("a_scale", [blocks[0], m], 0.25..1.0);
    let b_scale = case.uniform::<f32>("b_scale", [blocks[0], blocks[1]], 0.25..1.0);
    let c = case.output::<bf16>("c", [m, c_stride]);
    let tiles = m.div_ceil(BM) * n.div_ceil(BN);
    let maps = (
        a.view().with_shape([m, k]).with_strides([stride, 1]),
        b.view().with_shape([n, k]).with_strides([stride, 1]),
        c.view().with_shape([m, n]).with_strides([c_stride, 1]),
    );
    let programs = if tiles < 16 {
        tiles.min(3)
    } else {
        tiles.min(132)
    };
    case.launch(
        matmul_block_scaled,
        programs,
        (
            maps.0, maps.1, maps.2, &a_scale, &b_scale, m as i32, n as i32, k as i32,
        ),
    )?;
    // Half a step of bf16, and what the tensor cores lose of the 128 products of a block: they keep 14 bits.
    let tolerance = Close {
        relative: 4e-3,
        absolute: 4e-4 * (k as f64).sqrt(),
    };
    let compute = || reference(size, stride, [&a, &b], [&a_scale, &b_scale]);
    case.expect_part_in_units(&c, [m, n], compute, tolerance)?;
    case.does_tensor_flops::<E4m3>(2 * m * n * k);
    case.moves_bytes(m * k + n * k + 2 * m * n);
    Ok(())
}
