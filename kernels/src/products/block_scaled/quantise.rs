//! Matrices as 8-bit floats with a scale for each block: what products with scales multiply.

use tilekit::prelude::*;

use crate::products::blocks::{LARGEST_E4M3, LEAST};
use crate::products::factor::{BLOCK, Stored, unit};

/// Rows of a program of [`quantise_rows`].
pub(super) const ROWS: usize = 32;

/// The elements of a program's block of `rows` by 128, 0 outside of the matrix, with their rows and columns.
#[device]
fn load_block<T: Float + Stored>(
    x: Ptr<T>,
    pitch: Scalar<i64>,
    [m, k]: [Scalar<i32>; 2],
    rows: usize,
) -> (Tensor<f32>, Tensor<i32>, Tensor<i32>) {
    let layout = Blocked::new([1, 8], [2, 16], [num_warps(), 1], [1, 0]);
    let row = rows_of(layout.clone(), program_id(0) * rows, rows);
    let column = columns_of(layout, program_id(1) * BLOCK, BLOCK);
    let at = row.cast::<i64>() * pitch + column;
    let inside = (row < m) & (column < k);
    let elements = x.at(at).mask(inside).other(T::ZERO).load();
    (elements.cast::<f32>(), row, column)
}

/// `values[i, j]` is `x[i, j]` over the scale of its row and of 128 columns, which is the largest magnitude there over 448. Scales are `[K / 128, M]`, whose rows begin every
/// `scales_pitch` elements.
#[kernel(warps = 4, instances(<bf16>))]
pub fn quantise_rows<T: Float + Stored>(
    #[readonly] x: Ptr<T>,
    #[multiple_of(unit::<T>())] pitch: i64,
    values: Ptr<E4m3>,
    #[multiple_of(16)] values_pitch: i32,
    scales: Ptr<f32>,
    scales_pitch: i32,
    m: i32,
    k: i32,
) {
    let (x, row, column) = load_block(x, pitch, [m, k], ROWS);
    let scale = x.abs().max(1).maximum(LEAST) / LARGEST_E4M3;
    let of_rows = program_id(0) * ROWS + arange(0..ROWS, scale.layout());
    let place = scales.at(program_id(1) * scales_pitch + of_rows);
    place.mask(of_rows < m).store(scale);
    let place = row.cast::<i64>() * values_pitch.cast::<i64>() + column;
    let place = values.at(place).mask((row < m) & (column < k));
    place.store((x / scale.expand_dims(1)).cast::<E4m3>());
}

/// The same with a scale for each block of 128 by 128, at `scales + i / 128 * scales_pitch + j / 128`.
#[kernel(warps = 8, instances(<bf16>))]
pub fn quantise_blocks<T: Float + Stored>(
    #[readonly] x: Ptr<T>,
    #[multiple_of(unit::<T>())] pitch: i64,
    values: Ptr<E4m3>,
    #[multiple_of(16)] values_pitch: i32,
    scales: Ptr<f32>,
    scales_pitch: i32,
    m: i32,
    k: i32,
) {
    let (x, row, column) = load_block(x, pitch, [m, k], BLOCK);
    let largest = x.abs().max(1).max(0).scalar();
    let scale = largest.maximum(LEAST) / LARGEST_E4M3;
    let place = program_id(0) * scales_pitch + program_id(1);
    scales.at(place).store(scale);
    let place = row.cast::<i64>() * values_pitch.cast::<i64>() + column;
    let place = values.at(place).mask((row < m) & (column < k));
    place.store((x / scale).cast::<E4m3>());
}
