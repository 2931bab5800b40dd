//! A column of each row drawn with its probability, as a language model samples its next token: a program sums its row chunk by chunk and
//! leaves the loop in the chunk where the sum exceeds the draw, so that it never reads the rest of the row.
//!
//! The loop is a Rust `loop`. Its first exit branches on a scalar of the kernel, so the kernel runs it, and `break` gives its value.

use tilekit::prelude::*;

use crate::matrix::row_stride;

/// `columns[row]` is the first column `c` with `p[row, 0] + ... + p[row, c] > draws[row]` (inverse transform sampling), and
/// `chosen[row]` its probability. Where no sum exceeds the draw, since rounding left the row's sum below 1, it is the last column.
/// A row has `cols >= 1` probabilities, summed in `f32`, `CHUNK` at a time.
#[kernel(warps = 4, instances(<1024>))]
pub fn sample_rows<const CHUNK: usize>(
    p: Ptr<f32>,
    draws: Ptr<f32>,
    columns: Ptr<i32>,
    chosen: Ptr<f32>,
    #[multiple_of(8)] row_stride: i64,
    cols: i32,
) {
    let row = program_id(0);
    let probabilities = p + row.cast::<i64>() * row_stride;
    let draw = draws.at(row).load();
    let lane = arange(0..CHUNK, Blocked::new([4], [32], [4], [0]));
    let (mut start, mut below) = (scalar(0), scalar(0.0_f32));
    let (column, probability) = loop {
        let column = start + lane;
        let inside = column < cols;
        let chunk = probabilities.at(column).mask(inside).other(0.0).load();
        let (sums, total) = chunk.cumsum_with_total(0);
        let total = below + total.scalar();
        if total > draw {
            let is_above = inside & (below + sums > draw);
            let first = select(is_above, column, i32::MAX).min(0).scalar();
            break (first, select(column == first, chunk, 0.0).sum(0).scalar());
        }
        if start + CHUNK >= cols {
            break (cols - 1, probabilities.at(cols - 1).load());
        }
        (start, below) = (start + CHUNK, total);
    };
    columns.at(row).store(column);
    chosen.at(row).store(probability);
}

const CHUNK: usize = 1024;

/// Rows of multiples of 2⁻²², whose sums `f32` holds exactly. They sum to 1, but for every fifth row, which sums to about a half. The
/// elements between rows are 1, so that a chunk that reads them is wrong.
fn probabilities(rows: usize, cols: usize) -> Vec<f32> {
    const UNITS: usize = 1 << 22;
    let stride = row_stride(cols);
    let mut all = vec![1.0; rows * stride];
    for (row, elements) in all.chunks_mut(stride).enumerate() {
        let weight = |col: usize| 1 + (row * 31 + col * 7919 + col / 13) % 251;
        let weights: Vec<usize> = (0..cols).map(weight).collect();
        let total: usize = weights.iter().sum();
        let is_short = row % 5 == 4;
        let scale = UNITS / if is_short { 2 } else { 1 };
        // Every third column has none, and the last one what is left.
        let mut left = scale;
        for (col, element) in elements[..cols].iter_mut().enumerate() {
            let share = if col % 3 == 1 {
                0
            } else {
                weights[col] * scale / total
            };
            let units = if col + 1 == cols && !is_short {
                left
            } else {
                share
            };
            left -= units;
            *element = units as f32 / UNITS as f32;
        }
    }
    all
}

/// The smallest and the largest draw, and others between.
fn draw(row: usize) -> f32 {
    match row % 4 {
        0 => 0.0,
        1 => 1.0 - f32::EPSILON / 2.0,
        _ => (row as f32 * 0.618_034).fract(),
    }
}

/// The column that each row's draw selects, by a sum in `f64`.
fn expected(p: &[f32], cols: usize) -> Vec<usize> {
    let of_row = |(row, elements): (usize, &[f32])| {
        let mut sum = 0.0;
        let is_above = |p: &f32| {
            sum += f64::from(*p);
            sum > f64::from(draw(row))
        };
        elements[..cols]
            .iter()
            .position(is_above)
            .unwrap_or(cols - 1)
    };
    p.chunks(row_stride(cols)).enumerate().map(of_row).collect()
}

#[case(sizes(rows = [6], cols = [8192, 5001, 1024, 20, 1]))]
fn sample_rows_f32(case: &mut Case) -> CaseResult {
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let stride = row_stride(cols);
    let all = probabilities(rows, cols);
    let found = expected(&all, cols);
    let elements = all.clone();
    let p = case.input::<f32>("p", [rows, stride], move |at| elements[at]);
    let draws = case.input::<f32>("draws", [rows], draw);
    let columns = case.output::<i32>("columns", [rows]);
    let chosen = case.output::<f32>("chosen", [rows]);
    let arguments = (&p, &draws, &columns, &chosen, stride as i64, cols as i32);
    case.launch(sample_rows::<CHUNK>, grid(rows), arguments)?;
    case.expect(&columns, |[row]: [usize; 1]| found[row] as i64, Exactly)?;
    let probability = |[row]: [usize; 1]| f64::from(all[row * stride + found[row]]);
    case.expect(&chosen, probability, Exactly)?;
    let read = |column: &usize| (column / CHUNK + 1) * CHUNK;
    let elements: usize = found.iter().map(|column| read(column).min(cols)).sum();
    case.moves_bytes(4 * (elements + 3 * rows));
    Ok(())
}
