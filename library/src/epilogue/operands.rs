//! Operands of epilogues that belong to whole rows or columns: biases and scales.

use gluon_lang::lang::prelude::*;

/// The columns of a tile of `layout` that begins at column `first`: `[1, columns]`, to stand beside a tensor of the tile.
#[track_caller]
pub fn columns_of(layout: impl Into<Layout>, first: Scalar<i32>, columns: usize) -> Tensor<i32> {
    let of_columns = Slice::new(0, layout);
    (first + arange(0..columns, of_columns)).expand_dims(0)
}

/// The rows of a tile of `layout` that begins at row `first`: `[rows, 1]`.
#[track_caller]
pub fn rows_of(layout: impl Into<Layout>, first: Scalar<i32>, rows: usize) -> Tensor<i32> {
    let of_rows = Slice::new(1, layout);
    (first + arange(0..rows, of_rows)).expand_dims(1)
}

/// A number in f32 for each place of `at`, which [`rows_of`] or [`columns_of`] made: a bias to add, or a scale to multiply by. 0 from `end`
/// on. Issue it before the mainloop, and the load is in flight while tensor cores multiply.
///
/// ```text
/// let bias = load_along(bias, columns_of(layout.clone(), column, BN), n);
/// let scale = load_along(scales, rows_of(layout, row, BM), m);
/// c = (sums * scale + bias).cast::<bf16>()
/// ```
#[device]
pub fn load_along<T: Float>(from: Ptr<T>, at: Tensor<i32>, end: Scalar<i32>) -> Tensor<f32> {
    let inside = at < end;
    from.at(at).mask(inside).other(0).load().cast::<f32>()
}
