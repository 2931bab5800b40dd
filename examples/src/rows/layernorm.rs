//! Layer norm with weight and bias; mean and variance come from the registers that hold the row.

use tilekit::prelude::*;
use tilekit::row_instance;

use crate::matrix::rounding;
use crate::rows::row_case::RowCase;
use tilekit::library::rows::{HeldRows, load_rows, row_warps};

/// `out[row, j] = (x[row, j] - mean) / sqrt(variance + epsilon) * weight[j] + bias[j]` for rows of `cols <= COLS`
/// elements.
#[kernel(warps = row_warps::<T>(COLS), instances(<bf16, 8192, 8>))]
pub fn layernorm<T: Float, const COLS: usize, const DIVISOR: usize>(
    x: Ptr<T>,
    #[readonly] weight: Ptr<T>,
    #[readonly] bias: Ptr<T>,
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
    let count = cols.cast::<f32>();
    let mean = v.sum(1).expand_dims(1) / count;
    // Outside the row the difference would be -mean, which must not count.
    let centred = select(col < cols, v - mean, 0.0);
    let variance = (centred * centred).sum(1).expand_dims(1) / count;
    let scale = (variance + epsilon).rsqrt();
    // Weights read this late take no registers while the row is reduced.
    let [w, b] = [weight, bias].map(|p| p.at(col).mask(col < cols).other(0).load());
    let scaled = centred * scale * w.cast::<f32>() + b.cast::<f32>();
    out.at(at).mask(inside).store(scaled.cast::<T>());
}

const EPSILON: f32 = 1e-5;

fn layernorm_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let matrix = RowCase::<T>::new(case);
    let (x, out, cols) = (&matrix.x, &matrix.out, matrix.cols);
    let (stride, rows, width) = matrix.extents();
    let (weight, bias) = (
        case.normal::<T>("weight", [cols]),
        case.normal::<T>("bias", [cols]),
    );
    row_instance!(COLS, DIVISOR for cols, in [256, 1024, 4096, 8192, 16384] {
        let arguments =
            (x, &weight, &bias, out, stride, rows, width, EPSILON);
        case.launch_programmatic(layernorm::<T, COLS, DIVISOR>, matrix.programs(COLS), arguments)
    })?;
    let reference = |x: &[f64]| -> Vec<f64> {
        let mean = x.iter().sum::<f64>() / cols as f64;
        let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / cols as f64;
        let scale = 1.0 / (variance + f64::from(EPSILON)).sqrt();
        let affine = weight.host().iter().zip(bias.host());
        x.iter()
            .zip(affine)
            .map(|(v, (w, b))| (v - mean) * scale * w.number().to_f64() + b.number().to_f64())
            .collect()
    };
    matrix.expect(case, reference, close::<T>())
}

/// A sum of two terms that may cancel is not within an ulp of its reference; it is within the terms' rounding.
fn close<T: Float>() -> Tolerance {
    match rounding::<T>() {
        Ulps(_) => Close {
            relative: 8e-3,
            absolute: 1e-5,
        },
        other => other,
    }
}

#[case(sizes(rows = [64], cols = [1024, 1111]))]
fn layernorm_bf16(case: &mut Case) -> CaseResult {
    layernorm_of::<bf16>(case)
}

#[case(sizes(rows = [64], cols = [1024, 77]))]
fn layernorm_f16(case: &mut Case) -> CaseResult {
    layernorm_of::<f16>(case)
}

#[case(sizes(rows = [64], cols = [1024, 5000]))]
fn layernorm_f32(case: &mut Case) -> CaseResult {
    layernorm_of::<f32>(case)
}
