//! Matrices of the cases: rows padded to whole 16-byte accesses, references by row in `f64`, and what rounding may cost.

use tilekit::prelude::*;

/// Elements from one row to the next, so that every row begins at a multiple of 16 bytes.
pub(crate) fn row_stride(cols: usize) -> usize {
    cols.next_multiple_of(8)
}

/// What a result in `T` that was computed in `f32` may differ by.
pub(crate) fn rounding<T: Float>() -> Tolerance {
    match size_of::<T>() {
        2 => Ulps(1),
        _ => Close {
            relative: 2e-5,
            absolute: 1e-6,
        },
    }
}

/// The reference of a padded matrix: `row(r, x)` turns the elements of row `r` into its results. The padding between rows
/// is not part of it.
pub(crate) fn by_row<T: DeviceElement>(
    x: &Input<T>,
    cols: usize,
    row: impl Fn(&[f64]) -> Vec<f64>,
) -> Vec<f64> {
    let stride = row_stride(cols);
    let mut out = Vec::with_capacity(x.host().len());
    for elements in x.host().chunks(stride) {
        let values: Vec<f64> = elements[..cols]
            .iter()
            .map(|v| v.number().to_f64())
            .collect();
        out.extend(row(&values));
    }
    out
}
