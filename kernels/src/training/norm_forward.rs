//! Root-mean-square norm and layer norm, whole rows in registers, with the statistics of each row that their gradients read.

use tilekit::library::rows::{HeldRows, load_rows, row_coordinates, row_warps, rows_per_program};
use tilekit::prelude::*;
use tilekit::row_instance;

use super::rows_case::{RowsCase, close};

/// Stores a number of each row of this program.
#[device]
fn store_of_rows<T: Float, const COLS: usize>(target: Ptr<f32>, v: Tensor<f32>, rows: Scalar<i32>) {
    let (row, _) = row_coordinates::<T>(COLS);
    target.at(row).mask(row < rows).store(v);
}

/// `out[row, :] = x[row, :] * rstd[row] * weight` with `rstd[row] = 1 / sqrt(mean(x[row, :]²) + epsilon)`, which is stored for the
/// gradients, for rows of `cols <= COLS` elements.
#[kernel(warps = row_warps::<T>(COLS), instances(<bf16, 1024, 8>, <bf16, 4096, 8>, <bf16, 8192, 8>), signature(
    x: [rows, cols],
    weight: [cols],
    out: [rows, cols],
    rstd: [rows],
    row_stride = x.stride(0),
    grid = cdiv(rows, rows_per_program::<T>(COLS)),
    requires(out.stride(0) == x.stride(0), cols <= COLS),
))]
pub fn rmsnorm<T: Float, const COLS: usize, const DIVISOR: usize>(
    x: Ptr<T>,
    #[readonly] weight: Ptr<T>,
    out: Ptr<T>,
    rstd: Ptr<f32>,
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
    store_of_rows::<T, COLS>(rstd, scale, rows);
    let scaled = v * scale * w.cast::<f32>();
    out.at(at).mask(inside).store(scaled.cast::<T>());
}

/// `out[row, :] = (x[row, :] - mean[row]) * rstd[row] * weight + bias` with `rstd[row] = 1 / sqrt(variance(x[row, :]) + epsilon)`; both are
/// stored for the gradients, for rows of `cols <= COLS` elements.
#[kernel(warps = row_warps::<T>(COLS), instances(<bf16, 1024, 8>, <bf16, 4096, 8>, <bf16, 8192, 8>), signature(
    x: [rows, cols],
    weight: [cols],
    bias: [cols],
    out: [rows, cols],
    mean: [rows],
    rstd: [rows],
    row_stride = x.stride(0),
    grid = cdiv(rows, rows_per_program::<T>(COLS)),
    requires(out.stride(0) == x.stride(0), cols <= COLS),
))]
pub fn layernorm<T: Float, const COLS: usize, const DIVISOR: usize>(
    x: Ptr<T>,
    #[readonly] weight: Ptr<T>,
    #[readonly] bias: Ptr<T>,
    out: Ptr<T>,
    mean: Ptr<f32>,
    rstd: Ptr<f32>,
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
    let middle = v.sum(1).expand_dims(1) / count;
    // Outside the row the difference would be -mean, which must not count.
    let centred = select(col < cols, v - middle, 0.0);
    let variance = (centred * centred).sum(1).expand_dims(1) / count;
    let scale = (variance + epsilon).rsqrt();
    store_of_rows::<T, COLS>(mean, middle, rows);
    store_of_rows::<T, COLS>(rstd, scale, rows);
    // Weights read this late take no registers while the row is reduced.
    let [w, b] = [weight, bias].map(|p| p.at(col).mask(col < cols).other(0).load());
    let scaled = centred * scale * w.cast::<f32>() + b.cast::<f32>();
    out.at(at).mask(inside).store(scaled.cast::<T>());
}

const EPSILON: f32 = 1e-5;

/// Mean, or 0 where the norm has none, and `1 / sqrt(variance + EPSILON)` of a row.
fn statistics(x: &[f64], is_centred: bool) -> [f64; 2] {
    let count = x.len() as f64;
    let mean = if is_centred {
        x.iter().sum::<f64>() / count
    } else {
        0.0
    };
    let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
    [mean, 1.0 / (variance + f64::from(EPSILON)).sqrt()]
}

fn norm_of<T: Float + DeviceElement>(case: &mut Case, is_centred: bool) -> CaseResult {
    let matrix = RowsCase::new(case);
    let x = case.normal::<T>("x", matrix.shape());
    let [weight, bias] = ["weight", "bias"].map(|name| case.normal::<T>(name, [matrix.cols]));
    let out = case.output::<T>("out", matrix.shape());
    let [mean, rstd] = ["mean", "rstd"].map(|name| case.output::<f32>(name, [matrix.rows]));
    let (stride, rows, cols) = matrix.extents();
    row_instance!(COLS, DIVISOR for matrix.cols, in [256, 1024, 4096, 8192, 16384] {
        let programs = grid(matrix.rows.div_ceil(rows_per_program::<T>(COLS)));
        if is_centred {
            let arguments = (&x, &weight, &bias, &out, &mean, &rstd, stride, rows, cols, EPSILON);
            case.launch_programmatic(layernorm::<T, COLS, DIVISOR>, programs, arguments)
        } else {
            let arguments = (&x, &weight, &out, &rstd, stride, rows, cols, EPSILON);
            case.launch_programmatic(rmsnorm::<T, COLS, DIVISOR>, programs, arguments)
        }
    })?;
    let reference = || {
        matrix.by_row([&x], |_, [x]| {
            let [mean, rstd] = statistics(x, is_centred);
            let affine = weight.host().iter().zip(bias.host());
            let of = x.iter().zip(affine).map(|(v, (w, b))| {
                let b = if is_centred { b.number().to_f64() } else { 0.0 };
                (v - mean) * rstd * w.number().to_f64() + b
            });
            of.collect()
        })
    };
    case.expect_part(
        &out,
        [matrix.rows, matrix.cols],
        reference,
        close::<T>(2e-5),
    )?;
    let of_rows = |which: usize| {
        let of = matrix.by_row([&x], |_, [x]| statistics(x, is_centred).to_vec());
        of.into_iter().skip(which).step_by(2).collect::<Vec<f64>>()
    };
    if is_centred {
        case.expect_all(&mean, || of_rows(0), close::<f32>(1e-6))?;
    }
    case.expect_all(&rstd, || of_rows(1), close::<f32>(1e-6))?;
    case.moves_bytes(2 * matrix.rows * matrix.cols * size_of::<T>());
    Ok(())
}

#[case(sizes(rows = [9], cols = [1024, 4096, 1111]))]
fn rmsnorm_bf16(case: &mut Case) -> CaseResult {
    norm_of::<bf16>(case, false)
}

#[case(sizes(rows = [9], cols = [1024, 77]))]
fn rmsnorm_f32(case: &mut Case) -> CaseResult {
    norm_of::<f32>(case, false)
}

#[case(sizes(rows = [9], cols = [1024, 4096, 1111]))]
fn layernorm_bf16(case: &mut Case) -> CaseResult {
    norm_of::<bf16>(case, true)
}

#[case(sizes(rows = [9], cols = [1024, 77]))]
fn layernorm_f32(case: &mut Case) -> CaseResult {
    norm_of::<f32>(case, true)
}
