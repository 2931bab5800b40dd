//! A matrix of a call: where it lies, and whether kernels take it from there.

use tilekit::prelude::*;

use super::error::{Result, expect};
use super::factor::UNIT_BYTES;
use super::need::{MOST, unit_of};

/// A matrix in a buffer, or a batch of them, by elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    pub(crate) shape: [usize; 2],
    pub(crate) strides: [usize; 2],
    pub(crate) offset: usize,
    /// How many matrices there are, and from one to the next.
    pub(crate) batches: [usize; 2],
}

impl Matrix {
    /// Without elements.
    pub(super) const EMPTY: Matrix = Matrix {
        shape: [0; 2],
        strides: [0, 1],
        offset: 0,
        batches: [1, 0],
    };

    /// That of a view, which lies inside of its buffer.
    pub(crate) fn of<T: DeviceElement>(
        name: &'static str,
        view: &TensorView<'_, T>,
    ) -> Result<Matrix> {
        let place = view.place();
        let (shape, strides) = (place.shape.as_slice(), place.strides.as_slice());
        let ([batches, rows, columns], [batch, row, column]) = match (shape, strides) {
            (&[rows, columns], &[row, column]) => ([1, rows, columns], [0, row, column]),
            (&[batches, rows, columns], &[batch, row, column]) => {
                ([batches, rows, columns], [batch, row, column])
            }
            _ => {
                let found = || format!("{} dimensions and {} strides", shape.len(), strides.len());
                let expected = "2 of each: rows, columns; or 3: batch, rows, columns";
                return expect(false, name, found, expected).map(|()| unreachable!());
            }
        };
        let matrix = Matrix {
            shape: [rows, columns],
            strides: [row, column],
            offset: place.offset,
            batches: [batches, batch],
        };
        expect(
            rows.max(columns).max(batches) <= MOST,
            name,
            || format!("shape {shape:?}"),
            format!("at most {MOST} along a dimension"),
        )?;
        let elements = view.source().len();
        expect(
            matrix.end() <= elements as u128,
            name,
            || format!("a matrix that ends at element {}", matrix.end()),
            format!("one inside of its buffer of {elements} elements"),
        )?;
        Ok(matrix)
    }

    /// One element past the last.
    pub(super) fn end(&self) -> u128 {
        if self.is_empty() {
            return 0;
        }
        let reaches = self
            .dims()
            .map(|(count, step)| (count as u128 - 1) * step as u128);
        self.offset as u128 + reaches.iter().sum::<u128>() + 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shape.contains(&0) || self.batches[0] == 0
    }

    /// Extent and stride of each dimension.
    fn dims(&self) -> [(usize, usize); 3] {
        let ([rows, columns], [row, column], [batches, batch]) =
            (self.shape, self.strides, self.batches);
        [(batches, batch), (rows, row), (columns, column)]
    }

    /// Elements from one matrix of a batch to the next: none where there is one for all.
    pub(super) fn step_of_batch(&self) -> usize {
        if self.is_batched() {
            self.batches[1]
        } else {
            0
        }
    }

    /// Whether there is one for each product of a batch of several.
    pub(super) fn is_batched(&self) -> bool {
        self.batches[0] > 1
    }

    /// Rows as columns.
    pub(crate) fn transposed(self) -> Matrix {
        let ([rows, columns], [row, column]) = (self.shape, self.strides);
        Matrix {
            shape: [columns, rows],
            strides: [column, row],
            ..self
        }
    }

    /// What is checked of a product of twice as many columns.
    pub(super) fn doubled(self) -> Matrix {
        let [rows, columns] = self.shape;
        Matrix {
            shape: [rows, 2 * columns],
            ..self
        }
    }

    /// Without gaps but those that end rows of elements of so many bytes at multiples of 16 bytes.
    pub(super) fn padded(of: Matrix, element_bytes: usize) -> Matrix {
        let [rows, columns] = of.shape;
        let pitch = columns.next_multiple_of(UNIT_BYTES / element_bytes);
        Matrix {
            shape: of.shape,
            strides: [pitch, 1],
            offset: 0,
            batches: [of.batches[0], rows.saturating_mul(pitch)],
        }
    }

    /// Elements from its first row to the end of its last pitch, of one matrix and of all.
    pub(super) fn room(&self) -> [usize; 2] {
        let room = self.shape[0].saturating_mul(self.strides[0]);
        let before = (self.batches[0].max(1) - 1).saturating_mul(self.batches[1]);
        [room, before.saturating_add(room)]
    }

