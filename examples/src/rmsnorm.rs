//! Root-mean-square norm with a learned weight, one row per program.

use tilekit::prelude::*;

use crate::instance::{row_instance, smallest_instance};
use crate::rows::{by_row, rounding, row_stride, row_warps};

/// `out[row, j] = x[row, j] / sqrt(mean(x[row, :]²) + epsilon) * weight[j]` for rows of `cols <= COLS` elements.
#[kernel(warps = row_warps::<T>(COLS), instances(<bf16, 8192, 8>))]
pub fn rmsnorm<T: Float, const COLS: usize, const DIVISOR: u32>(
    #[readonly] x: Ptr<T>,
    #[readonly] weight: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    #[multiple_of(DIVISOR)] cols: i32,
    epsilon: f32,
) {
    let row = program_id(0).cast::<i64>() * row_stride;
    let col = arange(0..COLS, Coalesced);
    let inside = col < cols;
    let v = x
        .at(row + col)
        .cache(CacheOp::Cs)
        .mask(inside)
        .other(0)
        .load()
        .cast::<f32>();
    let w = weight
        .at(col)
        .cache(CacheOp::Cs)
        .mask(inside)
        .other(0)
        .load()
        .cast::<f32>();
    let mean = (v * v).sum(0) / cols.cast::<f32>();
    let scale = (mean + epsilon).rsqrt();
    out.at(row + col)
        .cache(CacheOp::Cs)
        .mask(inside)
        .store((v * scale * w).cast::<T>());
}

const EPSILON: f32 = 1e-5;

fn rmsnorm_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let stride = row_stride(cols);
    let x = case.normal::<T>("x", [rows, stride]);
    let weight = case.normal::<T>("weight", [cols]);
    let out = case.output::<T>("out", [rows, stride]);
    row_instance!(COLS, DIVISOR for cols, in [256, 1024, 4096, 8192, 16384] {
        let arguments = (&x, &weight, &out, stride as i64, cols as i32, EPSILON);
        case.launch(rmsnorm::<T, COLS, DIVISOR>, grid(rows), arguments)
    })?;
    let reference = |x: &[f64]| -> Vec<f64> {
        let mean = x.iter().map(|v| v * v).sum::<f64>() / cols as f64;
        let scale = 1.0 / (mean + f64::from(EPSILON)).sqrt();
        x.iter()
            .zip(weight.host())
            .map(|(v, w)| v * scale * w.number().to_f64())
            .collect()
    };
    case.expect_part(
        &out,
        [rows, cols],
        || by_row(&x, cols, reference),
        rounding::<T>(),
    )?;
    case.moves_bytes(2 * rows * cols * size_of::<T>());
    Ok(())
}

#[case(sizes(rows = [64], cols = [1024, 1111]))]
fn rmsnorm_bf16(case: &mut Case) -> CaseResult {
    rmsnorm_of::<bf16>(case)
}

#[case(sizes(rows = [64], cols = [1024, 77]))]
fn rmsnorm_f16(case: &mut Case) -> CaseResult {
    rmsnorm_of::<f16>(case)
}

#[case(sizes(rows = [64], cols = [1024, 5000]))]
fn rmsnorm_f32(case: &mut Case) -> CaseResult {
    rmsnorm_of::<f32>(case)
}
