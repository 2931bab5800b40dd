//! From the sums of a warpgroup to results in shared memory.

use tilekit::prelude::*;

use super::epilogue::{Data, Epilogue, Place};

/// Where a warpgroup's sums stand in the result, and the numbers of the call.
#[derive(Clone, Copy)]
pub(crate) struct Finished<O> {
    /// Its first row and column there.
    pub(crate) first: [Scalar<i32>; 2],
    /// Which product of a batch.
    pub(crate) batch: Scalar<i32>,
    /// Rows and columns of the result.
    pub(crate) size: [Scalar<i32>; 2],
    /// Rows of the sums are columns of the result, and so of the buffer.
    pub(crate) turned: bool,
    pub(crate) data: Data<O>,
}

/// Columns that an epilogue finishes at a time: what it reads for all of a tile does not fit the registers beside the sums.
fn width_of(columns: usize) -> usize {
    let widths = [64, 32, 16];
    let fits = |width: &usize| columns.is_multiple_of(*width);
    widths.into_iter().find(fits).unwrap_or(columns)
}

impl<O: Numeric> Finished<O> {
    /// Stores what the epilogue makes of the sums.
    #[track_caller]
    pub(crate) fn store<S: Numeric>(
        self,
        epilogue: impl Epilogue<O>,
        sums: Tensor<S>,
        buffer: Smem<O>,
    ) {
        let buffer = if self.turned {
            buffer.transpose()
        } else {
            buffer
        };
        if epilogue.is_plain() {
            return buffer.store(sums.cast::<O>());
        }
        let shape = sums.shape();
        let [rows, columns] = [shape[0], shape[1]].map(|extent| extent as usize);
        let width = width_of(columns);
        for first in (0..columns).step_by(width) {
            let part = sums.slice(1, first..first + width);
            let place = self.place(part.layout(), first, [rows, width]);
            let results = epilogue.finish(part.cast::<f32>(), place);
            let panel = buffer.slice(1, first..first + width);
            panel.store(results.cast::<O>());
        }
    }

    /// Where the sums of columns from `first` on stand.
    #[track_caller]
    fn place(self, layout: Layout, first: usize, [rows, width]: [usize; 2]) -> Place<O> {
        let [of_rows, of_columns] = if self.turned {
            [self.first[1], self.first[0]]
        } else {
            self.first
        };
        let i = rows_of(layout.clone(), of_rows, rows);
        let j = columns_of(layout, of_columns + first, width);
        let (row, column) = if self.turned { (j, i) } else { (i, j) };
        Place {
            row,
            column,
            batch: self.batch,
            size: self.size,
            data: self.data,
        }
    }
}
