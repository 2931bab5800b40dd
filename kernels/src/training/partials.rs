//! The last step of a sum over rows that programs began: adds up their partial sums.

use tilekit::prelude::*;

/// Columns of a program: 128 bytes of a row of partial sums.
pub(super) const STRIP: usize = 32;

/// Warps of a program. A warp reads four rows of the strip at once.
const WARPS: usize = 8;

/// Rows of the strip that are in flight at a time.
const AT_ONCE: usize = 4 * WARPS * 4;

/// `out[col] = sum(partial[:, col])`, from f32 to `T`. The order of the sum depends on `programs` alone.
#[kernel(warps = WARPS, instances(<bf16>, <f16>, <f32>), signature(
    partial: [programs, cols],
    out: [cols],
    row_stride = partial.stride(0),
    grid = cdiv(cols, STRIP),
))]
pub fn sum_partials<T: Float>(
    partial: Ptr<f32>,
    out: Ptr<T>,
    #[multiple_of(8)] row_stride: i32,
    programs: i32,
    cols: i32,
) {
    launch_dependents();
    launch_wait();
    let tile = Blocked::new([1, 4], [4, 8], [WARPS, 1], [1, 0]);
    let col = program_id(0) * STRIP + arange(0..STRIP, Slice::new(0, tile.clone()));
    let line = arange(0..AT_ONCE, Slice::new(1, tile.clone())).expand_dims(1);
    let add_up = |cols: Scalar<i32>| {
        let mut sum = full([AT_ONCE, STRIP], 0.0, tile.clone());
        for first in range(0, programs).step(AT_ONCE) {
            let row = first + line;
            let at = row.cast::<i64>() * row_stride + col.expand_dims(0);
            let inside = (row < programs) & (col < cols).expand_dims(0);
            sum += partial.at(at).mask(inside).other(0).load();
        }
        out.at(col).mask(col < cols).store(sum.sum(0).cast::<T>());
    };
    // What lies behind a row is not its own: it is read in accesses of 16 bytes where it ends with one, and else by elements.
    if cols % 4 == 0 {
        add_up(cols.multiple_of(4));
    } else {
        add_up(cols);
    }
}
