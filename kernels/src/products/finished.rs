//! From the sums of a warpgroup to results in shared memory.

use tilekit::prelude::*;

use super::epilogue::{Data, Epilogue, Place};

/// Where a warpgroup's sums stand in the result, and the numbers of the call.
#[derive(Clone, Copy)]
pub(super) struct Finished<O> {
    /// Its first row and column.
    pub(super) first: [Scalar<i32>; 2],
    /// Which product of a batch.
    pub(super) batch: Scalar<i32>,
    /// Rows and columns of the result.
    pub(super) size: [Scalar<i32>; 2],
    pub(super) data: Data<O>,
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
    pub(super) fn store<S: Numeric>(
        self,
        epilogue: impl Epilogue<O>,
        sums: Tensor<S>,
        buffer: Smem<O>,
    ) {
        if epilogue.is_plain() {
            return buffer.store(sums.cast::<O>());
        }
        let shape = sums.shape();
        let [rows, columns] = [shape[0], shape[1]].map(|extent| extent as usize);
        let width = width_of(columns);
        for first in (0..columns).step_by(width) {
            let part = sums.slice(1, first..first + width);
            let layout = part.layout();
            let place = Place {
                row: rows_of(layout.clone(), self.first[0], rows),
                column: columns_of(layout, self.first[1] + first, width),
                batch: self.batch,
                size: self.size,
                data: self.data,
            };
            let results = epilogue.finish(part.cast::<f32>(), place);
            let panel = buffer.slice(1, first..first + width);
            panel.store(results.cast::<O>());
        }
    }
}
