//! Comparing a result with its reference, every element, on all cores.

mod tally;
mod verdict;

#[cfg(test)]
mod tests;

pub use tally::Tally;
pub use verdict::{Agreement, Mismatch, WrongElement};

use super::shape::{Odometer, Shape};
use super::{Tolerance, parallel};
use crate::element::DeviceElement;
use crate::number::{Number, Reference};

/// Elements compared by one task at a time.
const CHUNK: usize = 1 << 14;

/// Compares `got`, of this shape, with `want([i, j, ..])`.
///
/// # Errors
/// A [`Mismatch`] with the count, the first and the worst wrong element.
///
/// # Panics
/// If `N` is not the shape's number of dimensions, or `got` not as long as the shape says.
pub fn compare<T: DeviceElement, R: Reference, const N: usize>(
    output: &str,
    shape: &Shape,
    got: &[T],
    want: impl Fn([usize; N]) -> R + Sync,
    tolerance: Tolerance,
) -> Result<Agreement, Box<Mismatch>> {
    assert_eq!(
        got.len(),
        shape.len(),
        "as many elements as the shape {shape} says"
    );
    let chunks = parallel::map(got.len().div_ceil(CHUNK), |chunk| {
        let start = chunk * CHUNK;
        let elements = &got[start..got.len().min(start + CHUNK)];
        let mut odometer = Odometer::starting_at(shape, start);
        let want: Vec<Number> = elements
            .iter()
            .map(|_| want(odometer.step()).number())
            .collect();
        T::tally(start, elements, &want, tolerance)
    });
    // Chunks are joined in order, so that sums do not depend on the number of threads.
    let tally = chunks.into_iter().fold(Tally::default(), Tally::join);
    tally.verdict(output, shape, tolerance)
}
