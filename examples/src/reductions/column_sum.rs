//! A reduction across rows: a program owns a strip of columns and walks down all rows, so that neither workspace nor
//! atomics are needed; its warps sum different rows and combine their sums at the end.

use tilekit::prelude::*;

use crate::matrix::row_stride;
use crate::reductions::row_sum::sum_tolerance;

/// `out[j] = sum(x[:, j])`, added in `f32`, for a strip of `COLS` columns per program. `UNROLL` loads of every thread are
/// in flight at once, which takes more registers than full occupancy would leave: hence `min_ctas_per_sm`. 64 KiB in flight
/// for each SM are best; more is slower.
#[kernel(warps = WARPS, min_ctas_per_sm = 1)]
pub fn column_sum<
    T: Float,
    const COLS: usize,
    const WARPS: usize,
    const UNROLL: usize,
    const DIVISOR: usize,
>(
    x: Ptr<T>,
    out: Ptr<f32>,
    #[multiple_of(8)] row_stride: i64,
    rows: i32,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    let per_thread = 16 / size_of::<T>();
    let across = COLS / per_thread;
    let step = WARPS * 32 / across;
    let tile = Blocked::new([1, per_thread], [32 / across, across], [WARPS, 1], [1, 0]);
    let row = arange(0..step, Slice::new(1, tile.clone())).expand_dims(1);
    let col = program_id(0) * COLS + arange(0..COLS, Slice::new(0, tile.clone())).expand_dims(0);
    let inside = col < cols;
    let mut sum = zeros::<f32>([step, COLS], tile);
    let whole = rows - rows % (step * UNROLL);
    for start in range(0, whole).step(step * UNROLL) {
        let parts: [Tensor<T>; UNROLL] = std::array::from_fn(|part| {
            let r = row + (start + part * step);
            let at = r.cast::<i64>() * row_stride + col;
            x.at(at)
                .mask(inside)
                .other(0)
                .policy(L2Policy::EvictFirst)
                .load()
        });
        for part in parts {
            sum += part.cast::<f32>();
        }
    }
    for start in range(whole, rows).step(step) {
        let r = row + start;
        let at = r.cast::<i64>() * row_stride + col;
        let v = x.at(at).mask((r < rows) & inside).other(0).load();
        sum += v.cast::<f32>();
    }
    let total = sum.sum(0).expand_dims(0);
    out.at(col).mask(inside).store(total);
}

fn column_sum_of<
    T: Float + DeviceElement,
    const COLS: usize,
    const WARPS: usize,
    const UNROLL: usize,
>(
    case: &mut Case,
) -> CaseResult {
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let stride = row_stride(cols);
    let x = case.normal::<T>("x", [rows, stride]);
    let out = case.output::<f32>("out", [cols]);
    let arguments = (&x, &out, stride as i64, rows as i32, cols as i32);
    let strips = grid(cols.div_ceil(COLS));
    if cols % 8 == 0 {
        case.launch(column_sum::<T, COLS, WARPS, UNROLL, 8>, strips, arguments)?;
    } else {
        case.launch(column_sum::<T, COLS, WARPS, UNROLL, 1>, strips, arguments)?;
    }
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
    column_sum_of::<f32, 32, 4, 8>(case)
}

#[case(sizes(rows = [2048, 501], cols = [256, 301]))]
fn column_sum_bf16(case: &mut Case) -> CaseResult {
    column_sum_of::<bf16, 128, 8, 32>(case)
}
