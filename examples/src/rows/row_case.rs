//! The case of a kernel that computes a row from a row: a matrix of random rows, an output of the same shape, and a
//! reference by row in `f64`.

use tilekit::prelude::*;

use crate::matrix::{by_row, row_stride};
use tilekit::library::rows::rows_per_program;

/// A matrix and the output of its rows, both of `rows` by `cols` with rows padded to whole 16-byte accesses.
pub(crate) struct RowCase<T> {
    pub(crate) x: Input<T>,
    pub(crate) out: Output<T>,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

impl<T: DeviceElement> RowCase<T> {
    /// A matrix of standard normals of the case's sizes `rows` and `cols`.
    pub(crate) fn new(case: &mut Case) -> Self {
        let (rows, cols) = (case.size("rows"), case.size("cols"));
        let shape = [rows, row_stride(cols)];
        RowCase {
            x: case.normal::<T>("x", shape),
            out: case.output::<T>("out", shape),
            rows,
            cols,
        }
    }

    /// `row_stride`, `rows` and `cols`, as kernels take them.
    pub(crate) fn extents(&self) -> (i64, i32, i32) {
        let stride = row_stride(self.cols);
        (stride as i64, self.rows as i32, self.cols as i32)
    }

    /// The programs of a kernel that holds rows of up to `cols` elements in registers ([`load_rows`](tilekit::library::rows::load_rows)).
    pub(crate) fn programs(&self, cols: usize) -> Grid {
        grid(self.rows.div_ceil(rows_per_program::<T>(cols)))
    }

    /// Compares every row with `reference` of it, and counts the bytes of one read and one write.
    pub(crate) fn expect(
        &self,
        case: &mut Case,
        reference: impl Fn(&[f64]) -> Vec<f64>,
        tolerance: Tolerance,
    ) -> CaseResult {
        let Self { x, out, rows, cols } = self;
        let shape = [*rows, *cols];
        case.expect_part(out, shape, || by_row(x, *cols, reference), tolerance)?;
        case.moves_bytes(2 * rows * cols * size_of::<T>());
        Ok(())
    }
}
