//! Lanes whose accesses to global memory lie in one allocation, and what they move together.

use crate::global::Allocation;
use crate::lanes::{LANES, Lanes32, PerLane, lanes_of};
use crate::machine::order::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Lanes whose accesses lie in one allocation.
pub(crate) struct Group {
    /// Number of the allocation.
    pub(crate) number: usize,
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) lanes: u32,
    pub(crate) offsets: [usize; LANES],
    /// All 32 lanes, at consecutive addresses.
    pub(crate) is_run: bool,
}

impl Group {
    /// Some of its lanes.
    pub(crate) fn part(&self, lanes: u32) -> Self {
        Self {
            allocation: Arc::clone(&self.allocation),
            lanes,
            is_run: self.is_run && lanes == self.lanes,
            ..*self
        }
    }

    /// The bytes that lanes access, `bytes` each; neighbours are one range.
    pub(crate) fn runs(&self, bytes: usize) -> impl Iterator<Item = Range> {
        let mut lanes = if self.is_run { 1 } else { self.lanes };
        let width = if self.is_run { LANES * bytes } else { bytes };
        std::iter::from_fn(move || {
            let first = lanes.trailing_zeros() as usize;
            let start = *self.offsets.get(first)?;
            let mut end = start + width;
            lanes &= lanes - 1;
            while lanes != 0 {
                let offset = self.offsets[lanes.trailing_zeros() as usize];
                match offset {
                    _ if offset == end => end += bytes,
                    // Several lanes access the same.
                    _ if offset + bytes == end => {}
                    _ => break,
                }
                lanes &= lanes - 1;
            }
            Some((start, end - start))
        })
    }
}

#[inline(always)]
pub(crate) fn gather_words(group: &Group, at: usize) -> Lanes32 {
    let mut out = Lanes32([0; LANES]);
    if group.is_run {
        let stride = (group.offsets[1] - group.offsets[0]) / 4;
        let words = group.allocation.words(group.offsets[0], stride * LANES);
        for (value, run) in out.0.iter_mut().zip(words.chunks_exact(stride)) {
            *value = run[at / 4].load(Relaxed);
        }
        return out;
    }
    for lane in lanes_of(group.lanes) {
        out.0[lane] = group.allocation.load(group.offsets[lane] + at);
    }
    out
}

#[inline(always)]
pub(crate) fn scatter_words(group: &Group, at: usize, values: &Lanes32) {
    if group.is_run {
        let stride = (group.offsets[1] - group.offsets[0]) / 4;
        let words = group.allocation.words(group.offsets[0], stride * LANES);
        for (value, run) in values.0.iter().zip(words.chunks_exact(stride)) {
            run[at / 4].store(*value, Relaxed);
        }
        return;
    }
    for lane in lanes_of(group.lanes) {
        group
            .allocation
            .store(group.offsets[lane] + at, 4, values.0[lane]);
    }
}

/// Elements of any size from global memory.
pub(crate) fn gather(group: &Group, at: usize, element: u32) -> PerLane {
    let mut values = [0; LANES];
    for lane in lanes_of(group.lanes) {
        values[lane] = group.allocation.element(group.offsets[lane] + at, element);
    }
    values
}

/// Elements of any size to global memory; two neighbours of 16 bits go out as one word.
pub(crate) fn scatter(group: &Group, at: usize, element: u32, values: &PerLane) {
    if element == 2
        && group.is_run
        && group.offsets[1] - group.offsets[0] == 2
        && group.offsets[0].is_multiple_of(4)
    {
        for pair in 0..LANES / 2 {
            let word = values[2 * pair] as u32 & 0xffff | (values[2 * pair + 1] as u32) << 16;
            group.allocation.store(group.offsets[2 * pair], 4, word);
        }
        return;
    }
    for lane in lanes_of(group.lanes) {
        group
            .allocation
            .put_element(group.offsets[lane] + at, element, values[lane]);
    }
}

/// Notes that the lanes of a group have written their bytes.
pub(crate) fn mark_written(group: &Group, bytes: u32) {
    if group.is_run {
        group
            .allocation
            .written
            .insert(group.offsets[0], LANES * bytes as usize);
        return;
    }
    for lane in lanes_of(group.lanes) {
        group
            .allocation
            .written
            .insert(group.offsets[lane], bytes as usize);
    }
}
