//! Matrices compressed on the device.

use std::fmt;

use tilekit::prelude::*;

use super::layout::{BLOCK, BLOCK_NUMBERS, DESCRIBED, STRIP};
use super::operand::magnitude_of;
use super::{Pruning, SparseOperand};

/// What `refused` has of a block that is sparse.
pub(super) const NONE_REFUSED: i64 = i64::MAX;

/// Four neighbours, of which two are kept.
struct Kept<B> {
    elements: [Tensor<B>; 2],
    /// Their indices, 2 bits each.
    places: Tensor<i32>,
    /// One of the others is not zero.
    drops: Tensor<bool>,
}

/// The two largest in magnitude, the first ones of equal ones.
#[device]
fn largest_two<T: SparseOperand>(four: [Tensor<T::Bits>; 4]) -> Kept<T::Bits> {
    let magnitudes = four.map(magnitude_of::<T>);
    let none = zeros_like(magnitudes[0]);
    // As many as go before it.
    let rank = |at: usize| {
        (0..4)
            .filter(|&other| other != at)
            .fold(none, |rank, other| {
                let [own, others] = [magnitudes[at], magnitudes[other]];
                rank + if other < at {
                    select(others >= own, 1, none)
                } else {
                    select(others > own, 1, none)
                }
            })
    };
    let is_kept: [Tensor<bool>; 4] = std::array::from_fn(|at| rank(at) < 2);
    let drops = (0..4).map(|at| !is_kept[at] & (magnitudes[at] != 0));
    let first = select(is_kept[0], 0, select(is_kept[1], 1, none + 2));
    let second = select(is_kept[3], 3, select(is_kept[2], 2, none + 1));
    Kept {
        elements: [
            select(is_kept[0], four[0], select(is_kept[1], four[1], four[2])),
            select(is_kept[3], four[3], select(is_kept[2], four[2], four[1])),
        ],
        places: first | second << 2,
        drops: drops
            .reduce(|all, next| all | next)
            .expect("there are four"),
    }
}

/// A block, whose elements are neighbours in memory along `axis`.
fn along(axis: usize) -> Blocked {
    if axis == 0 {
        Blocked::new([1, 1], [32, 1], [1, 4], [0, 1])
    } else {
        Blocked::new([1, 1], [1, 32], [4, 1], [1, 0])
    }
}

/// What [`sparse_compress`] is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompressForm {
    /// What becomes of matrices that are not sparse.
    pub pruning: Pruning,
    /// The dimension along which elements are contiguous, if there is one.
    pub axis: Option<usize>,
}

impl fmt::Display for CompressForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lies = match self.axis {
            Some(0) => "along_m",
            Some(_) => "along_k",
            None => "strided",
        };
        write!(f, "{}+{lies}", self.pruning)
    }
}

/// Compresses `[m, k]`, whose element `[i, j]` is at `dense + i * row_step + j * column_step`, to the [layout](super::layout) with rows of `pitch` kept elements; a CTA has a block of it.
/// Where matrices that are not sparse are refused, `refused` gets of each block, those of the same rows one after the other, the least `row << 32 | column` of four elements of which more
/// than two are other than zero.
#[kernel(warps = 4)]
pub fn sparse_compress<T: SparseOperand>(
    #[fixed] form: CompressForm,
    #[readonly]
    #[align(size_of::<T>())]
    dense: Ptr<T>,
    row_step: i64,
    column_step: i64,
    kept: Ptr<T>,
    pitch: i32,
    places: Ptr<u16>,
    refused: Ptr<i64>,
    m: i32,
    k: i32,
) {
    let (dense, kept) = (dense.cast::<T::Bits>(), kept.cast::<T::Bits>());
    let [block, strip] = [program_id(0), program_id(1)];
    let own = strip * num_programs(0) + block;
    let [first_row, first_column] = [strip * STRIP, block * BLOCK];
    let layout = along(form.axis.unwrap_or(1));
    let row = rows_of(layout.clone(), first_row, STRIP);
    let column = columns_of(layout, first_column, BLOCK);
    let (i, j) = (row.cast::<i64>(), column.cast::<i64>());
    let at = match form.axis {
        Some(0) => i + j * column_step,
        Some(_) => i * row_step + j,
        None => i * row_step + j * column_step,
    };
    let inside = (row < m) & (column < k);
    let elements = dense.at(at).mask(inside).other(0).load();

    // A thread has the elements that a number describes.
    let elements = elements.convert_layout(Blocked::new([1, DESCRIBED], [8, 4], [4, 1], [1, 0]));
    let (even, odd) = elements.reshape([STRIP, BLOCK / 4, 2, 2]).split();
    let ((e0, e2), (e1, e3)) = (even.split(), odd.split());
    let two = largest_two::<T>([e0, e1, e2, e3]);

    let [first, second] = two.elements;
    let all = first.join(second).reshape([STRIP, BLOCK / 2]);
    let all = all.convert_layout(along(1));
    let row = rows_of(all.layout(), first_row, STRIP);
    let column = columns_of(all.layout(), first_column / 2, BLOCK / 2);
    let at = row.cast::<i64>() * pitch.cast::<i64>() + column.cast::<i64>();
    kept.at(at).mask((row < m) & (column < pitch)).store(all);

    let numbers = BLOCK / DESCRIBED;
    let four = columns_of(two.places.layout(), scalar(0), BLOCK / 4);
    let all = (two.places << (four % 4 * 4)).reshape([STRIP, numbers, 4]);
    let all = all.sum(2).cast::<u16>();
    // As `number_place` says: warp, which of both rows, row of a lane; column, or pair of columns and which of both.
    let all = if size_of::<T>() == 2 {
        all.reshape([4, 2, 8, 4]).permute([0, 2, 3, 1])
    } else {
        all.reshape([4, 2, 8, 2, 2]).permute([0, 2, 3, 1, 4])
    };
    let threads = Blocked::new([2], [32], [4], [0]);
    let all = all.ravel().convert_layout(threads.clone());
    let at = arange(0..BLOCK_NUMBERS, threads);
    places.at(own * BLOCK_NUMBERS + at).store(all);

    if form.pruning == Pruning::Refuse {
        let row = rows_of(two.places.layout(), first_row, STRIP);
        let column = four * 4 + first_column;
        let place = row.cast::<i64>() << 32 | column.cast::<i64>();
        let place = select(two.drops, place, NONE_REFUSED);
        refused.at(own).store(place.min(1).min(0));
    }
}
