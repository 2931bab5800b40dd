//! Compressed matrices on the host.

use std::fmt;

use tilekit::Buffer;
use tilekit::prelude::*;

use super::layout::{DESCRIBED, FIRST_TWO, kept_pitch, number_place, numbers};
use super::{SparseMatrix, SparseOperand};
use crate::products::error::{Result, expect};

/// What becomes of four neighbours in a row of which more than two are other than zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pruning {
    /// They are an error.
    Refuse,
    /// The two largest in magnitude are kept, the first ones of equal ones; NaN is larger than any number.
    LargestTwo,
}

impl fmt::Display for Pruning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pruning::Refuse => "refuse",
            Pruning::LargestTwo => "largest_two",
        })
    }
}

/// A matrix `[M, K]` of which two of four neighbours in a row are kept, in memory of the host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSparse<T> {
    pub(super) kept: Vec<T>,
    pub(super) places: Vec<u16>,
    pub(super) shape: [usize; 2],
}

impl<T> HostSparse<T> {
    /// `[M, kept_pitch(K)]`, as [`layout`](super::layout) says. What fills rows is 0.
    pub fn kept(&self) -> &[T] {
        &self.kept
    }

    /// Where those were, in blocks.
    pub fn places(&self) -> &[u16] {
        &self.places
    }

    /// M and K.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }
}

impl<T: SparseOperand> HostSparse<T> {
    /// Compresses `[M, K]`, row by row. What is missing of the last four of a row counts as zero.
    ///
    /// ```
    /// use tilekit_kernels::products::sparse::{HostSparse, Pruning};
    ///
    /// let row: [i8; 8] = [3, 0, 0, -4, 5, 1, -5, 2];
    /// let refused = HostSparse::compress(&row, [1, 8], Pruning::Refuse).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "product: `elements`: found more than two numbers other than zero in row 0, columns 4 to 7; \
    ///      expected two of each four neighbours: `Pruning::LargestTwo` keeps those"
    /// );
    /// let compressed = HostSparse::compress(&row, [1, 8], Pruning::LargestTwo).unwrap();
    /// assert_eq!(compressed.kept()[..4], [3, -4, 5, -5]);
    /// assert_eq!(compressed.dense(), [3, 0, 0, -4, 5, 0, -5, 0]);
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`](crate::products::Error::Argument) where there are not `M · K` elements, and of [`Pruning::Refuse`] with the first row and columns that are not sparse.
    pub fn compress(elements: &[T], shape: [usize; 2], pruning: Pruning) -> Result<Self> {
        check_shape("shape", shape)?;
        let [m, k] = shape;
        expect(
            elements.len() == m * k,
            "elements",
            || format!("{} elements", elements.len()),
            format!("{}: {m} rows of {k}", m * k),
        )?;
        let zero = T::NOTHING;
        let pitch = kept_pitch::<T>(k);
        let fours = FIRST_TWO * 0x1111;
        let mut compressed = HostSparse {
            kept: vec![zero; m * pitch],
            places: vec![fours; numbers::<T>(shape)],
            shape,
        };
        for (row, elements) in elements.chunks(k.max(1)).enumerate() {
            for (number, four) in elements.chunks(4).enumerate() {
                let four: [T; 4] = std::array::from_fn(|i| four.get(i).copied().unwrap_or(zero));
                let [first, second] = largest_two(four.map(T::magnitude));
                let others = (0..4).filter(|at| ![first, second].contains(at));
                let is_sparse = others.into_iter().all(|at| four[at].magnitude() == 0);
                if pruning == Pruning::Refuse {
                    expect_sparse("elements", is_sparse, [row, number * 4], k)?;
                }
                let kept = &mut compressed.kept[row * pitch + number * 2..][..2];
                kept.copy_from_slice(&[four[first], four[second]]);
                let at = number_place::<T>([row, number * 4 / DESCRIBED], k);
                let bit = number % 4 * 4;
                let places = (first | second << 2) as u16;
                compressed.places[at] = compressed.places[at] & !(15 << bit) | places << bit;
            }
        }
        Ok(compressed)
    }

    /// The matrix `[M, K]`, row by row, with zeros where nothing was kept.
    pub fn dense(&self) -> Vec<T> {
        let [m, k] = self.shape;
        let pitch = kept_pitch::<T>(k);
        let mut dense = vec![T::NOTHING; m * k];
        for row in 0..m {
            for at in 0..super::layout::kept(k) {
                let number = at / 2;
                let places = self.places[number_place::<T>([row, number * 4 / DESCRIBED], k)];
                let place = places >> (number % 4 * 4 + at % 2 * 2) & 3;
                let column = number * 4 + usize::from(place);
                if column < k {
                    dense[row * k + column] = self.kept[row * pitch + at];
                }
            }
        }
        dense
    }

    /// Copies it to a device.
    ///
    /// # Errors
    /// What the device has against it, and as for [`SparseMatrix::new`].
    pub fn on(&self, device: &Device) -> Result<SparseMatrix<T>> {
        let kept = Buffer::from_slice(device, &self.kept)?;
        let places = Buffer::from_slice(device, &self.places)?;
        SparseMatrix::new(kept, places, self.shape)
    }
}

/// The indices of the two largest, in ascending order.
fn largest_two(magnitudes: [u32; 4]) -> [usize; 2] {
    let mut order = [0, 1, 2, 3];
    // The sort is stable.
    order.sort_by_key(|&at| std::cmp::Reverse(magnitudes[at]));
    [order[0].min(order[1]), order[0].max(order[1])]
}

/// Four elements from `first` on have two at most that are other than zero.
pub(super) fn expect_sparse(
    name: &'static str,
    is_sparse: bool,
    [row, first]: [usize; 2],
    k: usize,
) -> Result<()> {
    let last = (first + 4).min(k) - 1;
    expect(
        is_sparse,
        name,
        || format!("more than two numbers other than zero in row {row}, columns {first} to {last}"),
        "two of each four neighbours: `Pruning::LargestTwo` keeps those",
    )
}

/// Indices have 32 bits.
pub(super) fn check_shape(name: &'static str, [m, k]: [usize; 2]) -> Result<()> {
    let most = 1 << 28;
    expect(
        m.max(k) <= most,
        name,
        || format!("{m} rows of {k} elements"),
        format!("at most {most} of each"),
    )?;
    // Those of 8 bits are as many or more.
    let room = numbers::<u8>([m, k]);
    expect(
        i32::try_from(room).is_ok(),
        name,
        || format!("{room} numbers of places"),
        format!("at most {}: indices have 32 bits", i32::MAX),
    )
}
