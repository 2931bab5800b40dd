//! A reduction that only reads: one row per program, in steps of `BLOCK` elements that are added up in registers, and one
//! reduction across the threads at the end.

use tilekit::prelude::*;

use crate::matrix::{by_row, row_stride};

/// `out[row] = sum(x[row, :])`, added in `f32`.
#[kernel(warps = WARPS)]
pub fn row_sum<T: Float, const BLOCK: usize, const WARPS: usize>(
    x: Ptr<T>,
    out: Ptr<f32>,
    #[multiple_of(8)] row_stride: i64,
    cols: i32,
) {
    let row = x + program_id(0).cast::<i64>() * row_stride;
    let lane = arange(0..BLOCK, Coalesced);
    let mut sum = zeros([BLOCK], Coalesced);
    for start in range(0, cols).step(BLOCK) {
        let col = lane + start;
        sum += row
            .at(col)
            .mask(col < cols)
            .other(0)
            .policy(L2Policy::EvictFirst)
            .load()
            .cast::<f32>();
    }
    out.at(program_id(0)).store(sum.sum(0).scalar());
}

fn row_sum_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let stride = row_stride(cols);
    let x = case.normal::<T>("x", [rows, stride]);
    let out = case.output::<f32>("out", [rows]);
    case.launch(
        row_sum::<T, 8192, 8>,
        grid(rows),
        (&x, &out, stride as i64, cols as i32),
    )?;
    let reference = || by_row(&x, cols, |x| vec![x.iter().sum()]);
    case.expect_all(&out, reference, sum_tolerance(cols))?;
    case.moves_bytes(rows * cols * size_of::<T>());
    Ok(())
}

/// The rounding of a sum of `n` standard normals in `f32`, added pairwise and in strides: far below this.
pub(crate) fn sum_tolerance(n: usize) -> Tolerance {
    Absolute(1e-6 * (n as f64).max(16.0).sqrt() * 4.0)
}

#[case(sizes(rows = [64], cols = [16384, 5001]))]
fn row_sum_f32(case: &mut Case) -> CaseResult {
    row_sum_of::<f32>(case)
}

#[case(sizes(rows = [64], cols = [16384, 999]))]
fn row_sum_bf16(case: &mut Case) -> CaseResult {
    row_sum_of::<bf16>(case)
}
