//! A product with weights of 4 bits: they come from memory as they are, two in a byte, and become bf16 in registers, from
//! where the tensor cores take operand A. So the weights are operand A, the tokens operand B, and the product
//! comes out turned round; it is turned back on its way through shared memory.

use tilekit::prelude::*;

/// Weight rows of a program, and tokens.
const ROWS: usize = 128;
const TOKENS: usize = 64;
const BK: usize = 64;
const STAGES: usize = 4;

/// `out[M, N] = x[M, K] · (scales[N] · (w[N, K] - 8))ᵀ`. A byte of `w` has the weight of an even place in its lower half and the next
/// one in its upper half.
#[kernel(warps = 8, min_ctas_per_sm = 1)]
pub fn matmul_int4(
    #[block([ROWS, BK / 2], Nvmma::B32)] w: TensorMap<u8>,
    #[block([TOKENS, BK], Nvmma::B128)] x: TensorMap<bf16>,
    #[block([TOKENS, ROWS], Nvmma::B128)] out: TensorMap<bf16>,
    scales: Ptr<f32>,
    n: i32,
    k: i32,
) {
    let pipeline = Pipeline::tma((w, x), STAGES, Consumers::warpgroups(2));
    let place = [program_id(0), program_id(1)];
    let [row, token] = [place[0] * ROWS, place[1] * TOKENS];
    let steps = steps_along(k, BK);

    let multiply = || {
        let sums = Wgmma::new([8, 1], [64, TOKENS, 16]);
        // A thread has neighbours along K two by two, and so a byte of both.
        let [bytes, pairs] = [1, 2].map(|width| DotOperand::new(0, sums.clone(), width));
        let mut acc = Accumulator::<f32>::zeros([ROWS, TOKENS], sums.clone());
        let mut at = pipeline.start();
        for _ in range(0, steps) {
            let stage = pipeline.consumer_wait(at);
            let (packed, tokens) = stage.tiles;
            let both = packed.load(bytes.clone());
            let [low, high] = [both & 15, both >> 4].map(|half| half.cast::<bf16>() - 8);
            let weights = join(low, high).reshape([ROWS, BK]);
            let weights = weights.convert_layout_trivial(pairs.clone());
            acc = acc.mma(weights, tokens.transpose()).wait(0);
            at = pipeline.consumer_release(stage).advance();
        }
        let scale = load_along(scales, rows_of(sums, row, ROWS), n);
        let result = acc.wait_all() * scale;
        let tile = Smem::<bf16>::alloc(out.block(), out.layout());
        tile.transpose().store(result.cast::<bf16>());
        out.store([token, row], tile);
        tma_store_wait_read(0);
    };
    let copy = || {
        pipeline.load_operands(&mut pipeline.start(), range(0, steps), (w, x), place);
    };
    warp_specialize()
        .main(multiply)
        .worker(Warps(1), copy)
        .run();
}

#[case(sizes(m = [64, 17, 1], n = [128, 200, 8], k = [1024, 96, 32]))]
fn matmul_int4_scaled(case: &mut Case) -> CaseResult {
    let [m, n, k] = ["m", "n", "k"].map(|name| case.size(name));
    let w = case.integers::<u8>("w", [n, k / 2], 0..256);
    let x = case.normal::<bf16>("x", [m, k]);
    let scales = case.uniform::<f32>("scales", [n], 0.5..2.0);
    let out = case.output::<bf16>("out", [m, n]);
    case.launch(
        matmul_int4,
        grid([n.div_ceil(ROWS), m.div_ceil(TOKENS)]),
        (&w, &x, &out, &scales, n as i32, k as i32),
    )?;
    let weight = |j: usize, at: usize| {
        let byte = w[[j, at / 2]];
        f64::from(byte >> (at % 2 * 4) & 15) - 8.0
    };
    let sum = |[i, j]: [usize; 2]| -> f64 {
        let terms = (0..k).map(|at| f64::from(x[[i, at]]) * weight(j, at));
        terms.sum::<f64>() * f64::from(scales[[j]])
    };
    // Half a step of the output's type, and the rounding of accumulation in f32.
    let tolerance = Close {
        relative: 4e-3,
        absolute: 1e-3 * (k as f64).sqrt(),
    };
    case.expect(&out, sum, tolerance)?;
    case.does_tensor_flops::<bf16>(2 * m * n * k);
    case.moves_bytes(n * k / 2 + 2 * (m * k + m * n));
    Ok(())
}
