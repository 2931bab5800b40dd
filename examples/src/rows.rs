//! Matrices of the row kernels: rows padded to whole 16-byte accesses, and references by row in `f64`.

use tilekit::prelude::*;

/// Elements from one row to the next, so that every row begins at a multiple of 16 bytes.
pub(crate) fn row_stride(cols: usize) -> usize {
    cols.next_multiple_of(8)
}

/// Warps that share a row of `cols` elements in registers: one for every 2 KiB, so that a thread has four accesses of 16
/// bytes on their way (`bench/results/memory_bound.md` has what else was measured).
pub(crate) const fn warps_per_row<T>(cols: usize) -> u32 {
    match cols * size_of::<T>() {
        0..=2048 => 1,
        2049..=4096 => 2,
        4097..=8192 => 4,
        8193..=16384 => 8,
        _ => 16,
    }
}

/// Rows of a program: short ones side by side, so that fewer programs have to start.
pub(crate) const fn rows_per_program<T>(cols: usize) -> usize {
    match warps_per_row::<T>(cols) {
        1 | 2 => 4,
        4 => 2,
        _ => 1,
    }
}

/// Warps of a program that holds rows of `cols` elements in its registers.
pub(crate) const fn row_warps<T>(cols: usize) -> u32 {
    warps_per_row::<T>(cols) * rows_per_program::<T>(cols) as u32
}

/// The rows and columns of a program that holds rows of up to `cols` elements in its registers: `[rows, 1]` and
/// `[1, cols]`.
#[device]
pub(crate) fn row_coordinates<T: Element>(cols: usize) -> (Tensor<i32>, Tensor<i32>) {
    let rows = rows_per_program::<T>(cols);
    let tile = Blocked::new(
        [1, 16 / size_of::<T>() as u32],
        [1, 32],
        [rows as u32, warps_per_row::<T>(cols)],
        [1, 0],
    );
    let row = program_id(0) * rows + arange(0..rows, Slice::new(1, tile.clone()));
    let col = arange(0..cols, Slice::new(0, tile));
    (row.expand_dims(1), col.expand_dims(0))
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

/// The reference of a padded matrix: `row(r, x)` turns the elements of row `r` into its results; the padding, which no
/// kernel writes, is what `untouched` says.
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
