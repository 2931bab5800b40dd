//! Matrices compressed for sparse products, [`Accumulator::mma_sparse`](gluon_lang::lang::Accumulator::mma_sparse), on the
//! host.
//!
//! The tensor cores skip half of each row of operand A: of four elements side by side they multiply two, of two elements
//! of 4 bytes one (PTX ISA 9.7.15.6.1). [`Compressed`] has what is multiplied, and says where it was.

use crate::element::DeviceElement;
use crate::number::Number;

/// The places of a group of zeroes: the first elements.
const FIRST: u8 = 0b0100;

/// Groups that a number of metadata describes, by 4 bits each.
const GROUPS: usize = 4;

/// A matrix of which half of each row is kept: in each group the elements that are largest in magnitude.
///
/// ```
/// use tilekit::prelude::*;
/// use tilekit::sparse::Compressed;
///
/// let row = [3.0, 0.0, 0.5, -4.0].map(bf16::from_f32);
/// let compressed = Compressed::of(&row, 4);
/// // Elements 0 and 3 are kept; the row is padded to the unit of TMA copies.
/// assert_eq!(compressed.kept()[..2], [row[0], row[3]]);
/// assert_eq!(compressed.metadata_tiles([1, 16]), [0x4440 | 0b11_00]);
/// assert_eq!(compressed.dropped(), 1);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Compressed<T> {
    rows: usize,
    columns: usize,
    kept: Vec<T>,
    /// 4 bits for each group of each row.
    places: Vec<u8>,
    dropped: usize,
}

/// Elements of a group, and how many of them are kept.
fn group<T>() -> (usize, usize) {
    if size_of::<T>() < 4 { (4, 2) } else { (2, 1) }
}

fn zero<T: DeviceElement>() -> T {
    T::nearest(Number::Int(0)).expect("every element type holds 0")
}

impl<T: DeviceElement> Compressed<T> {
    /// Compresses a matrix with rows of `columns` elements, one after the other. Of elements of the same magnitude the first
    /// are kept, and NaN is larger than any number. What is missing in the last group or the last row counts as zero.
    pub fn of(elements: &[T], columns: usize) -> Self {
        let (columns, (of, keep)) = (columns.max(1), group::<T>());
        let groups = columns.div_ceil(of);
        let mut compressed = Compressed {
            rows: elements.len().div_ceil(columns),
            columns,
            kept: Vec::new(),
            places: Vec::new(),
            dropped: 0,
        };
        let padding = compressed.kept_columns() - groups * keep;
        for row in elements.chunks(columns) {
            for number in 0..groups {
                let begin = (number * of).min(row.len());
                let end = (begin + of).min(row.len());
                compressed.add_group(&row[begin..end]);
            }
            compressed.kept.extend(vec![zero::<T>(); padding]);
        }
        compressed
    }

    fn add_group(&mut self, elements: &[T]) {
        let (of, keep) = group::<T>();
        let element = |place: usize| elements.get(place).copied().unwrap_or_else(zero);
        // `total_cmp` has NaN above all numbers.
        let magnitude = |place: usize| element(place).number().to_f64().abs();
        let mut order: Vec<usize> = (0..of).collect();
        order.sort_by(|&x, &y| magnitude(y).total_cmp(&magnitude(x)));
        let (kept, dropped) = order.split_at_mut(keep);
        kept.sort_unstable();
        self.kept.extend(kept.iter().map(|&place| element(place)));
        self.dropped += dropped.iter().filter(|&&p| magnitude(p) != 0.0).count();
        // Of two elements of 4 bytes, the places are those of both halves.
        self.places.push(match *kept {
            [first, second] => (first | second << 2) as u8,
            [0] => FIRST,
            _ => 0b1110,
        });
    }

    /// Elements from one row of [`kept`](Compressed::kept) to the next: half of a row, padded to
    /// [`unit_bytes`](target::TensorMapLimits::unit_bytes) for tensor maps.
    pub fn kept_columns(&self) -> usize {
        Self::kept_columns_of(self.columns)
    }

    /// The same for a matrix of so many columns, which need not be there yet.
    pub fn kept_columns_of(columns: usize) -> usize {
        let (of, keep) = group::<T>();
        let columns = columns.div_ceil(of) * keep;
        columns.next_multiple_of(16 / size_of::<T>())
    }

    /// The kept elements, `[rows, kept_columns]`.
    pub fn kept(&self) -> &[T] {
        &self.kept
    }

    /// Elements other than zero that are not kept: none of a matrix that was sparse.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// The matrix with zeroes where nothing was kept, `[rows, columns]`.
    pub fn dense(&self) -> Vec<T> {
        let ((of, keep), kept_columns) = (group::<T>(), self.kept_columns());
        let groups = self.columns.div_ceil(of);
        let mut dense = vec![zero(); self.rows * self.columns];
        for (at, &places) in self.places.iter().enumerate() {
            let (row, number) = (at / groups, at % groups);
            for i in 0..keep {
                let place = if keep == 2 {
                    places >> (2 * i) & 3
                } else {
                    places >> 1 & 1
                };
                let column = number * of + usize::from(place);
                if column < self.columns {
                    dense[row * self.columns + column] =
                        self.kept[row * kept_columns + number * keep + i];
                }
            }
        }
        dense
    }

    /// The metadata in tiles for `[m, k]` elements of the matrix, one whole tile after the other, those of the same rows
    /// side by side: `[rows / m, columns / k, m, k / 16]`, or k / 8 for elements of 4 bytes, of which k is a multiple (it is
    /// rounded up). What lies outside of the matrix names the first elements of its groups, for no places are undefined.
    pub fn metadata_tiles(&self, [m, k]: [usize; 2]) -> Vec<u16> {
        let per_number = GROUPS * group::<T>().0;
        let numbers = k.div_ceil(per_number).max(1);
        let (m, k) = (m.max(1), numbers * per_number);
        let (down, across) = (self.rows.div_ceil(m), self.columns.div_ceil(k));
        let mut tiles = Vec::with_capacity(down * across * m * numbers);
        for tile in 0..down * across {
            let (first_row, first) = (tile / across * m, tile % across * numbers);
            for row in first_row..first_row + m {
                tiles.extend((first..first + numbers).map(|at| self.number(row, at)));
            }
        }
        tiles
    }

    /// Number `at` of the metadata of a row.
    fn number(&self, row: usize, at: usize) -> u16 {
        let groups = self.columns.div_ceil(group::<T>().0);
        let places = |number: usize| {
            let is_inside = row < self.rows && number < groups;
            is_inside.then(|| self.places[row * groups + number])
        };
        (0..GROUPS).fold(0, |all, i| {
            let places = places(at * GROUPS + i).unwrap_or(FIRST);
            all | u16::from(places) << (4 * i)
        })
    }
}
