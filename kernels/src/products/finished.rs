//! From the sums of a warpgroup to results in shared memory.

use std::collections::VecDeque;
use std::ops::Range;

use tilekit::prelude::*;

use super::blocks::store_blocks;
use super::epilogue::{Data, Epilogue, Place};
use super::factor::{Stored, WARPGROUP_THREADS};
use super::output_handles::{NoOutputs, OutputHandles};

/// Where a warpgroup's sums stand in the result, and the numbers of the call.
#[derive(Clone, Copy)]
pub(crate) struct Finished<O: Stored, X = NoOutputs> {
    /// Its first row and column there.
    pub(crate) first: [Scalar<i32>; 2],
    /// Which product of a batch.
    pub(crate) batch: Scalar<i32>,
    /// Rows and columns of the result.
    pub(crate) size: [Scalar<i32>; 2],
    /// Rows of the result from one of the sums to the next.
    pub(crate) rows_apart: usize,
    /// Rows of the sums are columns of the result, and so of the buffer.
    pub(crate) turned: bool,
    pub(crate) data: Data<O, X>,
}

/// Columns that are finished at a time where sums take the registers.
const NARROW: usize = 8;

/// Columns whose source is loaded before those in front of them are finished, at most.
const LOADED_AHEAD: usize = 32;

/// Registers of a thread for sums, the part that is finished and what is loaded for others: with more of them wide parts spilled.
const HELD_AND_LOADED: usize = 168;

/// Parts of so many columns of all sums `[rows, columns]` whose source is loaded ahead: as many as registers hold, or none.
fn parts_ahead<A>([rows, columns]: [usize; 2], width: usize) -> usize {
    let [held, part] = [columns, width].map(|columns| rows * columns / WARPGROUP_THREADS);
    let of_source = (part * size_of::<A>()).div_ceil(4).max(1);
    let room = HELD_AND_LOADED.saturating_sub(held + part);
    (LOADED_AHEAD / width).max(1).min(room / of_source)
}

/// Columns that an epilogue finishes at a time: what it reads for all of a tile does not fit the registers beside the sums. Of 152, which none of these divides, 24 are left at the end.
fn width_of(columns: usize) -> usize {
    let widths = [64, 32, 16];
    let fits = |width: &usize| columns.is_multiple_of(*width);
    widths.into_iter().find(fits).unwrap_or(32)
}

/// Stores what `finish` makes of the sums, some columns at a time: it gets them and the range of their numbers.
#[track_caller]
pub(crate) fn store_by_columns<S: Numeric, O: Element>(
    sums: Tensor<S>,
    buffer: Smem<O>,
    finish: impl Fn(Tensor<f32>, Range<usize>) -> Tensor<f32>,
) {
    let columns = sums.shape()[1] as usize;
    let width = width_of(columns);
    for first in (0..columns).step_by(width) {
        let range = first..(first + width).min(columns);
        let part = sums.slice(1, range.clone());
        let results = finish(part.cast::<f32>(), range.clone());
        let panel = buffer.slice(1, range);
        panel.store(results.cast::<O>());
    }
}

/// Finishes parts whose source is loaded `ahead` parts before: a load takes longer than a part, of which the next would wait.
#[track_caller]
fn finish_behind_loads<O: Stored, E: Epilogue<O>>(
    epilogue: E,
    (parts, ahead): (impl Iterator<Item = Range<usize>>, usize),
    part: impl Fn(Range<usize>) -> (Tensor<f32>, Place<O, E::Outputs>),
    store: impl Fn(Range<usize>, Tensor<f32>, Place<O, E::Outputs>),
) {
    let finish = |(range, (sums, at))| store(range, epilogue.finish(sums, at), at);
    let mut loaded = VecDeque::new();
    for range in parts {
        let (sums, at) = part(range.clone());
        loaded.push_back((range, (sums, at.with_source())));
        if loaded.len() > ahead {
            loaded.pop_front().into_iter().for_each(finish);
        }
    }
    loaded.into_iter().for_each(finish);
}

