//! Whole rows in registers: each is read once and written once. The launch after this one may begin before it ends.

use tilekit::prelude::*;
use tilekit::row_instance;

use crate::matrix::rounding;
use crate::rows::row_case::RowCase;
use tilekit::library::rows::{HeldRows, load_rows, row_warps, rows_per_program};

/// `out[row, :] = softmax(x[row, :])` for rows of `cols <= COLS` elements. A row of `x` begins every `row_stride`
/// elements; `out` is dense if `cols` is a multiple of 8.
#[kernel(warps = row_warps::<T>(COLS), instances(<bf16, 1024, 8>, <bf16, 4096, 8>, <bf16, 8192, 8>), signature(
    x: [rows, cols],
    out: [rows, cols],
    row_stride = x.stride(0),
    grid = cdiv(rows, rows_per_program::<T>(COLS)),
    requires(out.stride(0) == x.stride(0), cols <= COLS),
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

fn softmax_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let matrix = RowCase::<T>::new(case);
    let (x, out, cols) = (&matrix.x, &matrix.out, matrix.cols);
    let (stride, rows, width) = matrix.extents();
    row_instance!(COLS, DIVISOR for cols, in [256, 1024, 4096, 16384] {
        let arguments = (x, out, stride, rows, width);
        case.launch_programmatic(softmax::<T, COLS, DIVISOR>, matrix.programs(COLS), arguments)
    })?;
    matrix.expect(case, reference, rounding::<T>())
}

pub(crate) fn reference(x: &[f64]) -> Vec<f64> {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = x.iter().map(|v| (v - max).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|v| v / sum).collect()
}

#[case(sizes(rows = [256], cols = [1024, 781]))]
fn softmax_bf16(case: &mut Case) -> CaseResult {
    softmax_of::<bf16>(case)
}

#[case(sizes(rows = [64], cols = [1024, 3001]))]
fn softmax_f16(case: &mut Case) -> CaseResult {
    softmax_of::<f16>(case)
}

#[case(sizes(rows = [64], cols = [1024, 50]))]
fn softmax_f32(case: &mut Case) -> CaseResult {
    softmax_of::<f32>(case)
}
