//! Whether a result shares memory with an operand, which would be read while it is written.

use std::ops::Range;

use tilekit::prelude::*;

use super::check::View;
use super::error::{Result, expect};
use super::matrix::Matrix;

/// A matrix in memory, by bytes.
struct Bytes {
    /// From its first byte to one past its last.
    range: Range<u128>,
    /// From a row to the next, and what a row takes, of one matrix in rows.
    rows: Option<[u128; 2]>,
    /// Every byte between is an element's.
    is_dense: bool,
}

impl Bytes {
    fn of<T: DeviceElement>(view: &View<'_, T>, matrix: Matrix) -> Bytes {
        let size = size_of::<T>() as u128;
        let first = u128::from(view.source().address()) + matrix.offset as u128 * size;
        let length = matrix.end() - matrix.offset as u128;
        let [rows, columns] = matrix.shape;
        let in_rows = matrix.in_any_rows().filter(|_| !matrix.is_batched());
        Bytes {
            range: first..first + length * size,
            rows: in_rows.map(|of| [of.strides[0], columns].map(|count| count as u128 * size)),
            is_dense: length == (rows * columns * matrix.batches[0]) as u128,
        }
    }

    /// Whether an element of one surely has a byte of one of the other. Parts of rows of one matrix, side by side, have none.
    fn overlaps(&self, other: &Bytes) -> bool {
        let (x, y) = (&self.range, &other.range);
        if x.start >= y.end || y.start >= x.end {
            return false;
        }
        match (self.rows, other.rows) {
            (Some([pitch, x_row]), Some([other, y_row])) if pitch == other => {
                // Where the row of the one that begins later begins in those of the other.
                let (between, of_first, of_second) = if x.start <= y.start {
                    (y.start - x.start, x_row, y_row)
                } else {
                    (x.start - y.start, y_row, x_row)
                };
                let at = between % pitch;
                at < of_first || at + of_second > pitch
            }
            _ => self.is_dense && other.is_dense,
        }
    }
}

/// No element of a result is one of an operand.
pub(super) fn check_apart<T: DeviceElement, O: DeviceElement>(
    (name, operand, of_operand): (&str, &View<'_, T>, Matrix),
    (result, c, of_c): (&'static str, &View<'_, O>, Matrix),
) -> Result<()> {
    if of_operand.is_empty() || of_c.is_empty() {
        return Ok(());
    }
    let overlaps = Bytes::of(operand, of_operand).overlaps(&Bytes::of(c, of_c));
    expect(
        !overlaps,
        result,
        || format!("memory of `{name}`"),
        "a result apart from the operands, which are read while it is written",
    )
}
