//! Reductions between the lanes of a warp.
//!
//! Lanes that all have parts of `R` results need not exchange all of them in every step: where two lanes meet, one continues
//! with a half of the results and the other with the other half, each with what both had of it. So `s` steps move
//! `R - R / 2^s` parts, and leave each lane the sums of `R / 2^s` results. In the end every lane reads each result from one
//! that has it, unless shared memory brings it the results anyway.

use ir::elem::Elem;
use layout::Axis;
use ptx::{Reg, ShflMode};

use super::{Partial, Plan, Share, Tuple, Tuples, bits_along};
use crate::emit::{Emitted, Emitter};

/// What a shuffle costs, and an access to shared memory, in selects; as in the costs of conversions.
const SHUFFLE: u32 = 2;

/// What the last round of shuffles must save besides: other warps seldom hide all of its latency.
const LATENCY: u32 = 10;

/// The bits that part the numbers, which are in ascending order, into halves that differ in nothing else.
fn halving_bits(numbers: &[u32]) -> impl Iterator<Item = u32> + '_ {
    let all = numbers.iter().fold(0, |all, number| all | number);
    let has = |number: u32| numbers.binary_search(&number).is_ok();
    let parts = move |bit: &u32| all & bit != 0 && numbers.iter().all(|number| has(number ^ bit));
    (0..32).map(|bit| 1 << bit).filter(parts)
}

/// How lanes share out the results.
#[derive(Clone, Copy)]
pub(super) struct Sharing {
    /// In how many steps.
    steps: u32,
    /// Do they read only their shares from shared memory, and exchange them by shuffles in the end?
    pub(super) is_kept: bool,
}

/// What one tuple costs.
struct Weights {
    shuffles: u32,
    selects: u32,
    combination: u32,
    stores: u32,
    /// For each trip through shared memory, reading and combining all parts of a tuple.
    reads: Vec<u32>,
}

