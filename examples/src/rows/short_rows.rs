//! Rows so short that a warp owns eight of them: at each step of the butterfly reduction a lane keeps half of the rows and
//! sends the other half, which takes fewer than half of the shuffles of eight separate reductions.

use tilekit::prelude::*;

/// Columns of a row, and rows of a program.
const COLS: usize = 128;
const ROWS: usize = 32;

/// Four columns a lane, eight rows a warp.
fn tile() -> Blocked {
    Blocked::new([8, 4], [1, 32], [4, 1], [1, 0])
}

/// `sums[r]` is the sum of `x[r, :]`, and `places[r]` the column of its first largest element.
#[kernel(warps = 4)]
pub fn short_rows<T: Float>(x: Ptr<T>, sums: Ptr<f32>, places: Ptr<i32>, rows: i32) {
    let row = program_id(0) * ROWS + arange(0..ROWS, Slice::new(1, tile()));
    let column = arange(0..COLS, Slice::new(0, tile())).expand_dims(0);
    let at = row.expand_dims(1);
    let v = x
        .at(at * COLS + column)
        .mask(at < rows)
        .other(0)
        .load()
        .cast::<f32>();
    sums.at(row).mask(row < rows).store(v.sum(1));
    places.at(row).mask(row < rows).store(v.argmax(1));
}

fn short_rows_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let rows = case.size("rows");
    // Whole numbers, so that sums are exact and many elements equal.
    let x = case.integers::<T>("x", [rows, COLS], -100..100);
    let sums = case.output::<f32>("sums", [rows]);
    let places = case.output::<i32>("places", [rows]);
    let arguments = (&x, &sums, &places, rows as i32);
    case.launch(short_rows::<T>, grid(rows.div_ceil(ROWS)), arguments)?;
    let element = |r: usize, c: usize| x[[r, c]].number().to_f64();
    let sum = |[r]: [usize; 1]| -> f64 { (0..COLS).map(|c| element(r, c)).sum() };
    case.expect(&sums, sum, Exactly)?;
    let largest = |[r]: [usize; 1]| -> i64 {
        let later = |a, b| if element(r, b) > element(r, a) { b } else { a };
        (0..COLS).reduce(later).map_or(0, |column| column as i64)
    };
    case.expect(&places, largest, Exactly)?;
    case.moves_bytes(rows * (COLS * size_of::<T>() + 8));
    Ok(())
}

#[case(sizes(rows = [64, 1, 4099]))]
fn short_rows_f32(case: &mut Case) -> CaseResult {
    short_rows_of::<f32>(case)
}

#[case(sizes(rows = [64, 77]))]
fn short_rows_bf16(case: &mut Case) -> CaseResult {
    short_rows_of::<bf16>(case)
}
