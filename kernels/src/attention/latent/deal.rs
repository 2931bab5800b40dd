//! The keys of all sequences, end to end, dealt to the parts of a grid.

use tilekit::prelude::*;

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
    /// Warps of the partition that asks.
    pub(super) warps: usize,
}

/// The steps of each part.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub(super) steps: Scalar<i32>,
    /// Whether sequences of one length are not cut.
    pub(super) is_whole: Scalar<bool>,
}

/// The steps of a part, and the sequence that they begin in.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) part: Scalar<i32>,
    pub(super) begin: Scalar<i32>,
    pub(super) end: Scalar<i32>,
    sequence: Scalar<i32>,
    /// The first step of the sequence.
    first: Scalar<i32>,
}

/// The steps `from..to` of a sequence that a part has.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) sequence: Scalar<i32>,
    pub(super) keys: Scalar<i32>,
    pub(super) from: Scalar<i32>,
    pub(super) to: Scalar<i32>,
    /// Whether those are all.
    pub(super) is_whole: Scalar<bool>,
    /// The number of the piece.
    pub(super) number: Scalar<i32>,
    /// The steps and the pieces of the part in front of it.
    pub(super) fill: Scalar<i32>,
    pub(super) round: Scalar<i32>,
}

/// The pieces of a sequence.
#[derive(Clone, Copy, Aggregate)]
pub(super) struct Pieces {
    /// The number of the first.
    pub(super) first: Scalar<i32>,
    pub(super) count: Scalar<i32>,
}

impl Deal {
    #[device]
    fn sequences(self) -> Tensor<i32> {
        arange(0..AT_ONCE, Blocked::new([1], [32], [self.warps], [0]))
    }

    /// Steps of sequences from `first` on; 0 where there is none.
    #[device]
    fn steps(self, first: Scalar<i32>) -> Tensor<i32> {
        let sequence = first + self.sequences();
        let is_there = sequence < self.batch;
        let keys = self.lengths.at(sequence).mask(is_there).other(0).load();
        let keys = minimum(maximum(keys, 0), self.room);
        select(is_there, maximum((keys + (STEP - 1)) / STEP, 1), 0)
    }

    /// The keys of a sequence.
    #[device]
    fn keys(self, sequence: Scalar<i32>) -> Scalar<i32> {
        let keys = self.lengths.at(sequence).load();
        minimum(maximum(keys, 0), self.room)
    }

    /// Steps of each part. Sequences of one length are not cut if the parts that then have a sequence more than others cost little.
    #[device]
    pub(super) fn share(self) -> Share {
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
        Share {
            steps: select(is_whole, whole, even),
            is_whole,
        }
    }

    /// The steps of a part.
    #[device]
    pub(super) fn span(self, part: Scalar<i32>) -> Span {
        let share = self.share().steps;
        let begin = part * share;
        let (mut sequence, mut first, mut before) = (scalar(0), scalar(0), scalar(0));
        for at in range(0, self.batch).step(AT_ONCE as i32) {
            let steps = self.steps(at);
            // Where each sequence ends.
            let ends = before + steps.cumsum(0);
            let is_before = (steps > 0) & (ends <= begin);
            sequence += is_before.cast::<i32>().sum(0).scalar();
            first = maximum(first, select(is_before, ends, 0).max(0).scalar());
            before += steps.sum(0).scalar();
        }
        Span {
            part,
            begin,
            end: minimum(begin + share, before),
            sequence,
            first,
        }
    }

    /// The pieces of a sequence.
    #[device]
    pub(super) fn pieces(self, sequence: Scalar<i32>, share: Scalar<i32>) -> Pieces {
        let mut before = scalar(0);
        for at in range(0, sequence).step(AT_ONCE as i32) {
            let number = at + self.sequences();
            before += select(number < sequence, self.steps(at), 0).sum(0).scalar();
        }
        let steps = maximum(cdiv(self.keys(sequence), STEP), 1);
        let [first, last] = [before / share, (before + steps - 1) / share];
        Pieces {
            first: first + sequence,
            count: last - first + 1,
        }
    }

    /// Calls `work` with each piece of a part.
    #[device]
    pub(super) fn each_piece(self, span: Span, work: impl Fn(Piece)) {
        let (mut sequence, mut first, mut at) = (span.sequence, span.first, span.begin);
        let mut round = scalar(0);
        while at < span.end {
            let keys = self.keys(sequence);
            let steps = maximum(cdiv(keys, STEP), 1);
            let (from, to) = (at - first, minimum(steps, span.end - first));
            let piece = Piece {
                sequence,
                keys,
                from,
                to,
                is_whole: (from == 0) & (to == steps),
                number: span.part + sequence,
                fill: at - span.begin,
                round,
            };
            work(piece);
            round += 1;
            first += steps;
            sequence += 1;
            at = first;
        }
    }
}
