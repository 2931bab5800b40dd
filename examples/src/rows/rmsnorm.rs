//! Root-mean-square norm with a learned weight, whole rows in registers.

use tilekit::prelude::*;
use tilekit::row_instance;

use crate::matrix::rounding;
use crate::rows::row_case::RowCase;
use tilekit::library::rows::{HeldRows, load_rows, row_warps, rows_per_program};

/// `out[row, j] = x[row, j] / sqrt(mean(x[row, :]²) + epsilon) * weight[j]` for rows of `cols <= COLS` elements.
#[kernel(warps = row_warps::<T>(COLS), instances(<bf16, 8192, 8>), signature(
    x: [rows, cols],
    weight: [cols],
    out: [rows, cols],
    row_stride = x.stride(0),
    grid = cdiv(rows, rows_per_program::<T>(COLS)),
    requires(out.stride(0) == x.stride(0), cols <= COLS),
))]
pub fn rmsnorm<T: Float, const COLS: usize, const DIVISOR: usize>(
    x: Ptr<T>,
    #[readonly] weight: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    rows: i32,
    #[multiple_of(DIVISOR)] cols: i32,
    epsilon: f32,
) {
    launch_dependents();
    launch_wait();
    let HeldRows { at, inside, col, v } =
        load_rows::<T, COLS>(x, row_stride, [rows, cols], T::ZERO);
    let w = weight.at(col).mask(col < cols).other(0).load();
    let mean = (v * v).sum(1) / cols.cast::<f32>();
    let scale = (mean + epsilon).rsqrt().expand_dims(1);
    let scaled = v * scale * w.cast::<f32>();
    out.at(at).mask(inside).store(scaled.cast::<T>());
}

const EPSILON: f32 = 1e-5;

fn rmsnorm_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let matrix = RowCase::<T>::new(case);
    let (x, out, cols) = (&matrix.x, &matrix.out, matrix.cols);
    let (stride, rows, width) = matrix.extents();
    let weight = case.normal::<T>("weight", [cols]);
    row_instance!(COLS, DIVISOR for cols, in [256, 1024, 4096, 8192, 16384] {
        let arguments = (x, &weight, out, stride, rows, width, EPSILON);
        case.launch_programmatic(rmsnorm::<T, COLS, DIVISOR>, matrix.programs(COLS), arguments)
    })?;
    let reference = |x: &[f64]| -> Vec<f64> {
        let mean = x.iter().map(|v| v * v).sum::<f64>() / cols as f64;
        let scale = 1.0 / (mean + f64::from(EPSILON)).sqrt();
        x.iter()
            .zip(weight.host())
            .map(|(v, w)| v * scale * w.number().to_f64())
            .collect()
    };
    matrix.expect(case, reference, rounding::<T>())
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
