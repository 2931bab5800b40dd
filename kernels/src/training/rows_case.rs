//! Cases of kernels that compute rows from rows: padded matrices, and references by row in f64.

use tilekit::prelude::*;

/// The sizes `rows` and `cols` of a case, whose matrices have rows padded to whole 16-byte accesses.
#[derive(Clone, Copy)]
pub(super) struct RowsCase {
    pub(super) rows: usize,
    pub(super) cols: usize,
}

impl RowsCase {
    pub(super) fn new(case: &Case) -> Self {
        RowsCase {
            rows: case.size("rows"),
            cols: case.size("cols"),
        }
    }

    fn stride(self) -> usize {
        self.cols.next_multiple_of(8)
    }

    /// The shape of its matrices, padding included.
    pub(super) fn shape(self) -> [usize; 2] {
        [self.rows, self.stride()]
    }

    /// `row_stride`, `rows` and `cols`, as kernels take them.
    pub(super) fn extents(self) -> (i64, i32, i32) {
        (self.stride() as i64, self.rows as i32, self.cols as i32)
    }

    /// A row of a matrix, without padding.
    pub(super) fn row<T: DeviceElement>(self, x: &Input<T>, row: usize) -> Vec<f64> {
        let elements = &x.host()[row * self.stride()..][..self.cols];
        elements.iter().map(|v| v.number().to_f64()).collect()
    }

    /// What `of_row` makes of each row and its number, one after the other.
    pub(super) fn by_row<T: DeviceElement, const N: usize>(
        self,
        matrices: [&Input<T>; N],
        of_row: impl Fn(usize, &[Vec<f64>; N]) -> Vec<f64>,
    ) -> Vec<f64> {
        let rows = (0..self.rows).map(|row| (row, matrices.map(|x| self.row(x, row))));
        rows.flat_map(|(row, of)| of_row(row, &of)).collect()
    }

    /// The sum over rows of what `of_row` makes of each.
    pub(super) fn sum_of_rows<T: DeviceElement, const N: usize>(
        self,
        matrices: [&Input<T>; N],
        of_row: impl Fn(usize, &[Vec<f64>; N]) -> Vec<f64>,
    ) -> Vec<f64> {
        let mut sum = vec![0.0; self.cols];
        for row in self.by_row(matrices, of_row).chunks(self.cols) {
            sum.iter_mut().zip(row).for_each(|(s, v)| *s += v);
        }
        sum
    }
}

/// Sets a row of a matrix to 0, for kernels that leave some as they are.
#[kernel(warps = 4)]
pub(super) fn clear<T: Float>(x: Ptr<T>, row_stride: i32, cols: i32) {
    let lane = arange(0..1024, Coalesced);
    for first in range(0, cols).step(1024) {
        let at = lane + first;
        let target = (x + program_id(0) * row_stride).at(at);
        target.mask(at < cols).store(zeros::<T>([1024], Coalesced));
    }
}

/// What a result in `T` may differ by, with `absolute` where its terms cancel.
pub(super) fn close<T: Float>(absolute: f64) -> Tolerance {
    let relative = if size_of::<T>() == 2 { 8e-3 } else { 2e-5 };
    Close { relative, absolute }
}
