//! The rows of a token's experts, weighted and summed, and the gradients of both.

use tilekit::library::rows::{row_coordinates, row_warps, rows_per_program};
use tilekit::prelude::*;
use tilekit::row_instance;

use super::rows_case::{RowsCase, clear, close};

/// `out[token, :]` is the sum over `j` of `weights[token, j] * x[place[token, j], :]`, in f32 and in this order, for rows of `cols <= COLS` elements.
/// A place outside of `0..rows` counts for nothing.
#[kernel(warps = row_warps::<T>(COLS), instances(<bf16, 1024, 8>, <bf16, 4096, 8>, <bf16, 8192, 8>, <f32, 1024, 8>, <f32, 4096, 8>), signature(
    x: [rows, cols],
    place: [tokens, k],
    weights: [tokens, k],
    out: [tokens, cols],
    x_stride = x.stride(0),
    row_stride = out.stride(0),
    grid = cdiv(tokens, rows_per_program::<T>(COLS)),
    requires(cols <= COLS),
))]
pub fn combine<T: Float, const COLS: usize, const DIVISOR: usize>(
    x: Ptr<T>,
    place: Ptr<i32>,
    weights: Ptr<f32>,
    out: Ptr<T>,
    #[multiple_of(8)] x_stride: i64,
    #[multiple_of(8)] row_stride: i64,
    rows: i32,
    tokens: i32,
    k: i32,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    launch_dependents();
    launch_wait();
    let (token, col) = row_coordinates::<T>(COLS);
    let inside = (token < tokens) & (col < cols);
    let mut sum = full_like(token + col, 0).cast::<f32>();
    for slot in range(0, k) {
        let (row, exists) = row_of(place, token, tokens, k, slot, rows);
        let weight = weights.at(token * k + slot).mask(exists).other(0).load();
        let source = x.at(row.cast::<i64>() * x_stride + col);
        let v = source.mask(inside & exists).other(0).load();
        sum += v.cast::<f32>() * weight;
    }
    let at = token.cast::<i64>() * row_stride + col;
    out.at(at).mask(inside).store(sum.cast::<T>());
}

/// The row of slot `slot` of each token, `[tokens, 1]`, and whether there is one.
#[device]
fn row_of(
    place: Ptr<i32>,
    token: Tensor<i32>,
    tokens: Scalar<i32>,
    k: Scalar<i32>,
    slot: Scalar<i32>,
    rows: Scalar<i32>,
) -> (Tensor<i32>, Tensor<bool>) {
    let source = place.at(token * k + slot).mask(token < tokens);
    let row = source.other(-1).load();
    (row, (row >= 0) & (row < rows))
}

/// The gradients of [`combine`]: `dx[place[token, j], :] = weights[token, j] * dout[token, :]` and `dweights[token, j] = sum(dout[token, :] * x[place[token, j], :])`,
/// 0 where there is no such row. No two places are equal; rows that are nobody's place are not written.
#[kernel(warps = row_warps::<T>(COLS), instances(<bf16, 1024, 8>, <bf16, 4096, 8>, <bf16, 8192, 8>, <f32, 1024, 8>, <f32, 4096, 8>), signature(
    x: [rows, cols],
    place: [tokens, k],
    weights: [tokens, k],
    dout: [tokens, cols],
    dx: [rows, cols],
    dweights: [tokens, k],
    x_stride = x.stride(0),
    row_stride = dout.stride(0),
    grid = cdiv(tokens, rows_per_program::<T>(COLS)),
    requires(dx.stride(0) == x.stride(0), cols <= COLS),
))]
pub fn combine_backward<T: Float, const COLS: usize, const DIVISOR: usize>(
    x: Ptr<T>,
    place: Ptr<i32>,
    weights: Ptr<f32>,
    dout: Ptr<T>,
    dx: Ptr<T>,
    dweights: Ptr<f32>,
    #[multiple_of(8)] x_stride: i64,
    #[multiple_of(8)] row_stride: i64,
    rows: i32,
    tokens: i32,
    k: i32,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    launch_dependents();
    launch_wait();
    let (token, col) = row_coordinates::<T>(COLS);
    let inside = (token < tokens) & (col < cols);
    let at = token.cast::<i64>() * row_stride + col;
    let g = dout.at(at).mask(inside).other(0).load().cast::<f32>();
    for slot in range(0, k) {
        let (row, exists) = row_of(place, token, tokens, k, slot, rows);
        let weight = weights.at(token * k + slot).mask(exists).other(0).load();
        let at = row.cast::<i64>() * x_stride + col;
        let v = x.at(at).mask(inside & exists).other(0).load();
        let along = (g * v.cast::<f32>()).sum(1).expand_dims(1);
        let target = dweights.at(token * k + slot).mask(token < tokens);
        // Where there is no row, gradients that are not finite are multiplied by 0.
        target.store(select(exists, along, 0.0));
        dx.at(at)
            .mask(inside & exists)
            .store((g * weight).cast::<T>());
    }
}

