//! Results that are divided by a scale for each block of a row, which is known when all of the block is: it is computed twice, so that nothing is kept.

use std::ops::Range;

use tilekit::prelude::*;

use super::ending::Finish;
use super::epilogue::{Place, by_pairs};
use super::factor::{BLOCK, Stored};

/// The largest [`E4m3`].
pub(crate) const LARGEST_E4M3: f32 = 448.0;

/// The least magnitude whose scale has a reciprocal; what is smaller becomes 0.
pub(crate) const LEAST: f32 = 1e-30;

/// The largest results of a type whose blocks have scales.
pub(super) fn largest_of<O: Stored>() -> Option<f32> {
    if O::DTYPE == E4m3::DTYPE {
        Some(LARGEST_E4M3)
    } else if O::DTYPE == E5m2::DTYPE {
        Some(57344.0)
    } else {
        None
    }
}

/// The scale of blocks of which the largest magnitudes are these.
#[track_caller]
pub(super) fn scale_of<O: Stored>(magnitudes: Tensor<f32>) -> Tensor<f32> {
    let largest = largest_of::<O>().expect("results of bytes, which each call checks");
    magnitudes.maximum(LEAST) / largest
}

/// The largest magnitude of each row, `[rows, 1]`.
#[device]
fn largest_of_rows<O: Stored, E: Finish<O>>(
    epilogue: E,
    (sums, at): (Tensor<f32>, Place<O, E::Outputs>),
) -> Tensor<f32> {
    let measured = Place {
        measures: true,
        ..at
    };
    let results = epilogue.finish(sums, measured);
    let inside = if epilogue.halves() {
        by_pairs((at.row < at.size[0]) & (at.column < at.size[1])).0
    } else {
        at.column < at.size[1]
    };
    let magnitudes = select(inside, results.abs(), 0.0);
    magnitudes.max(1).expand_dims(1)
}

/// The same of the sums of several parts.
#[device]
fn largest_of_parts<O: Stored, E: Finish<O>>(
    epilogue: E,
    first: (Tensor<f32>, Place<O, E::Outputs>),
    others: impl Fn(Tensor<f32>) -> Tensor<f32>,
) -> Tensor<f32> {
    let mut largest = largest_of_rows(epilogue, first);
    // Results of a branch are computed again behind it: kept, they would take the registers of all of the block.
    if first.1.size[0] > 0 {
        largest = others(largest);
    }
    largest
}

/// Stores what the epilogue makes of sums over the scales of its blocks, `width` columns at a time: `part` gives sums and where they stand, `store` takes results.
#[track_caller]
pub(super) fn store_blocks<O: Stored, E: Finish<O>>(
    epilogue: E,
    [columns, width]: [usize; 2],
    part: impl Fn(Range<usize>) -> (Tensor<f32>, Place<O, E::Outputs>),
    store: impl Fn(Range<usize>, Tensor<f32>, Place<O, E::Outputs>),
) {
    let block = BLOCK * (1 + usize::from(epilogue.halves()));
    for first in (0..columns).step_by(block) {
        let firsts = || (first..first + block).step_by(width);
        let parts = || firsts().map(|first| first..first + width);
        let of_first = part(first..first + width);
        let larger =
            |largest: Tensor<f32>, range| largest.maximum(largest_of_rows(epilogue, part(range)));
        let others = |largest| parts().skip(1).fold(largest, larger);
        let magnitudes = largest_of_parts(epilogue, of_first, others);
        let factor = 1.0 / epilogue.store_scale(magnitudes, of_first.1);
        for range in parts() {
            let (sums, at) = part(range.clone());
            store(range, epilogue.finish(sums, at) * factor, at);
        }
    }
}
