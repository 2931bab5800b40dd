//! The plan of a call: which keys each part of the grid has, and which sequences are cut. It follows from lengths alone, so one plan serves all layers.

use tilekit::prelude::*;

use super::deal::{Deal, STEP};
use super::shape::PAGE;

/// Numbers of a part: its first step and the one behind its last, the sequence that it begins in, the first step and the keys of that, and
/// the cut sequences of the plan.
pub(super) const PART_NUMBERS: i32 = 8;
/// Numbers of a cut sequence: itself, its first piece, and how many it has.
pub(super) const CUT_NUMBERS: i32 = 4;

/// Numbers of a plan: those of parts, those of cut sequences, of which there are fewer than parts, and the keys of each sequence.
pub(super) fn plan_numbers(parts: usize, batch: usize) -> usize {
    (PART_NUMBERS + CUT_NUMBERS) as usize * parts + batch
}

/// A plan in global memory.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) numbers: Ptr<i32>,
    pub(super) parts: Scalar<i32>,
}

/// The steps of a part, and the sequence that they begin in.
#[derive(Clone, Copy)]
pub(super) struct Span {
    part: Scalar<i32>,
    begin: Scalar<i32>,
    end: Scalar<i32>,
    sequence: Scalar<i32>,
    /// The first step and the keys of the sequence.
    first: Scalar<i32>,
    keys: Scalar<i32>,
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

/// A sequence of which several parts have pieces.
#[derive(Clone, Copy, Aggregate)]
pub(super) struct Cut {
    pub(super) sequence: Scalar<i32>,
    /// The number of the first piece.
    pub(super) first: Scalar<i32>,
    pub(super) count: Scalar<i32>,
}

impl Plan {
    #[device]
    pub(super) fn of_cuts(self) -> Ptr<i32> {
        self.numbers + self.parts * PART_NUMBERS
    }

    #[device]
    pub(super) fn of_keys(self) -> Ptr<i32> {
        self.numbers + self.parts * (PART_NUMBERS + CUT_NUMBERS)
    }

    /// The steps of a part.
    #[device]
    pub(super) fn span(self, part: Scalar<i32>) -> Span {
        let of = self.numbers + part * PART_NUMBERS;
        let [begin, end, sequence, first, keys] = [0, 1, 2, 3, 4].map(|at| of.at(at).load());
        Span {
            part,
            begin,
            end,
            sequence,
            first,
            keys,
        }
    }

    /// How many sequences are cut.
    #[device]
    pub(super) fn cuts(self) -> Scalar<i32> {
        self.numbers.at(5).load()
    }

    /// A cut sequence, by its number among those; nothing of the first sequence beyond the last one.
    #[device]
    pub(super) fn cut(self, number: Scalar<i32>) -> Cut {
        let of = self.of_cuts() + minimum(number, self.parts - 1) * CUT_NUMBERS;
        let [sequence, first, count] = [0, 1, 2].map(|at| of.at(at).load());
        Cut {
            sequence,
            first,
            count,
        }
    }

    /// Calls `work` with each piece of a part.
    #[device]
    pub(super) fn each_piece(self, span: Span, work: impl Fn(Piece)) {
        let (mut sequence, mut keys) = (span.sequence, span.keys);
        // Steps of the sequence: the first one of the part, and what lies in front of its end.
        let (mut from, mut left) = (span.begin - span.first, span.end - span.first);
        let (mut fill, mut round) = (scalar(0), scalar(0));
        while from < left {
            let steps = maximum(cdiv(keys, STEP), 1);
            let to = minimum(steps, left);
            work(Piece {
                sequence,
                keys,
                from,
                to,
                is_whole: (from == 0) & (to == steps),
                number: span.part + sequence,
                fill,
                round,
            });
            fill += to - from;
            round += 1;
            sequence += 1;
            left -= steps;
            from = scalar(0);
            let is_more = left > 0;
            keys = self.of_keys().at(sequence).mask(is_more).other(0).load();
        }
    }
}

/// The plan of calls of so many parts, for [`decode_latent`](super::kernel::decode_latent) and [`merge_latent`](super::merge::merge_latent): a program for each part. A length counts as
/// the room of its sequence, `table_row` pages, if it is beyond, and as 0 if it is negative.
/// The next launch begins beside it where `begins_early` is not 0: all CTAs of a call whose CTAs share the cache should begin together, behind its end.
#[kernel(warps = 1)]
pub fn plan_latent(
    #[align(4)] lengths: Ptr<i32>,
    #[align(4)] plan: Ptr<i32>,
    batch: i32,
    table_row: i32,
    begins_early: i32,
) {
    assume((batch > 0) & (table_row > 0));
    let deal = Deal {
        lengths,
        batch,
        parts: num_programs(0),
        room: table_row * PAGE,
    };
    if begins_early != 0 {
        launch_dependents();
    }
    launch_wait();
    let plan = Plan {
        numbers: plan,
        parts: num_programs(0),
    };
    deal.write(plan, program_id(0));
}

/// Fails an assertion where a length is none that the plan was made of. A program for each sequence.
#[kernel(warps = 1)]
pub fn check_latent_plan(#[align(4)] lengths: Ptr<i32>, #[align(4)] plan: Ptr<i32>, parts: i32) {
    launch_dependents();
    launch_wait();
    let plan = Plan {
        numbers: plan,
        parts,
    };
    let sequence = program_id(0);
    device_assert(
        plan.of_keys().at(sequence).load() == lengths.at(sequence).load(),
        "attention: `plan`: found a length of a sequence that has changed since the plan was made",
    );
}
