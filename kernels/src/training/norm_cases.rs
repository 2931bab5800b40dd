//! Cases of the gradients of norms, against f64.

use tilekit::prelude::*;
use tilekit::row_instance;

use super::norm::{ctas, layernorm_backward, rmsnorm_backward};
use super::partials::{STRIP, sum_partials};
use super::rows_case::{RowsCase, close};

/// Programs of a case: a few take all rows in turn where there are few of them.
fn programs(rows: usize) -> usize {
    if rows < 1000 { rows.min(3) } else { 2 * 132 }
}

/// Mean, if `is_centred`, and `1 / sqrt(variance + 1e-5)` of each row.
fn statistics<T: DeviceElement>(
    case: &mut Case,
    matrix: RowsCase,
    x: &Input<T>,
    is_centred: bool,
) -> [Input<f32>; 2] {
    let mean = move |x: &[f64]| {
        let sum = x.iter().sum::<f64>() / x.len() as f64;
        if is_centred { sum } else { 0.0 }
    };
    let rstd = move |x: &[f64]| {
        let mean = mean(x);
        let squares: f64 = x.iter().map(|v| (v - mean).powi(2)).sum();
        1.0 / (squares / x.len() as f64 + 1e-5).sqrt()
    };
    let (of_mean, of_rstd) = (x.clone(), x.clone());
    [
        case.input("mean", [matrix.rows], move |row| {
            mean(&matrix.row(&of_mean, row)) as f32
        }),
        case.input("rstd", [matrix.rows], move |row| {
            rstd(&matrix.row(&of_rstd, row)) as f32
        }),
    ]
}

/// Columns of partial sums of the weight, behind which those of the bias begin.
fn partial_cols(cols: usize) -> usize {
    cols.next_multiple_of(4)
}

fn partial_stride(cols: usize) -> usize {
    (2 * partial_cols(cols)).next_multiple_of(8)
}

/// A norm and the tensors of its gradients.
struct Gradients<T> {
    matrix: RowsCase,
    is_centred: bool,
    x: Input<T>,
    weight: Input<T>,
    mean: Input<f32>,
    rstd: Input<f32>,
    dout: Input<T>,
    dx: Output<T>,
    /// Those of the weight, and beside them at the next multiple of 16 bytes those of the bias.
    partial: Output<f32>,
    dweight: Output<T>,
    dbias: Output<T>,
}

impl<T: Float + DeviceElement> Gradients<T> {
    fn new(case: &mut Case, is_centred: bool) -> Self {
        let matrix = RowsCase::new(case);
        let cols = matrix.cols;
        let x = case.normal::<T>("x", matrix.shape());
        let [mean, rstd] = statistics(case, matrix, &x, is_centred);
        let rows_of_partials = programs(matrix.rows);
        Gradients {
            matrix,
            is_centred,
            weight: case.normal::<T>("weight", [cols]),
            mean,
            rstd,
            dout: case.normal::<T>("dout", matrix.shape()),
            dx: case.output::<T>("dx", matrix.shape()),
            partial: case.output::<f32>("partial", [rows_of_partials, partial_stride(cols)]),
            dweight: case.output::<T>("dweight", [cols]),
            dbias: case.output::<T>("dbias", [cols]),
            x,
        }
    }

    fn launch(&self, case: &mut Case) -> CaseResult {
        let (stride, rows, cols) = self.matrix.extents();
        let programs = programs(self.matrix.rows);
        let of_partials = partial_stride(self.matrix.cols) as i32;
        let partial =
            [0, partial_cols(self.matrix.cols)].map(|first| self.partial.view().with_offset(first));
        row_instance!(COLS, DIVISOR for self.matrix.cols, in [1024, 4096, 8192, 16384] {
            if self.is_centred {
                let arguments = (
                    &self.x, &self.weight, &self.mean, &self.rstd, &self.dout, &self.dx, &partial[0],
                    &partial[1], stride, rows, cols, of_partials,
                );
                case.launch_programmatic(layernorm_backward::<T, COLS, DIVISOR>, programs * ctas::<T>(COLS), arguments)
            } else {
                let arguments = (
                    &self.x, &self.weight, &self.rstd, &self.dout, &self.dx, &partial[0], stride, rows, cols, of_partials,
                );
                case.launch_programmatic(rmsnorm_backward::<T, COLS, DIVISOR>, programs * ctas::<T>(COLS), arguments)
            }
        })?;
        let sums = [&self.dweight, &self.dbias];
        let sums = partial.iter().zip(sums);
        for (partial, sum) in sums.take(1 + usize::from(self.is_centred)) {
            let strips = self.matrix.cols.div_ceil(STRIP);
            case.launch_programmatic(
                sum_partials::<T>,
                strips,
                (partial, sum, of_partials, programs as i32, cols),
            )?;
        }
        Ok(())
    }

