//! The keys of all sequences, end to end, dealt to the parts of a grid: what a plan is made of.

use tilekit::prelude::*;

use super::plan::{CUT_NUMBERS, PART_NUMBERS, Plan};

/// Keys of a step: a block of each of two warpgroups.
pub(super) const STEP: usize = 128;

/// Sequences whose lengths are read at a time.
const AT_ONCE: usize = 128;

/// All sequences' keys as one line of steps, of which each part of the grid takes `share`. A sequence has one step at least, so that the
/// rows of an empty one are written as well.
///
/// Part `p` and sequence `b` meet in one piece at most, and pieces in the order of the line have ascending `p + b`: that is their number.
#[derive(Clone, Copy)]
pub(super) struct Deal {
    pub(super) lengths: Ptr<i32>,
    pub(super) batch: Scalar<i32>,
    pub(super) parts: Scalar<i32>,
    /// The most keys of a sequence: what lies beyond is not read.
    pub(super) room: Scalar<i32>,
}

/// Where a part begins in the line.
#[derive(Clone, Copy)]
struct Begin {
    sequence: Scalar<i32>,
    /// The first step of the sequence.
    first: Scalar<i32>,
    /// The cut sequences in front of it.
    cut: Scalar<i32>,
    /// The steps and the cut sequences of the line.
    steps: Scalar<i32>,
    cuts: Scalar<i32>,
}

impl Deal {
    /// Steps of sequences from `first` on; 0 where there is none.
    #[device]
    fn steps(self, first: Scalar<i32>) -> Tensor<i32> {
        let sequence = first + arange(0..AT_ONCE, Blocked::new([1], [32], [1], [0]));
        let is_there = sequence < self.batch;
        let keys = self.lengths.at(sequence).mask(is_there).other(0).load();
        let keys = minimum(maximum(keys, 0), self.room);
        select(is_there, maximum((keys + (STEP - 1)) / STEP, 1), 0)
    }

    /// The keys of a sequence.
    #[device]
    pub(super) fn keys(self, sequence: Scalar<i32>) -> Scalar<i32> {
        let keys = self.lengths.at(sequence).load();
        minimum(maximum(keys, 0), self.room)
    }

    /// Steps of each part. Sequences of one length are not cut if the parts that then have a sequence more than others cost little.
    #[device]
    fn share(self) -> Scalar<i32> {
        let begin = self.steps(scalar(0));
        let (mut all, mut longest) = (begin, begin);
        for first in range(AT_ONCE as i32, self.batch).step(AT_ONCE as i32) {
            let steps = self.steps(first);
            all += steps;
            longest = maximum(longest, steps);
        }
        let (all, longest) = (all.sum(0).scalar(), longest.max(0).scalar());
        let even = cdiv(all, self.parts);
        let whole = cdiv(even, longest) * longest;
        let is_whole = (all == longest * self.batch) & (whole * 16 <= even * 17);
        select(is_whole, whole, even)
    }

    /// Where the part that begins with step `begin` does so.
    #[device]
    fn begin(self, begin: Scalar<i32>, share: Scalar<i32>) -> Begin {
        let (mut sequence, mut first, mut before) = (scalar(0), scalar(0), scalar(0));
        let (mut cut, mut cuts) = (scalar(0), scalar(0));
        for at in range(0, self.batch).step(AT_ONCE as i32) {
            let steps = self.steps(at);
            // Where each sequence ends.
            let ends = before + steps.cumsum(0);
            let is_before = (steps > 0) & (ends <= begin);
            let is_cut = (steps > 0) & ((ends - steps) / share != (ends - 1) / share);
            sequence += is_before.cast::<i32>().sum(0).scalar();
            first = maximum(first, select(is_before, ends, 0).max(0).scalar());
            before += steps.sum(0).scalar();
            cut += (is_before & is_cut).cast::<i32>().sum(0).scalar();
            cuts += is_cut.cast::<i32>().sum(0).scalar();
        }
        Begin {
            sequence,
            first,
            cut,
            steps: before,
            cuts,
        }
    }

    /// Writes what a plan says of a part, of the sequence that is first cut where the part begins, and of every `parts`-th sequence from `part` on.
    #[device]
    pub(super) fn write(self, plan: Plan, part: Scalar<i32>) {
        let share = self.share();
        let start = part * share;
        let of = self.begin(start, share);
        let (sequence, first) = (of.sequence, of.first);
        // A part beyond the last step begins in no sequence.
        let keys = self.keys(minimum(sequence, self.batch - 1));
        let end = minimum(start + share, of.steps);
        let numbers = [start, end, sequence, first, keys, of.cuts];
        store(plan.numbers + part * PART_NUMBERS, numbers);
        let is_cut_here = (first < start) & (first >= start - share) & (start < end);
        if is_cut_here {
            let steps = maximum(cdiv(keys, STEP), 1);
            let count = (first + steps - 1) / share - part + 2;
            let numbers = [sequence, part - 1 + sequence, count];
            store(plan.of_cuts() + of.cut * CUT_NUMBERS, numbers);
        }
        // What the merge reads before it has read how many there are.
        if part >= of.cuts {
            store(plan.of_cuts() + part * CUT_NUMBERS, [scalar(0); 3]);
        }
        for sequence in range(part, self.batch).step(self.parts) {
            let keys = self.keys(sequence);
            plan.of_keys().at(sequence).store(keys);
        }
    }
}

/// Stores numbers one after another.
#[device]
fn store<const COUNT: usize>(to: Ptr<i32>, numbers: [Scalar<i32>; COUNT]) {
    for (at, number) in numbers.into_iter().enumerate() {
        to.at(at as i32).store(number);
    }
}