    /// The dimension along which elements follow each other, rows (1) where both or none do.
    pub(super) fn along(&self) -> usize {
        usize::from(self.strides[0] != 1 || self.strides[1] == 1)
    }

    /// The same with a stride of 1 along rows and a pitch that a tensor map takes, if it lies so.
    pub(super) fn in_rows(self, element_bytes: usize) -> Option<Matrix> {
        let unit = UNIT_BYTES / element_bytes;
        let [rows, columns] = self.shape;
        let is_dense = columns <= 1 || self.strides[1] == 1;
        // The pitch of a single row is anything.
        let pitch = if rows <= 1 {
            columns.max(1).next_multiple_of(unit)
        } else {
            self.strides[0]
        };
        let fits = is_dense
            && pitch >= columns
            && pitch.is_multiple_of(unit)
            && (!self.is_batched() || self.batches[1].is_multiple_of(unit))
            && self.offset.is_multiple_of(unit);
        fits.then_some(Matrix {
            strides: [pitch, 1],
            ..self
        })
    }

    /// The same with a stride of 1 along rows, if its rows begin anywhere.
    pub(super) fn in_any_rows(self) -> Option<Matrix> {
        let [rows, columns] = self.shape;
        let is_dense = columns <= 1 || self.strides[1] == 1;
        let pitch = if rows <= 1 { columns } else { self.strides[0] };
        let fits = is_dense && pitch >= columns;
        fits.then_some(Matrix {
            strides: [pitch, 1],
            ..self
        })
    }

    /// The largest of 1, 2, 4 and 8 elements at multiples of which rows begin and end.
    pub(super) fn unit(&self) -> usize {
        let [pitch, columns] = [self.strides[0], self.shape[1]];
        let all = pitch | columns | self.offset | self.step_of_batch();
        unit_of(all)
    }

    /// Whether no two elements share a place.
    pub(super) fn is_apart(&self) -> bool {
        if self.is_empty() {
            return true;
        }
        let mut dims = self.dims();
        dims.sort_by_key(|&(_, step)| step);
        let mut width = 1_usize;
        dims.into_iter()
            .filter(|&(count, _)| count > 1)
            .all(|(count, step)| {
                let is_apart = step >= width;
                width = (count - 1).saturating_mul(step).saturating_add(width);
                is_apart
            })
    }
}

impl std::fmt::Display for Matrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [rows, columns] = self.shape;
        let [row, column] = self.strides;
        match self.batches {
            [0 | 1, _] => write!(f, "{rows}x{columns} with strides {row} and {column}"),
            [batches, batch] => write!(
                f,
                "{batches} times {rows}x{columns} with strides {batch}, {row} and {column}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(shape: [usize; 2], strides: [usize; 2], offset: usize) -> Matrix {
        Matrix {
            shape,
            strides,
            offset,
            batches: [1, 0],
        }
    }

    #[test]
    fn a_matrix_is_apart_as_counting_its_places_says() {
        for rows in 0..4 {
            for columns in 0..4 {
                for row in 0..6 {
                    for column in 0..6 {
                        let found = matrix([rows, columns], [row, column], 0);
                        let places = (0..rows)
                            .flat_map(|i| (0..columns).map(move |j| i * row + j * column))
                            .collect::<std::collections::HashSet<usize>>();
                        let is_apart = places.len() == rows * columns;
                        // Interleaved rows are apart too, and refused all the same.
                        assert!(!found.is_apart() || is_apart, "{found}");
                        let is_nested = row >= columns * column || column >= rows * row;
                        assert!(found.is_apart() || !is_apart || !is_nested, "{found}");
                    }
                }
            }
        }
    }

    #[test]
    fn rows_that_a_tensor_map_takes() {
        let check = |shape, strides, offset, expected: Option<usize>| {
            let found = matrix(shape, strides, offset).in_rows(2);
            assert_eq!(found.map(|matrix| matrix.strides[0]), expected);
        };
        check([3, 10], [16, 1], 0, Some(16));
        check([3, 10], [12, 1], 0, None);
        check([3, 10], [16, 2], 0, None);
        check([3, 10], [16, 1], 8, Some(16));
        check([3, 10], [16, 1], 4, None);
        check([3, 10], [8, 1], 0, None);
        check([3, 10], [1, 16], 0, None);
        check([1, 10], [3, 1], 0, Some(16));
        check([3, 1], [8, 7], 0, Some(8));
    }
}