impl<O: Stored, X: OutputHandles> Finished<O, X> {
    /// Stores what the epilogue makes of the sums.
    #[track_caller]
    pub(crate) fn store<S: Numeric>(
        self,
        epilogue: impl Epilogue<O, Outputs = X>,
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
        let shape = [0, 1].map(|axis| sums.shape()[axis] as usize);
        let width = width_of(shape[1]).min(epilogue.columns());
        let ahead = parts_ahead::<O::Addend>(shape, width);
        self.finish(epilogue, sums, buffer, [width, ahead]);
    }

    /// The same of a part of sums of which the rest takes the registers: fewer columns are finished at a time. A source is loaded ahead all the same: of 192 sums of a thread some are spilled, and the waits would take longer.
    #[track_caller]
    pub(crate) fn store_part<S: Numeric>(
        self,
        epilogue: impl Epilogue<O, Outputs = X>,
        sums: Tensor<S>,
        buffer: Smem<O>,
    ) {
        if epilogue.is_plain() {
            return self.store(epilogue, sums, buffer);
        }
        let buffer = if self.turned {
            buffer.transpose()
        } else {
            buffer
        };
        let ahead = LOADED_AHEAD / NARROW;
        self.finish(epilogue, sums, buffer, [NARROW, ahead]);
    }

    /// Stores what the epilogue makes of the sums, so many columns at a time, of which so many times the source is loaded ahead.
    #[track_caller]
    fn finish<S: Numeric>(
        self,
        epilogue: impl Epilogue<O, Outputs = X>,
        sums: Tensor<S>,
        buffer: Smem<O>,
        [width, ahead]: [usize; 2],
    ) {
        let [rows, columns] = [0, 1].map(|axis| sums.shape()[axis] as usize);
        let part = |range: Range<usize>| {
            let (shape, first) = ([rows, range.len()], range.start);
            let part = sums.slice(1, range).cast::<f32>();
            (part, self.place(part.layout(), first, shape))
        };
        let store = |range: Range<usize>, results: Tensor<f32>, _| {
            let [first, end] = [range.start, range.end].map(|at| epilogue.result_columns(at));
            let panel = buffer.slice(1, first..end);
            panel.store(results.cast::<O>());
        };
        if Epilogue::has_scales(&epilogue) {
            return store_blocks(epilogue, [columns, width], part, store);
        }
        let range_of = |first: usize| first..(first + width).min(columns);
        if Epilogue::has_source(&epilogue) && ahead > 0 {
            let parts = (0..columns).step_by(width).map(range_of);
            return finish_behind_loads(epilogue, (parts, ahead), part, store);
        }
        for first in (0..columns).step_by(width) {
            let (sums, at) = part(range_of(first));
            store(range_of(first), epilogue.finish(sums, at), at);
        }
    }

    /// What the epilogue makes of the sums of columns from `first` on.
    #[track_caller]
    pub(crate) fn columns(
        self,
        epilogue: impl Epilogue<O, Outputs = X>,
        part: Tensor<f32>,
        first: usize,
    ) -> Tensor<f32> {
        let shape = part.shape();
        let [rows, width] = [shape[0], shape[1]].map(|extent| extent as usize);
        epilogue.finish(part, self.place(part.layout(), first, [rows, width]))
    }

    /// Where the sums of columns from `first` on stand.
    #[track_caller]
    fn place(self, layout: Layout, first: usize, [rows, width]: [usize; 2]) -> Place<O, X> {
        let [of_rows, of_columns] = if self.turned {
            [self.first[1], self.first[0]]
        } else {
            self.first
        };
        let [i_apart, j_apart] = if self.turned {
            [1, self.rows_apart]
        } else {
            [self.rows_apart, 1]
        };
        let i = match i_apart {
            1 => rows_of(layout.clone(), of_rows, rows),
            apart => of_rows + rows_of(layout.clone(), scalar(0), rows) * apart,
        };
        let j = match j_apart {
            1 => columns_of(layout, of_columns + first, width),
            apart => of_columns + columns_of(layout, scalar(first as i32), width) * apart,
        };
        let (row, column) = if self.turned { (j, i) } else { (i, j) };
        Place {
            row,
            column,
            batch: self.batch,
            size: self.size,
            data: self.data,
            given: None,
            stored: None,
            measures: false,
            loaded: None,
        }
    }
}
