//! Cross entropy of logits and labels, one row per program, in one pass over rows of any length: every thread keeps the
//! largest logit and the sum of exponentials that it has seen, and one reduction across the threads ends the row.

use tilekit::divided_instance;
use tilekit::prelude::*;

use crate::matrix::{by_row, row_stride};
use tilekit::library::span::{LOW, Span};

/// `loss[row] = log(sum(exp(x[row, :]))) - x[row, label[row]]`, in `f32`. `TILES` tiles are in flight at a time. `DIVISOR` divides `cols`.
#[kernel(warps = WARPS, instances(<bf16, 4, 8, 8>, <f32, 4, 8, 8>))]
pub fn cross_entropy<T: Float, const TILES: usize, const WARPS: usize, const DIVISOR: usize>(
    x: Ptr<T>,
    label: Ptr<i32>,
    loss: Ptr<f32>,
    #[multiple_of(8)] row_stride: i64,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    launch_dependents();
    launch_wait();
    let row = x + program_id(0).cast::<i64>() * row_stride;
    // The load of the label's logit is in flight while the row is read.
    let labelled = row.at(label.at(program_id(0)).load()).load().cast::<f32>();
    let span = Span::of::<T>(WARPS);
    let (mut largest, mut sum) = (span.per_thread(LOW), span.per_thread(0.0));
    for start in range(0, cols).step(TILES * span.elements()) {
        let tiles = span.load::<T, TILES>(row, start, cols, L2Policy::EvictFirst);
        let new = tiles.iter().fold(largest, |m, v| m.maximum(v.max(1)));
        sum *= (largest - new).exp2();
        for v in tiles {
            sum += (v - new.expand_dims(1)).exp2().sum(1);
        }
        largest = new;
    }
    let most = largest.max(0);
    let total = (sum * (largest - most).exp2()).sum(0);
    let log = (total.scalar().log2() + most.scalar()) * LN_2;
    loss.at(program_id(0)).store(log - labelled);
}

fn cross_entropy_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let stride = row_stride(cols);
    let x = case.normal::<T>("x", [rows, stride]);
    let label = case.integers::<i32>("label", [rows], 0..cols as i64);
    let loss = case.output::<f32>("loss", [rows]);
    divided_instance!(DIVISOR for cols, {
        let arguments = (&x, &label, &loss, stride as i64, cols as i32);
        case.launch_programmatic(cross_entropy::<T, 4, 8, DIVISOR>, grid(rows), arguments)
    })?;
    let reference = || {
        let logs = by_row(&x, cols, |x| {
            let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            vec![x.iter().map(|v| (v - most).exp()).sum::<f64>().ln() + most]
        });
        let of_label = |row: usize| x[[row, label[row] as usize]].number().to_f64();
        logs.iter()
            .enumerate()
            .map(|(row, log)| log - of_label(row))
            .collect()
    };
    case.expect_all(&loss, reference, Absolute(2e-5))?;
    case.moves_bytes(rows * cols * size_of::<T>());
    Ok(())
}

#[case(sizes(rows = [8], cols = [32000, 1111, 3]))]
fn cross_entropy_bf16(case: &mut Case) -> CaseResult {
    cross_entropy_of::<bf16>(case)
}

#[case(sizes(rows = [8], cols = [32000, 5001]))]
fn cross_entropy_f32(case: &mut Case) -> CaseResult {
    cross_entropy_of::<f32>(case)
}
