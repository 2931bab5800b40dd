//! Each row divided by its length, in one pass: the row stays in registers between the sum and the division.

use tilekit::prelude::*;

use crate::instance::{row_instance, smallest_instance};
use crate::rows::{by_row, rounding, row_coordinates, row_stride, row_warps, rows_per_program};

/// `out[row, :] = x[row, :] / ‖x[row, :]‖₂` for rows of `cols <= COLS` elements.
#[kernel(warps = row_warps::<T>(COLS), instances(<f32, 8192, 8>))]
pub fn fused_l2norm<T: Float, const COLS: usize, const DIVISOR: u32>(
    x: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    rows: i32,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    launch_dependents();
    launch_wait();
    let (row, col) = row_coordinates::<T>(COLS);
    let inside = (row < rows) & (col < cols);
    let at = row.cast::<i64>() * row_stride + col;
    // What is written leaves L2 before what is read: writes flow.
    let source = x.at(at).mask(inside).other(0);
    let v = source.policy(L2Policy::EvictLast).load().cast::<f32>();
    let scale = (v * v).sum(1).rsqrt().expand_dims(1);
    out.at(at).mask(inside).store((v * scale).cast::<T>());
}

fn fused_l2norm_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let stride = row_stride(cols);
    let x = case.normal::<T>("x", [rows, stride]);
    let out = case.output::<T>("out", [rows, stride]);
    row_instance!(COLS, DIVISOR for cols, in [256, 1024, 4096, 8192, 16384] {
        let programs = grid(rows.div_ceil(rows_per_program::<T>(COLS)));
        let arguments = (&x, &out, stride as i64, rows as i32, cols as i32);
        case.launch_programmatic(fused_l2norm::<T, COLS, DIVISOR>, programs, arguments)
    })?;
    let reference = |x: &[f64]| -> Vec<f64> {
        let length = x.iter().map(|v| v * v).sum::<f64>().sqrt();
        x.iter().map(|v| v / length).collect()
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

#[case(sizes(rows = [64], cols = [1024, 777]))]
fn fused_l2norm_bf16(case: &mut Case) -> CaseResult {
    fused_l2norm_of::<bf16>(case)
}

#[case(sizes(rows = [64], cols = [1024, 4097]))]
fn fused_l2norm_f32(case: &mut Case) -> CaseResult {
    fused_l2norm_of::<f32>(case)
}