    /// `g` and `xhat` of a row.
    fn terms(&self, row: usize, x: &[f64], dout: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let [mean, rstd] = [&self.mean, &self.rstd].map(|of| f64::from(of.host()[row]));
        let mean = if self.is_centred { mean } else { 0.0 };
        let weight = self.weight.host().iter().map(|w| w.number().to_f64());
        let g = dout.iter().zip(weight).map(|(d, w)| d * w).collect();
        (g, x.iter().map(|v| (v - mean) * rstd).collect())
    }

    fn of_row(&self, row: usize, x: &[f64], dout: &[f64]) -> Vec<f64> {
        let (g, xhat) = self.terms(row, x, dout);
        let count = self.matrix.cols as f64;
        let along = g.iter().zip(&xhat).map(|(g, x)| g * x).sum::<f64>() / count;
        let whole = if self.is_centred {
            g.iter().sum::<f64>() / count
        } else {
            0.0
        };
        let rstd = f64::from(self.rstd.host()[row]);
        let both = g.iter().zip(&xhat);
        both.map(|(g, xhat)| rstd * (g - whole - xhat * along))
            .collect()
    }

    fn expect(&self, case: &mut Case) -> CaseResult {
        let (matrix, tensors) = (self.matrix, [&self.x, &self.dout]);
        let rows = || matrix.by_row(tensors, |row, [x, dout]| self.of_row(row, x, dout));
        case.expect_part(&self.dx, [matrix.rows, matrix.cols], rows, close::<T>(4e-5))?;
        // Terms of either sign add up: the sum is right relative to them.
        let absolute = 1e-5 * (matrix.rows as f64).sqrt();
        let of_weight = || {
            matrix.sum_of_rows(tensors, |row, [x, dout]| {
                let (_, xhat) = self.terms(row, x, dout);
                dout.iter().zip(xhat).map(|(d, x)| d * x).collect()
            })
        };
        case.expect_all(&self.dweight, of_weight, close::<T>(absolute))?;
        if self.is_centred {
            let of_bias = || matrix.sum_of_rows([&self.dout], |_, [dout]| dout.clone());
            case.expect_all(&self.dbias, of_bias, close::<T>(absolute))?;
        }
        case.moves_bytes(3 * matrix.rows * matrix.cols * size_of::<T>());
        Ok(())
    }
}

fn gradients<T: Float + DeviceElement>(case: &mut Case, is_centred: bool) -> CaseResult {
    let gradients = Gradients::<T>::new(case, is_centred);
    gradients.launch(case)?;
    gradients.expect(case)
}

#[case(sizes(rows = [11], cols = [1024, 4096, 1111, 9000]))]
fn rmsnorm_backward_bf16(case: &mut Case) -> CaseResult {
    gradients::<bf16>(case, false)
}

#[case(sizes(rows = [7], cols = [1024, 777]))]
fn rmsnorm_backward_f16(case: &mut Case) -> CaseResult {
    gradients::<f16>(case, false)
}

#[case(sizes(rows = [1, 7, 5], cols = [4096, 77, 6000]))]
fn rmsnorm_backward_f32(case: &mut Case) -> CaseResult {
    gradients::<f32>(case, false)
}

#[case(sizes(rows = [11], cols = [1024, 4096, 1111, 9000]))]
fn layernorm_backward_bf16(case: &mut Case) -> CaseResult {
    gradients::<bf16>(case, true)
}

// 76 is a multiple of 16 bytes of partial sums, and of no more.
#[case(sizes(rows = [7], cols = [1024, 77, 76]))]
fn layernorm_backward_f32(case: &mut Case) -> CaseResult {
    gradients::<f32>(case, true)
}
