//! Rows that a CTA holds in registers: how many warps share one, how many rows a CTA takes, and the layout of both.
//!
//! ```text
//! #[kernel(warps = row_warps::<T>(COLS))]
//! ..
//! let HeldRows { at, inside, v, .. } = load_rows::<T, COLS>(x, row_stride, [rows, cols], T::ZERO);
//! out.at(at).mask(inside).store((v / v.sum(1).expand_dims(1)).cast::<T>());
//! ```
//!
//! The grid is `cdiv(rows, rows_per_program::<T>(COLS))`.

use gluon_lang::lang::prelude::*;

/// Warps that share a row of `cols` elements in registers: one for every 2 KiB, so that a thread has four accesses of 16
/// bytes in flight (`bench/results/memory_bound.md` has what else was measured).
pub const fn warps_per_row<T>(cols: usize) -> usize {
    match cols * size_of::<T>() {
        0..=2048 => 1,
        2049..=4096 => 2,
        4097..=8192 => 4,
        8193..=16384 => 8,
        _ => 16,
    }
}

/// Rows of a program: short ones side by side, so that fewer programs have to start.
pub const fn rows_per_program<T>(cols: usize) -> usize {
    match warps_per_row::<T>(cols) {
        1 | 2 => 4,
        4 => 2,
        _ => 1,
    }
}

/// Warps of a program that holds rows of `cols` elements in its registers.
pub const fn row_warps<T>(cols: usize) -> usize {
    warps_per_row::<T>(cols) * rows_per_program::<T>(cols)
}

/// The rows and columns of a program that holds rows of up to `cols` elements in its registers: `[rows, 1]` and
/// `[1, cols]`.
#[device]
pub fn row_coordinates<T: Element>(cols: usize) -> (Tensor<i32>, Tensor<i32>) {
    let rows = rows_per_program::<T>(cols);
    let tile = Blocked::new(
        [1, 16 / size_of::<T>()],
        [1, 32],
        [rows, warps_per_row::<T>(cols)],
        [1, 0],
    );
    let row = program_id(0) * rows + arange(0..rows, Slice::new(1, tile.clone()));
    let col = arange(0..cols, Slice::new(0, tile));
    (row.expand_dims(1), col.expand_dims(0))
}

/// The rows of a program in its registers, `[rows, cols]` each, and where they are in memory.
pub struct HeldRows {
    /// The offset of each element from the first of the matrix.
    pub at: Tensor<i64>,
    /// Whether an element is part of the matrix.
    pub inside: Tensor<bool>,
    /// The column of each element.
    pub col: Tensor<i32>,
    /// The elements.
    pub v: Tensor<f32>,
}

/// Loads the rows of this program, of up to `COLS` elements, from a matrix of `[rows, cols]` whose rows begin `row_stride`
/// elements apart; elements outside of it are `other`.
#[device]
pub fn load_rows<T: Float, const COLS: usize>(
    x: Ptr<T>,
    row_stride: Scalar<i64>,
    [rows, cols]: [Scalar<i32>; 2],
    other: T,
) -> HeldRows {
    let (row, col) = row_coordinates::<T>(COLS);
    let inside = (row < rows) & (col < cols);
    let at = row.cast::<i64>() * row_stride + col;
    // Lines of the input are evicted from L2 last, so that those of the output are evicted, and written back, first.
    let source = x.at(at).mask(inside).other(other);
    let v = source.policy(L2Policy::EvictLast).load().cast::<f32>();
    HeldRows { at, inside, col, v }
}
