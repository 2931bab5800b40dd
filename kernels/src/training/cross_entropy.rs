//! Cross entropy and its gradient in one launch, for rows of any length. The second read of a row comes from L2.

use tilekit::library::span::{LOW, Span};
use tilekit::prelude::*;

use super::rows_case::{RowsCase, close};

/// Tiles of a row that are in flight at a time.
const TILES: usize = 4;

/// `loss[row] = log(sum(exp(x[row, :]))) - x[row, label[row]]` in f32, and `dx[row, :] = scale * (softmax(x[row, :]) - one_hot(label[row]))`,
/// which may take the place of `x`. A label outside of `0..cols` counts for nothing: its row has a loss and a gradient of 0. `scale` is
/// the gradient of each loss: 1 / rows for the mean over rows that all count.
#[kernel(warps = WARPS, instances(<bf16, 8, 8>), signature(
    x: [rows, cols],
    label: [rows],
    loss: [rows],
    dx: [rows, cols],
    row_stride = x.stride(0),
    grid = rows,
    requires(dx.stride(0) == x.stride(0)),
))]
pub fn cross_entropy_gradient<T: Float, const WARPS: usize, const DIVISOR: usize>(
    x: Ptr<T>,
    label: Ptr<i32>,
    loss: Ptr<f32>,
    dx: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    #[multiple_of(DIVISOR)] cols: i32,
    scale: f32,
) {
    launch_dependents();
    launch_wait();
    let first = program_id(0).cast::<i64>() * row_stride;
    let (row, out) = (x + first, dx + first);
    let label = label.at(program_id(0)).load();
    let counts = (label >= 0) & (label < cols);
    // The load of the label's logit is in flight while the row is read.
    let labelled = row.at(label).mask(counts).other(0).load().cast::<f32>();
    let span = Span::of::<T>(WARPS);
    let step = TILES * span.elements();
    let (mut largest, mut sum) = (span.per_thread(LOW), span.per_thread(0.0));
    for start in range(0, cols).step(step) {
        let tiles = span.load::<T, TILES>(row, start, cols, L2Policy::EvictLast);
        let new = tiles.iter().fold(largest, |m, v| m.maximum(v.max(1)));
        sum *= (largest - new).exp2();
        for v in tiles {
            sum += (v - new.expand_dims(1)).exp2().sum(1);
        }
        largest = new;
    }
    let most = largest.max(0).scalar();
    let total = (sum * (largest - most).exp2()).sum(0).scalar();
    let log = (total.log2() + most) * LN_2;
    loss.at(program_id(0))
        .store(select(counts, log - labelled, 0.0));
    let factor = select(counts, scale, 0.0);
    let share = factor / total;
    for start in range(0, cols).step(step) {
        let tiles = span.load::<T, TILES>(row, start, cols, L2Policy::EvictFirst);
        for (tile, v) in tiles.into_iter().enumerate() {
            let at = span.places(start + tile * span.elements());
            let p = (v - most).exp2() * share;
            let gradient = select(at == label, p - factor, p);
            out.at(at).mask(at < cols).store(gradient.cast::<T>());
        }
    }
}

fn cross_entropy_gradient_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let matrix = RowsCase::new(case);
    let (stride, rows, cols) = matrix.extents();
    let x = case.normal::<T>("x", matrix.shape());
    // Every third row's label is one that counts for nothing.
    let label = case.input::<i32>("label", [matrix.rows], move |row| match row % 3 {
        2 if row % 2 == 0 => -100,
        2 => cols,
        _ => (row as i32 * 7919) % cols,
    });
    let loss = case.output::<f32>("loss", [matrix.rows]);
    let dx = case.output::<T>("dx", matrix.shape());
    let scale = 1.0 / rows as f32;
    let arguments = (&x, &label, &loss, &dx, stride, cols, scale);
    if cols % 8 == 0 {
        case.launch_programmatic(
            cross_entropy_gradient::<T, 8, 8>,
            grid(matrix.rows),
            arguments,
        )?;
    } else {
        case.launch_programmatic(
            cross_entropy_gradient::<T, 8, 1>,
            grid(matrix.rows),
            arguments,
        )?;
    }
    let labels = label.clone();
    let of_row = move |row: usize, x: &[f64]| -> (f64, Vec<f64>) {
        let Some(label) = usize::try_from(labels.host()[row])
            .ok()
            .filter(|at| *at < x.len())
        else {
            return (0.0, vec![0.0; x.len()]);
        };
        let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let log = x.iter().map(|v| (v - most).exp()).sum::<f64>().ln() + most;
        let mut gradient: Vec<f64> = x.iter().map(|v| (v - log).exp()).collect();
        gradient[label] -= 1.0;
        (
            log - x[label],
            gradient.iter().map(|g| g * f64::from(scale)).collect(),
        )
    };
    let losses = || matrix.by_row([&x], |row, [x]| vec![of_row(row, x).0]);
    case.expect_all(&loss, losses, Absolute(2e-5))?;
    let gradients = || matrix.by_row([&x], |row, [x]| of_row(row, x).1);
    case.expect_part(&dx, [matrix.rows, matrix.cols], gradients, close::<T>(1e-8))?;
    case.moves_bytes(2 * matrix.rows * matrix.cols * size_of::<T>());
    Ok(())
}

#[case(sizes(rows = [6], cols = [32000, 1111, 3]))]
fn cross_entropy_gradient_bf16(case: &mut Case) -> CaseResult {
    cross_entropy_gradient_of::<bf16>(case)
}

#[case(sizes(rows = [6], cols = [5001, 1024]))]
fn cross_entropy_gradient_f32(case: &mut Case) -> CaseResult {
    cross_entropy_gradient_of::<f32>(case)
}
