//! Lanes whose accesses to global memory lie in one allocation, and what they move together.

use crate::global::Allocation;
use crate::lanes::{LANES, Lanes32, PerLane, lanes_of};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Lanes whose accesses lie in one allocation.
pub(crate) struct Group {
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) lanes: u32,
    pub(crate) offsets: [usize; LANES],
    /// All 32 lanes, at consecutive addresses.
    pub(crate) is_run: bool,
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
    let keep = u64::MAX >> (64 - element * 8);
    for lane in lanes_of(group.lanes) {
        let offset = group.offsets[lane] + at;
        let low = u64::from(group.allocation.load(offset));
        let high = if element == 8 {
            u64::from(group.allocation.load(offset + 4)) << 32
        } else {
            0
        };
        values[lane] = (low | high) & keep;
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
        let offset = group.offsets[lane] + at;
        group
            .allocation
            .store(offset, element.min(4) as usize, values[lane] as u32);
        if element == 8 {
            group
                .allocation
                .store(offset + 4, 4, (values[lane] >> 32) as u32);
        }
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