/// Rows of a case and, for each token and slot, one of them: all different, and none for some.
struct Choices<T> {
    matrix: RowsCase,
    tokens: usize,
    k: usize,
    x: Input<T>,
    place: Input<i32>,
    weights: Input<f32>,
}

impl<T: Float + DeviceElement> Choices<T> {
    fn new(case: &mut Case) -> Self {
        let (tokens, k) = (case.size("tokens"), case.size("k"));
        let matrix = RowsCase {
            rows: tokens * k,
            cols: case.size("cols"),
        };
        let rows = matrix.rows;
        let place = move |at: usize| {
            if at % 5 == 3 {
                -1
            } else {
                ((at * 7 + 2) % rows) as i32
            }
        };
        assert!(!rows.is_multiple_of(7), "places would be equal");
        Choices {
            matrix,
            tokens,
            k,
            x: case.normal::<T>("x", matrix.shape()),
            place: case.input::<i32>("place", [tokens, k], place),
            weights: case.uniform::<f32>("weights", [tokens, k], 0.0..1.0),
        }
    }

    /// The row of a choice, and its weight.
    fn of(&self, choice: usize) -> Option<(usize, f64)> {
        let row = usize::try_from(self.place.host()[choice]).ok()?;
        Some((row, f64::from(self.weights.host()[choice])))
    }

    fn extents(&self) -> (i64, i64, i32, i32, i32, i32) {
        let (stride, rows, cols) = self.matrix.extents();
        (
            stride,
            stride,
            rows,
            self.tokens as i32,
            self.k as i32,
            cols,
        )
    }

    /// The matrix of the tokens' rows.
    fn of_tokens(&self) -> RowsCase {
        RowsCase {
            rows: self.tokens,
            ..self.matrix
        }
    }
}

fn combine_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let choices = Choices::<T>::new(case);
    let tokens = choices.of_tokens();
    let out = case.output::<T>("out", tokens.shape());
    let (x_stride, stride, rows, count, k, cols) = choices.extents();
    let arguments = (
        &choices.x,
        &choices.place,
        &choices.weights,
        &out,
        x_stride,
        stride,
        rows,
        count,
        k,
        cols,
    );
    row_instance!(COLS, DIVISOR for tokens.cols, in [256, 1024, 4096] {
        let programs = grid(tokens.rows.div_ceil(rows_per_program::<T>(COLS)));
        case.launch_programmatic(combine::<T, COLS, DIVISOR>, programs, arguments)
    })?;
    let reference = || {
        let of_token = |token: usize| {
            let mut sum = vec![0.0; tokens.cols];
            for (row, weight) in (0..choices.k).filter_map(|j| choices.of(token * choices.k + j)) {
                let of_row = choices.matrix.row(&choices.x, row);
                sum.iter_mut()
                    .zip(of_row)
                    .for_each(|(s, v)| *s += v * weight);
            }
            sum
        };
        (0..tokens.rows).flat_map(of_token).collect::<Vec<f64>>()
    };
    case.expect_part(
        &out,
        [tokens.rows, tokens.cols],
        reference,
        close::<T>(1e-6),
    )?;
    case.moves_bytes((choices.k + 1) * tokens.rows * tokens.cols * size_of::<T>());
    Ok(())
}

