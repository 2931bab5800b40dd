//! An activation fused with the addition before it: `gelu(x + bias)`, in the tanh form that models are trained with.

use tilekit::library::epilogue::gelu;
use tilekit::prelude::*;

use crate::matrix::row_stride;

/// `out[r, j] = gelu(x[r, j] + bias[j])` for `rows` rows of `cols` elements, a tile of `ROWS × COLS` per program.
#[kernel(warps = 4)]
pub fn gelu_bias<T: Float, const ROWS: usize, const COLS: usize>(
    x: Ptr<T>,
    bias: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    rows: i32,
    cols: i32,
) {
    let row = program_id(1) * ROWS + arange(0..ROWS, Coalesced).expand_dims(1);
    let col = program_id(0) * COLS + arange(0..COLS, Coalesced).expand_dims(0);
    let inside = (row < rows) & (col < cols);
    let at = row.cast::<i64>() * row_stride + col;
    let b = bias.at(col).mask(col < cols).other(0).load().cast::<f32>();
    // What is written leaves L2 before what is read: writes flow.
    let v = x
        .at(at)
        .mask(inside)
        .other(0)
        .policy(L2Policy::EvictLast)
        .load()
        .cast::<f32>();
    out.at(at).mask(inside).store(gelu(v + b).cast::<T>());
}

fn gelu_bias_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    const ROWS: usize = 1;
    const COLS: usize = 1024;
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let stride = row_stride(cols);
    let x = case.normal::<T>("x", [rows, stride]);
    let bias = case.normal::<T>("bias", [cols]);
    let out = case.output::<T>("out", [rows, stride]);
    let arguments = (&x, &bias, &out, stride as i64, rows as i32, cols as i32);
    let tiles = grid([cols.div_ceil(COLS), rows.div_ceil(ROWS)]);
    case.launch(gelu_bias::<T, ROWS, COLS>, tiles, arguments)?;
    // The hardware's tanh is good to 2^-11, and so is the result, relative to the larger of x and 1.
    let tolerance = Close {
        relative: 8e-3,
        absolute: 2e-3,
    };
    let reference = || {
        let row = |r: usize| {
            let (x, bias) = (&x, &bias);
            (0..cols).map(move |c| {
                gelu_reference(x[[r, c]].number().to_f64() + bias[c].number().to_f64())
            })
        };
        (0..rows).flat_map(row).collect()
    };
    case.expect_part(&out, [rows, cols], reference, tolerance)?;
    case.moves_bytes(2 * rows * cols * size_of::<T>());
    Ok(())
}

fn gelu_reference(x: f64) -> f64 {
    let inner = (2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3));
    0.5 * x * (1.0 + inner.tanh())
}

#[case(sizes(rows = [64], cols = [2048, 1501]))]
fn gelu_bias_bf16(case: &mut Case) -> CaseResult {
    gelu_bias_of::<bf16>(case)
}

#[case(sizes(rows = [33], cols = [1024]))]
fn gelu_bias_f16(case: &mut Case) -> CaseResult {
    gelu_bias_of::<f16>(case)
}

#[case(sizes(rows = [33], cols = [1000]))]
fn gelu_bias_f32(case: &mut Case) -> CaseResult {
    gelu_bias_of::<f32>(case)
}
