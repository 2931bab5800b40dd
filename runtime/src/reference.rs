//! Sums of products on the host in f64, for the references of cases and tests. Those of matrices are optimised where an author's package is
//! not: written there, they take a debug build some hundred times as long, and longer than the emulator takes for the kernel.
//!
//! ```
//! use tilekit::reference::{Matrix, product};
//!
//! let (a, b) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
//! let (a, b) = (Matrix::rows(&a, 2), Matrix::rows(&b, 2));
//! assert_eq!(product([2, 2, 2], a, b), [19.0, 22.0, 43.0, 50.0]);
//! assert_eq!(product([2, 2, 2], a, b.transposed()), [17.0, 23.0, 39.0, 53.0]);
//! ```

#![allow(
    unsafe_code,
    reason = "the product of a well-kept library takes pointers"
)]

use rayon::prelude::*;

/// A row-major matrix in memory, which may be read transposed.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    elements: &'a [f64],
    /// Elements from one row in memory to the next.
    stride: usize,
    is_transposed: bool,
}

impl<'a> Matrix<'a> {
    /// A matrix whose rows lie in memory, so many elements from one to the next.
    pub fn rows(elements: &'a [f64], stride: usize) -> Matrix<'a> {
        Matrix {
            elements,
            stride,
            is_transposed: false,
        }
    }

    /// The transpose of the same elements.
    #[must_use]
    pub fn transposed(self) -> Matrix<'a> {
        Matrix {
            is_transposed: !self.is_transposed,
            ..self
        }
    }

    /// Elements from one row or column, as the product sees them, to the next.
    fn steps(&self) -> [isize; 2] {
        let stride = self.stride as isize;
        if self.is_transposed {
            [1, stride]
        } else {
            [stride, 1]
        }
    }

    /// Whether `rows` by `columns`, as the product sees them, lie inside.
    fn holds(&self, rows: usize, columns: usize) -> bool {
        let [row, column] = self.steps().map(isize::unsigned_abs);
        let last = rows.saturating_sub(1) * row + columns.saturating_sub(1) * column;
        rows * columns == 0 || last < self.elements.len()
    }
}

/// The fewest rows that one task computes: every task packs the whole operand B for itself.
const ROWS: usize = 128;

/// `left · right`, `[m, n]` row-major, of `[m, k]` and `[k, n]`, on all cores. What is multiplied by zero must be finite.
///
/// # Panics
/// If an operand has fewer elements than that.
pub fn product([m, n, k]: [usize; 3], left: Matrix<'_>, right: Matrix<'_>) -> Vec<f64> {
    assert!(
        left.holds(m, k) && right.holds(k, n),
        "operands hold what is multiplied"
    );
    let mut result = vec![0.0; m * n];
    if n == 0 {
        return result;
    }
    let rows = m.div_ceil(rayon::current_num_threads()).max(ROWS);
    let ([down, across], [right_down, right_across]) = (left.steps(), right.steps());
    result
        .par_chunks_mut(rows * n)
        .enumerate()
        .for_each(|(at, chunk)| {
            let first = at * rows * down.unsigned_abs();
            let left = &left.elements[first.min(left.elements.len())..];
            // SAFETY: the chunk has whole rows of `n`, and both operands hold what these extents and steps reach, as was
            // checked above.
            unsafe {
                matrixmultiply::dgemm(
                    chunk.len() / n,
                    k,
                    n,
                    1.0,
                    left.as_ptr(),
                    down,
                    across,
                    right.elements.as_ptr(),
                    right_down,
                    right_across,
                    0.0,
                    chunk.as_mut_ptr(),
                    n as isize,
                    1,
                );
            }
        });
    result
}

/// The products of each of `m` rows with each of `n` others, all of `k` elements one behind the other: `[m, n]` row-major.
///
/// # Panics
/// If there are fewer elements than that.
pub fn products_of_rows([m, n, k]: [usize; 3], rows: &[f64], others: &[f64]) -> Vec<f64> {
    let others = Matrix::rows(others, k).transposed();
    product([m, n, k], Matrix::rows(rows, k), others)
}

/// The sum of products of `x` with as many elements of `y`.
///
/// # Panics
/// If there are fewer of these.
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    // Here and in `add`: a debug build inlines nothing, and takes eight times as long for iterators.
    let (mut sum, mut at) = (0.0, 0);
    while at < x.len() {
        sum += x[at] * y[at];
        at += 1;
    }
    sum
}

/// Adds `factor` times `x` to as many elements of `sums`.
///
/// # Panics
/// If there are fewer of these.
pub fn add(sums: &mut [f64], factor: f64, x: &[f64]) {
    let mut at = 0;
    while at < x.len() {
        sums[at] += factor * x[at];
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole numbers, so that every order of sums gives the same.
    fn numbers(len: usize, seed: usize) -> Vec<f64> {
        (0..len)
            .map(|at| ((at * 7 + seed * 13) % 17) as f64 - 8.0)
            .collect()
    }

    #[track_caller]
    fn check(size: [usize; 3], padding: usize, is_transposed: [bool; 2]) {
        let [m, n, k] = size;
        let matrix = |rows: usize, columns: usize, is_transposed: bool, seed: usize| {
            let [rows, columns] = if is_transposed {
                [columns, rows]
            } else {
                [rows, columns]
            };
            (numbers(rows * (columns + padding), seed), columns + padding)
        };
        let (a, a_stride) = matrix(m, k, is_transposed[0], 1);
        let (b, b_stride) = matrix(k, n, is_transposed[1], 2);
        let operand = |elements, stride, is_transposed| Matrix {
            elements,
            stride,
            is_transposed,
        };
        let left = operand(&a, a_stride, is_transposed[0]);
        let right = operand(&b, b_stride, is_transposed[1]);
        let at = |of: &Matrix<'_>, row: usize, column: usize| {
            let [row, column] = if of.is_transposed {
                [column, row]
            } else {
                [row, column]
            };
            of.elements[row * of.stride + column]
        };
        let want: Vec<f64> = (0..m * n)
            .map(|place| {
                (0..k)
                    .map(|i| at(&left, place / n, i) * at(&right, i, place % n))
                    .sum()
            })
            .collect();
        assert_eq!(
            product(size, left, right),
            want,
            "{size:?} {is_transposed:?}"
        );
    }

    #[test]
    fn it_is_the_sum_of_products_for_every_way_to_lie() {
        for is_transposed in [[false, false], [false, true], [true, false], [true, true]] {
            check([5, 7, 3], 0, is_transposed);
            check([300, 17, 33], 2, is_transposed);
            check([1, 1, 1], 3, is_transposed);
        }
        check([3, 2, 0], 0, [false, true]);
        check([0, 2, 4], 0, [false, true]);
        check([2, 0, 4], 1, [false, false]);
    }

    #[test]
    fn rows_are_multiplied_with_rows_and_added() {
        let (rows, others) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
        let all = products_of_rows([2, 3, 2], &rows, &others);
        assert_eq!(all, [17.0, 23.0, 29.0, 39.0, 53.0, 67.0]);
        let sum = dot(&rows[2..], &others);
        assert_eq!(vec![sum], [39.0], "as many as the first has");
        let mut sums = vec![1.0; 3];
        add(&mut sums, 2.0, &rows[..2]);
        assert_eq!(sums, [3.0, 5.0, 1.0]);
    }
}