#[case(sizes(tokens = [9], k = [2], cols = [1024, 4096, 77]))]
fn combine_bf16(case: &mut Case) -> CaseResult {
    combine_of::<bf16>(case)
}

#[case(sizes(tokens = [5], k = [8], cols = [200]))]
fn combine_f32(case: &mut Case) -> CaseResult {
    combine_of::<f32>(case)
}

fn combine_backward_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let choices = Choices::<T>::new(case);
    let dout = case.normal::<T>("dout", choices.of_tokens().shape());
    combine_backward_from(case, &choices, &dout)
}

fn combine_backward_from<T: Float + DeviceElement>(
    case: &mut Case,
    choices: &Choices<T>,
    dout: &Input<T>,
) -> CaseResult {
    let tokens = choices.of_tokens();
    let dx = case.output::<T>("dx", choices.matrix.shape());
    let dweights = case.output::<f32>("dweights", [choices.tokens, choices.k]);
    let (x_stride, stride, rows, count, k, cols) = choices.extents();
    case.launch(
        clear::<T>,
        grid(choices.matrix.rows),
        (&dx, stride as i32, cols),
    )?;
    let arguments = (
        &choices.x,
        &choices.place,
        &choices.weights,
        dout,
        &dx,
        &dweights,
        x_stride,
        stride,
        rows,
        count,
        k,
        cols,
    );
    row_instance!(COLS, DIVISOR for tokens.cols, in [256, 1024, 4096] {
        let programs = grid(tokens.rows.div_ceil(rows_per_program::<T>(COLS)));
        case.launch_programmatic(combine_backward::<T, COLS, DIVISOR>, programs, arguments)
    })?;
    let of_rows = || {
        let mut gradients = vec![0.0; choices.matrix.rows * tokens.cols];
        for choice in 0..choices.matrix.rows {
            let Some((row, weight)) = choices.of(choice) else {
                continue;
            };
            let of_token = tokens.row(dout, choice / choices.k);
            let target = &mut gradients[row * tokens.cols..][..tokens.cols];
            target
                .iter_mut()
                .zip(of_token)
                .for_each(|(d, g)| *d = g * weight);
        }
        gradients
    };
    let shape = [choices.matrix.rows, tokens.cols];
    case.expect_part(&dx, shape, of_rows, close::<T>(1e-6))?;
    let of_weights = || {
        let of = |choice: usize| {
            choices.of(choice).map_or(0.0, |(row, _)| {
                let of_row = choices.matrix.row(&choices.x, row);
                let of_token = tokens.row(dout, choice / choices.k);
                of_row.iter().zip(of_token).map(|(v, g)| v * g).sum()
            })
        };
        (0..choices.matrix.rows).map(of).collect::<Vec<f64>>()
    };
    case.expect_all(&dweights, of_weights, close::<f32>(1e-3))?;
    case.moves_bytes((2 * choices.k + 1) * tokens.rows * tokens.cols * size_of::<T>());
    Ok(())
}

#[case(sizes(tokens = [9], k = [2], cols = [1024, 4096, 77]))]
fn combine_backward_bf16(case: &mut Case) -> CaseResult {
    combine_backward_of::<bf16>(case)
}

#[case(sizes(tokens = [5], k = [8], cols = [200]))]
fn combine_backward_f32(case: &mut Case) -> CaseResult {
    combine_backward_of::<f32>(case)
}

/// Gradients of tokens without a row may be anything.
#[case(sizes(tokens = [9], k = [1], cols = [77]))]
fn combine_backward_of_nan(case: &mut Case) -> CaseResult {
    let choices = Choices::<bf16>::new(case);
    let shape @ [_, stride] = choices.of_tokens().shape();
    let place = choices.place.clone();
    let dout = case.input("dout", shape, move |at| {
        if place.host()[at / stride] < 0 {
            bf16::NAN
        } else {
            bf16::from_f32((at % 7) as f32 - 3.0)
        }
    });
    combine_backward_from(case, &choices, &dout)
}