impl Plan<'_> {
    /// The cheapest way for a thread with parts of results with these numbers; sharing nothing where others are no better.
    pub(super) fn sharing(&self, numbers: &[u32], cx: &Emitter<'_>) -> Sharing {
        let results = numbers.len() as u32;
        let weights = self.weights(cx);
        let lanes = bits_along(&self.source.map, Axis::Lane, self.axis).len() as u32;
        let most = lanes.min(halving_bits(numbers).count() as u32);
        let kept = [false, true]
            .into_iter()
            .filter(|is_kept| *is_kept || !weights.reads.is_empty());
        let ways = kept.flat_map(|is_kept| (1..=most).map(move |steps| Sharing { steps, is_kept }));
        let none = Sharing {
            steps: 0,
            is_kept: false,
        };
        let cost = |way: &Sharing| weights.of_sharing(*way, results, lanes);
        ways.fold(
            none,
            |best, way| if cost(&way) < cost(&best) { way } else { best },
        )
    }

    fn weights(&self, cx: &Emitter<'_>) -> Weights {
        let of_each = |weight: fn(Elem) -> u32| self.elems.iter().map(|&elem| weight(elem)).sum();
        let insts = cx.func.region(self.op.combine).insts.len() as u32;
        let combination = insts - 1;
        let widest_bytes = cx.func.target.access.widest_bytes;
        let reads = |parts: u32| {
            let loads = self
                .elems
                .iter()
                .map(|elem| (parts * elem.bytes()).div_ceil(widest_bytes));
            SHUFFLE * loads.sum::<u32>() + (parts - 1) * combination
        };
        let ctas = 1 << bits_along(&self.source.map, Axis::Block, self.axis).len();
        let trips = [self.sizes.warp_parts, ctas];
        Weights {
            shuffles: of_each(|elem| SHUFFLE * elem.bits().div_ceil(32)),
            // A boolean is a predicate, which no instruction selects.
            selects: of_each(|elem| {
                if elem.is_bool() {
                    4
                } else {
                    elem.bits().div_ceil(32)
                }
            }),
            combination,
            stores: SHUFFLE * self.elems.len() as u32,
            reads: trips
                .into_iter()
                .filter(|parts| *parts > 1)
                .map(reads)
                .collect(),
        }
    }

    pub(super) fn between_lanes(
        &self,
        partial: &mut Partial,
        sharing: Sharing,
        cx: &mut Emitter<'_>,
    ) -> Emitted {
        let numbers = partial.numbers.clone();
        let mut bits = halving_bits(&numbers);
        let lanes = bits_along(&self.source.map, Axis::Lane, self.axis);
        for (step, lane_bit) in (0..).zip(lanes) {
            let number = if step < sharing.steps {
                bits.next()
            } else {
                None
            };
            match number {
                None => self.combine_lanes(1 << lane_bit, &mut partial.tuples, cx)?,
                Some(number) => {
                    self.halve(Share { lane_bit, number }, &mut partial.tuples, cx)?;
                    partial.shares.push(Share { lane_bit, number });
                }
            }
        }
        Ok(())
    }

    /// Both lanes of a pair combine all that they have.
    fn combine_lanes(&self, lane: u32, tuples: &mut Tuples, cx: &mut Emitter<'_>) -> Emitted {
        for tuple in tuples.values_mut() {
            let other = self.exchanged(tuple, lane, cx);
            *tuple = cx.combine(self.op.combine, tuple, &other)?;
        }
        Ok(())
    }

    /// Each lane of a pair combines what both have of one half.
    fn halve(&self, share: Share, tuples: &mut Tuples, cx: &mut Emitter<'_>) -> Emitted {
        let lane = 1 << share.lane_bit;
        let is_lower = cx.code.thread_bits_are(lane, 0);
        let (upper, lower) = std::mem::take(tuples)
            .into_iter()
            .partition(|(number, _)| number & share.number != 0);
        let upper: Tuples = upper;
        *tuples = lower;
        for (tuple, upper) in tuples.values_mut().zip(upper.into_values()) {
            let kept = self.either(is_lower, tuple, &upper, cx);
            let sent = self.either(is_lower, &upper, tuple, cx);
            let other = self.exchanged(&sent, lane, cx);
            *tuple = cx.combine(self.op.combine, &kept, &other)?;
        }
        Ok(())
    }

    fn either(&self, p: Reg, yes: &Tuple, no: &Tuple, cx: &mut Emitter<'_>) -> Tuple {
        let pairs = yes.iter().zip(no).zip(&self.elems);
        pairs
            .map(|((&yes, &no), &elem)| cx.code.select(p.into(), yes, no, elem))
            .collect()
    }

    fn exchanged(&self, tuple: &Tuple, lane: u32, cx: &mut Emitter<'_>) -> Tuple {
        let elements = tuple.iter().zip(&self.elems);
        elements
            .map(|(&e, &elem)| cx.code.exchange(e, elem, lane))
            .collect()
    }

    /// All results: each lane reads those that are not its share from lanes that have them.
    pub(super) fn spread(&self, partial: Partial, cx: &mut Emitter<'_>) -> Tuples {
        if partial.shares.is_empty() {
            return partial.tuples;
        }
        let shared: u32 = partial.shares.iter().map(|share| share.number).sum();
        // Lanes that differ in other bits along the dimension were combined, and hold the same; so do those with copies.
        let along = bits_along(&self.source.map, Axis::Lane, self.axis);
        let alike = self.source.copied_threads & 31;
        let lanes = along.iter().fold(alike, |all, bit| all | 1 << bit);
        let result = |number: u32| {
            let held_by = partial
                .shares
                .iter()
                .filter(|share| number & share.number != 0);
            let set: u32 = held_by.map(|share| 1 << share.lane_bit).sum();
            let from = cx.code.lane_with(set, lanes & !set);
            let elements = partial.tuples[&(number & !shared)].iter().zip(&self.elems);
            let elements =
                elements.map(|(&e, &elem)| cx.code.shuffled(e, elem, ShflMode::Idx, from));
            (number, elements.collect())
        };
        partial.numbers.iter().copied().map(result).collect()
    }
}

impl Weights {
    fn of_sharing(&self, way: Sharing, results: u32, lanes: u32) -> u32 {
        let halving = |step: u32| {
            (results >> (step + 1)) * (self.shuffles + 2 * self.selects + self.combination)
        };
        let shared = results >> way.steps;
        let exchange = shared * (self.shuffles + self.combination);
        let mut cost = (0..way.steps).map(halving).sum::<u32>() + (lanes - way.steps) * exchange;
        let mut held = shared;
        for reads in &self.reads {
            let stores = held * self.stores;
            if !way.is_kept {
                held = results;
            }
            cost += stores + held * reads;
        }
        if way.steps > 0 && held < results {
            cost += results * self.shuffles + LATENCY;
        }
        cost
    }
}
