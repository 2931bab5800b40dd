//! Softmax of rows and its gradient, whole rows in registers.

use tilekit::library::rows::{HeldRows, load_rows, row_coordinates, row_warps, rows_per_program};
use tilekit::prelude::*;
use tilekit::row_instance;

use super::rows_case::{RowsCase, close};

/// `out[row, :] = softmax(x[row, :])` for rows of `cols <= COLS` elements.
#[kernel(warps = row_warps::<T>(COLS), instances(<bf16, 1024, 8>, <bf16, 4096, 8>), signature(
    x: [rows, cols],
    out: [rows, cols],
    row_stride = x.stride(0),
    grid = cdiv(rows, rows_per_program::<T>(COLS)),
    requires(out.stride(0) == x.stride(0), cols <= COLS),
    backward(softmax_backward),
))]
pub fn softmax<T: Float, const COLS: usize, const DIVISOR: usize>(
    x: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    rows: i32,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    launch_dependents();
    launch_wait();
    let HeldRows { at, inside, v, .. } =
        load_rows::<T, COLS>(x, row_stride, [rows, cols], T::NEG_INFINITY);
    let e = ((v - v.max(1).expand_dims(1)) * LOG2_E).exp2();
    let share = e / e.sum(1).expand_dims(1);
    out.at(at).mask(inside).store(share.cast::<T>());
}

/// `dx[row, :] = out * (dout - sum(out * dout))` for rows of `cols <= COLS` elements, where `out[row, :]` is the softmax of the row.
#[kernel(warps = row_warps::<T>(COLS), instances(<bf16, 1024, 8>, <bf16, 4096, 8>), signature(
    out: [rows, cols],
    dout: [rows, cols],
    dx: [rows, cols],
    row_stride = out.stride(0),
    grid = cdiv(rows, rows_per_program::<T>(COLS)),
    requires(dout.stride(0) == out.stride(0), dx.stride(0) == out.stride(0), cols <= COLS),
))]
pub fn softmax_backward<T: Float, const COLS: usize, const DIVISOR: usize>(
    out: Ptr<T>,
    dout: Ptr<T>,
    dx: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    rows: i32,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    launch_dependents();
    launch_wait();
    let (row, col) = row_coordinates::<T>(COLS);
    let inside = (row < rows) & (col < cols);
    let at = row.cast::<i64>() * row_stride + col;
    let [p, g] = [out, dout].map(|x| {
        let source = x.at(at).mask(inside).other(0);
        source.policy(L2Policy::EvictLast).load().cast::<f32>()
    });
    let along = (p * g).sum(1).expand_dims(1);
    dx.at(at).mask(inside).store((p * (g - along)).cast::<T>());
}

fn softmax_backward_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let matrix = RowsCase::new(case);
    // Rows that sum to about 1.
    let most = 2.0 / matrix.cols as f64;
    let out = case.uniform::<T>("out", matrix.shape(), 0.0..most);
    let dout = case.normal::<T>("dout", matrix.shape());
    let dx = case.output::<T>("dx", matrix.shape());
    let (stride, rows, cols) = matrix.extents();
    row_instance!(COLS, DIVISOR for matrix.cols, in [256, 1024, 4096, 8192, 16384] {
        let programs = grid(matrix.rows.div_ceil(rows_per_program::<T>(COLS)));
        case.launch_programmatic(
            softmax_backward::<T, COLS, DIVISOR>, programs, (&out, &dout, &dx, stride, rows, cols),
        )
    })?;
    let reference = || {
        matrix.by_row([&out, &dout], |_, [p, g]| {
            let along: f64 = p.iter().zip(g).map(|(p, g)| p * g).sum();
            p.iter().zip(g).map(|(p, g)| p * (g - along)).collect()
        })
    };
    // The sum has terms of either sign: it is right relative to them.
    let tolerance = close::<T>(1e-6 + 1e-3 * most);
    case.expect_part(&dx, [matrix.rows, matrix.cols], reference, tolerance)?;
    case.moves_bytes(3 * matrix.rows * matrix.cols * size_of::<T>());
    Ok(())
}

#[case(sizes(rows = [9], cols = [1024, 4096, 1111]))]
fn softmax_backward_bf16(case: &mut Case) -> CaseResult {
    softmax_backward_of::<bf16>(case)
}

#[case(sizes(rows = [9], cols = [1024, 77]))]
fn softmax_backward_f32(case: &mut Case) -> CaseResult {
    softmax_backward_of::<f32>(case)
}

fn softmax_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let matrix = RowsCase::new(case);
    let x = case.normal::<T>("x", matrix.shape());
    let out = case.output::<T>("out", matrix.shape());
    let (stride, rows, cols) = matrix.extents();
    row_instance!(COLS, DIVISOR for matrix.cols, in [256, 1024, 4096, 8192, 16384] {
        let programs = grid(matrix.rows.div_ceil(rows_per_program::<T>(COLS)));
        case.launch_programmatic(softmax::<T, COLS, DIVISOR>, programs, (&x, &out, stride, rows, cols))
    })?;
    let reference = || {
        matrix.by_row([&x], |_, [x]| {
            let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let e: Vec<f64> = x.iter().map(|v| (v - most).exp()).collect();
            let sum: f64 = e.iter().sum();
            e.iter().map(|v| v / sum).collect()
        })
    };
    case.expect_part(
        &out,
        [matrix.rows, matrix.cols],
        reference,
        close::<T>(1e-9),
    )?;
    case.moves_bytes(2 * matrix.rows * matrix.cols * size_of::<T>());
    Ok(())
}

#[case(sizes(rows = [9], cols = [1024, 4096, 1111]))]
fn softmax_bf16(case: &mut Case) -> CaseResult {
    softmax_of::<bf16>(case)
}

#[case(sizes(rows = [9], cols = [1024, 77]))]
fn softmax_f32(case: &mut Case) -> CaseResult {
    softmax_of::<f32>(case)
}
