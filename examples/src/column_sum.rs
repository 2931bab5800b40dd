//! A reduction across rows: a program owns a strip of columns and walks down all rows, so that neither workspace nor
//! atomics are needed; its warps take different rows and meet at the end.

use tilekit::prelude::*;

use crate::row_sum::sum_tolerance;
use crate::rows::row_stride;

/// `out[j] = sum(x[:, j])`, added in `f32`, for a strip of `COLS` columns per program, `ROWS` rows at a time.
#[kernel(warps = WARPS)]
pub fn column_sum<T: Float, const ROWS: usize, const COLS: usize, const WARPS: u32>(
    x: Ptr<T>,
    out: Ptr<f32>,
    #[multiple_of(8)] row_stride: i64,
    rows: i32,
    cols: i32,
) {
    let per_thread = 16 / size_of::<T>() as u32;
    let across = COLS as u32 / per_thread;
    let tile = Blocked::new([1, per_thread], [32 / across, across], [WARPS, 1], [1, 0]);
    let row = arange(0..ROWS, Slice::new(1, tile.clone())).expand_dims(1);
    let col = program_id(0) * COLS + arange(0..COLS, Slice::new(0, tile.clone())).expand_dims(0);
    let mut sum = zeros::<f32>([ROWS, COLS], tile);
    let load = |start: Scalar<i32>| {
        let r = row + start;
        let at = r.cast::<i64>() * row_stride + col;
        x.at(at).mask((r < rows) & (col < cols)).other(0).load()
    };
    // The next rows are on their way while these are added.
    let mut next = load(scalar(0));
    for start in range(0, rows).step(ROWS) {
        let current = next;
        next = load(start + ROWS);
        sum += current.cast::<f32>();
    }
    let total = sum.sum(0).expand_dims(0);
    out.at(col).mask(col < cols).store(total);
}

fn column_sum_of<T: Float + DeviceElement, const WARPS: u32>(case: &mut Case) -> CaseResult {
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let stride = row_stride(cols);
    let x = case.normal::<T>("x", [rows, stride]);
    let out = case.output::<f32>("out", [cols]);
    let arguments = (&x, &out, stride as i64, rows as i32, cols as i32);
    case.launch(
        column_sum::<T, 128, 64, WARPS>,
        grid(cols.div_ceil(64)),
        arguments,
    )?;
    let reference = || -> Vec<f64> {
        (0..cols)
            .map(|c| (0..rows).map(|r| x[[r, c]].number().to_f64()).sum())
            .collect()
    };
    case.expect_all(&out, reference, sum_tolerance(rows))?;
    case.moves_bytes(rows * cols * size_of::<T>());
    Ok(())
}

#[case(sizes(rows = [1024, 501], cols = [256, 300]))]
fn column_sum_f32(case: &mut Case) -> CaseResult {
    column_sum_of::<f32, 16>(case)
}

#[case(sizes(rows = [1024, 501], cols = [256, 300]))]
fn column_sum_bf16(case: &mut Case) -> CaseResult {
    column_sum_of::<bf16, 8>(case)
}
