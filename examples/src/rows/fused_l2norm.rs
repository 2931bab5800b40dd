//! Each row divided by its length, in one pass: the row stays in registers between the sum and the division.

use tilekit::prelude::*;
use tilekit::row_instance;

use crate::matrix::rounding;
use crate::rows::row_case::RowCase;
use tilekit::library::rows::{HeldRows, load_rows, row_warps};

/// `out[row, :] = x[row, :] / ‖x[row, :]‖₂` for rows of `cols <= COLS` elements.
#[kernel(warps = row_warps::<T>(COLS), instances(<f32, 8192, 8>))]
pub fn fused_l2norm<T: Float, const COLS: usize, const DIVISOR: usize>(
    x: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    rows: i32,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    launch_dependents();
    launch_wait();
    let HeldRows { at, inside, v, .. } = load_rows::<T, COLS>(x, row_stride, [rows, cols], T::ZERO);
    let scale = (v * v).sum(1).rsqrt().expand_dims(1);
    out.at(at).mask(inside).store((v * scale).cast::<T>());
}

fn fused_l2norm_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let matrix = RowCase::<T>::new(case);
    let (x, out, cols) = (&matrix.x, &matrix.out, matrix.cols);
    let (stride, rows, width) = matrix.extents();
    row_instance!(COLS, DIVISOR for cols, in [256, 1024, 4096, 8192, 16384] {
        let arguments = (x, out, stride, rows, width);
        case.launch_programmatic(fused_l2norm::<T, COLS, DIVISOR>, matrix.programs(COLS), arguments)
    })?;
    let reference = |x: &[f64]| -> Vec<f64> {
        let length = x.iter().map(|v| v * v).sum::<f64>().sqrt();
        x.iter().map(|v| v / length).collect()
    };
    matrix.expect(case, reference, rounding::<T>())
}

#[case(sizes(rows = [64], cols = [1024, 777]))]
fn fused_l2norm_bf16(case: &mut Case) -> CaseResult {
    fused_l2norm_of::<bf16>(case)
}

#[case(sizes(rows = [64], cols = [1024, 4097]))]
fn fused_l2norm_f32(case: &mut Case) -> CaseResult {
    fused_l2norm_of::<f32>(case)
}
