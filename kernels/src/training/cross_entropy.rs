//! Cross entropy and its gradient in one launch. A row stays in the shared memory of a CTA or a cluster between its two readings.

use tilekit::library::bulk_row::BulkRow;
use tilekit::prelude::*;
use tilekit::smallest_instance;

use super::rows_case::{RowsCase, close};

/// `loss[row] = log(sum(exp(x[row, :]))) - x[row, label[row]]` in f32, and `dx[row, :] = scale * (softmax(x[row, :]) - one_hot(label[row]))`,
/// which may take the place of `x`, for rows of `cols <= CTAS * PART` elements, a cluster of `CTAS` for each row. A label outside of
/// `0..cols` counts for nothing: its row has a loss and a gradient of 0. `scale` is the gradient of each loss: 1 / rows for the mean over
/// rows that all count. What lies between a row of `x` and the next multiple of 16 bytes behind its end may be read.
#[kernel(warps = WARPS, cluster = CTAS, instances(<bf16, 32768, 1, 8, 8>, <bf16, 32768, 2, 8, 8>, <bf16, 32768, 4, 8, 8>), signature(
    x: [rows, cols],
    label: [rows],
    loss: [rows],
    dx: [rows, cols],
    row_stride = x.stride(0),
    grid = rows * CTAS,
    requires(dx.stride(0) == x.stride(0), cols <= CTAS * PART),
))]
pub fn cross_entropy_gradient<
    T: Float,
    const PART: usize,
    const CTAS: usize,
    const WARPS: usize,
    const DIVISOR: usize,
>(
    x: Ptr<T>,
    label: Ptr<i32>,
    loss: Ptr<f32>,
    dx: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    #[multiple_of(DIVISOR)] cols: i32,
    scale: f32,
) {
    let row = program_id(0) / CTAS;
    let first = row.cast::<i64>() * row_stride;
    let held = BulkRow::load::<PART, CTAS>(x, first, cols, WARPS, DIVISOR);
    let label = label.at(row).load();
    let counts = (label >= 0) & (label < cols);
    // Read before any CTA of the cluster may store the gradient to the same place.
    let labelled = (x + first).at(label).mask(counts).other(0).load();
    let (most, total) = held.statistics::<CTAS>();
    // exp2(v - most) / total in one exponential per element.
    let shift = most + total.log2();
    let log = shift * LN_2;
    if cluster_rank() == 0 {
        let lost = log - labelled.cast::<f32>();
        loss.at(row).store(select(counts, lost, 0.0));
    }
    let factor = select(counts, scale, 0.0);
    for (at, v) in held.chunks() {
        let share = (v - shift).exp2() * factor;
        let gradient = select(at == label, share - factor, share);
        // Logits of a row that counts for nothing may be NaN or infinite, and so its shares.
        let gradient = select(counts, gradient, 0.0);
        let place = dx.at(first + at).mask(at < cols);
        place.store(gradient.cast::<T>());
    }
}

/// Whether a case's label of a row is one that counts for nothing.
fn is_ignored(row: usize) -> bool {
    row % 3 == 2
}

fn cross_entropy_gradient_of<T: Float + DeviceElement, const PART: usize>(
    case: &mut Case,
    x: &Input<T>,
) -> CaseResult {
    let matrix = RowsCase::new(case);
    let (stride, rows, cols) = matrix.extents();
    let label = case.input::<i32>("label", [matrix.rows], move |row| {
        if !is_ignored(row) {
            (row as i32 * 7919) % cols
        } else if row % 2 == 0 {
            -100
        } else {
            cols
        }
    });
    let loss = case.output::<f32>("loss", [matrix.rows]);
    let dx = case.output::<T>("dx", matrix.shape());
    let scale = 1.0 / rows as f32;
    let arguments = (x, &label, &loss, &dx, stride, cols, scale);
    if cols % 8 == 0 {
        smallest_instance!(CTAS >= matrix.cols.div_ceil(PART), in [1, 2, 4, 8] {
            case.launch(cross_entropy_gradient::<T, PART, CTAS, 8, 8>, grid(matrix.rows * CTAS), arguments)
        })?;
    } else {
        smallest_instance!(CTAS >= matrix.cols.div_ceil(PART), in [1, 2, 4, 8] {
            case.launch(cross_entropy_gradient::<T, PART, CTAS, 8, 1>, grid(matrix.rows * CTAS), arguments)
        })?;
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
    let losses = || matrix.by_row([x], |row, [x]| vec![of_row(row, x).0]);
    case.expect_all(&loss, losses, Absolute(2e-5))?;
    let gradients = || matrix.by_row([x], |row, [x]| of_row(row, x).1);
    case.expect_part(&dx, [matrix.rows, matrix.cols], gradients, close::<T>(1e-8))?;
    case.moves_bytes(2 * matrix.rows * matrix.cols * size_of::<T>());
    Ok(())
}

#[case(sizes(rows = [6, 6, 6, 2, 1], cols = [32000, 1111, 3, 50_257, 128_256]))]
fn cross_entropy_gradient_bf16(case: &mut Case) -> CaseResult {
    let x = case.normal("x", RowsCase::new(case).shape());
    cross_entropy_gradient_of::<bf16, 32768>(case, &x)
}

#[case(sizes(rows = [6], cols = [5001, 1024]))]
fn cross_entropy_gradient_f32(case: &mut Case) -> CaseResult {
    let x = case.normal("x", RowsCase::new(case).shape());
    cross_entropy_gradient_of::<f32, 16384>(case, &x)
}

/// Rows that count for nothing may hold anything.
#[case(sizes(rows = [6], cols = [1111]))]
fn cross_entropy_gradient_of_nan(case: &mut Case) -> CaseResult {
    let shape @ [_, stride] = RowsCase::new(case).shape();
    let x = case.input("x", shape, move |at| {
        if is_ignored(at / stride) {
            bf16::NAN
        } else {
            bf16::from_f32((at % 7) as f32 - 3.0)
        }
    });
    cross_entropy_gradient_of::<bf16, 32768>(case, &x)
}
