//! Lanes whose accesses to global memory lie in one allocation, and what they move together.

use crate::global::Allocation;
use crate::lanes::{LANES, Lanes32, PerLane, lanes_of};
use crate::machine::order::{Lane, Run, RunLanes};
use smallvec::SmallVec;
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

    /// The bytes that lanes access, `bytes` each; neighbours are one run, if each has its own lane or each has several.
    pub(crate) fn runs(&self, bytes: usize) -> impl Iterator<Item = Run> {
        let mut lanes = if self.is_run { 0 } else { self.lanes };
        let mut whole = self.is_run.then_some(Run {
            range: (self.offsets[0], LANES * bytes),
            lanes: RunLanes::Each { first: 0, bytes },
        });
        std::iter::from_fn(move || {
            if lanes == 0 {
                return whole.take();
            }
            let first = lanes.trailing_zeros() as usize;
            let start = self.offsets[first];
            let many = self.take_place(&mut lanes) > 1;
            let (mut end, mut next) = (start + bytes, first + 1);
            loop {
                let mut rest = lanes;
                let lane = rest.trailing_zeros() as usize;
                let goes_on = lane < LANES && self.offsets[lane] == end && (many || lane == next);
                if !goes_on || (self.take_place(&mut rest) > 1) != many {
                    break;
                }
                (lanes, next) = (rest, lane + 1);
                end += bytes;
            }
            let lanes = if many {
                RunLanes::All(Lane::SEVERAL)
            } else {
                RunLanes::Each { first, bytes }
            };
            Some(Run {
                range: (start, end - start),
                lanes,
            })
        })
    }

    /// Takes the first lane and those behind it that access the same place; how many these are.
    fn take_place(&self, lanes: &mut u32) -> u32 {
        let offset = self.offsets[lanes.trailing_zeros() as usize];
        let mut taken = 0;
        while *lanes != 0 && self.offsets[lanes.trailing_zeros() as usize] == offset {
            *lanes &= *lanes - 1;
            taken += 1;
        }
        taken
    }

    /// Pairs of lanes that access one place: each lane with the first that does.
    pub(crate) fn pairs(&self) -> SmallVec<[(usize, usize); 8]> {
        let mut pairs = SmallVec::new();
        let offsets = lanes_of(self.lanes).map(|lane| self.offsets[lane]);
        if self.is_run || offsets.is_sorted_by(|one, next| one < next) {
            return pairs;
        }
        let mut order: SmallVec<[usize; LANES]> = lanes_of(self.lanes).collect();
        order.sort_by_key(|&lane| self.offsets[lane]);
        let mut first = order[0];
        for &lane in &order[1..] {
            if self.offsets[lane] == self.offsets[first] {
                pairs.push((first, lane));
            } else {
                first = lane;
            }
        }
        pairs
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

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 4;

    /// Lanes that access the places with these numbers.
    fn group(places: &[(usize, usize)]) -> Group {
        let mut offsets = [usize::MAX; LANES];
        let mut lanes = 0;
        for &(lane, place) in places {
            offsets[lane] = place * BYTES;
            lanes |= 1 << lane;
        }
        Group {
            number: 0,
            allocation: Arc::new(Allocation::new((0, 4096), 0, None)),
            lanes,
            offsets,
            is_run: false,
        }
    }

    /// First place, places, and the first lane of those that have one each.
    fn runs(places: &[(usize, usize)]) -> Vec<(usize, usize, Option<usize>)> {
        let run = |run: Run| {
            let first = match run.lanes {
                RunLanes::All(lane) => {
                    assert_eq!(lane, Lane::SEVERAL);
                    None
                }
                RunLanes::Each { first, bytes } => {
                    assert_eq!(bytes, BYTES);
                    Some(first)
                }
            };
            (run.range.0 / BYTES, run.range.1 / BYTES, first)
        };
        group(places).runs(BYTES).map(run).collect()
    }

    #[test]
    fn neighbours_of_neighbouring_lanes_are_one_run() {
        assert_eq!(runs(&[(2, 7), (3, 8), (4, 9)]), [(7, 3, Some(2))]);
        assert_eq!(runs(&[(2, 7), (4, 8)]), [(7, 1, Some(2)), (8, 1, Some(4))]);
        assert_eq!(runs(&[(2, 8), (3, 7)]), [(8, 1, Some(2)), (7, 1, Some(3))]);
        assert_eq!(runs(&[(30, 7), (31, 8)]), [(7, 2, Some(30))]);
        assert_eq!(runs(&[]), []);
    }

    #[test]
    fn places_of_several_lanes_are_runs_of_their_own() {
        assert_eq!(runs(&[(0, 5), (1, 5), (2, 6), (3, 6)]), [(5, 2, None)]);
        assert_eq!(runs(&[(0, 5), (1, 5), (3, 6), (9, 6)]), [(5, 2, None)]);
        assert_eq!(
            runs(&[(0, 5), (1, 5), (2, 6), (3, 7), (4, 7)]),
            [(5, 1, None), (6, 1, Some(2)), (7, 1, None)]
        );
        // A place that comes again later is another run.
        assert_eq!(
            runs(&[(0, 5), (1, 6), (2, 5), (3, 6)]),
            [(5, 2, Some(0)), (5, 2, Some(2))]
        );
    }

    #[test]
    fn a_warp_at_consecutive_places_is_one_run() {
        let places: Vec<(usize, usize)> = (0..LANES).map(|lane| (lane, 3 + lane)).collect();
        let whole = Group {
            is_run: true,
            ..group(&places)
        };
        let found: Vec<Run> = whole.runs(BYTES).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].range, (3 * BYTES, LANES * BYTES));
        assert!(matches!(
            found[0].lanes,
            RunLanes::Each {
                first: 0,
                bytes: BYTES
            }
        ));
        assert!(whole.pairs().is_empty());
        assert!(whole.part(u32::MAX).is_run && !whole.part(0xff).is_run);
    }

    #[test]
    fn lanes_at_one_place_are_pairs() {
        let pairs = |places: &[(usize, usize)]| group(places).pairs().to_vec();
        assert_eq!(pairs(&[(0, 1), (1, 2), (5, 3)]), []);
        assert_eq!(pairs(&[(0, 3), (1, 2), (5, 1)]), []);
        assert_eq!(pairs(&[(0, 3), (1, 2), (5, 3), (6, 3)]), [(0, 5), (0, 6)]);
        assert_eq!(pairs(&[(4, 3), (5, 3), (6, 1), (7, 1)]), [(6, 7), (4, 5)]);
    }
}
