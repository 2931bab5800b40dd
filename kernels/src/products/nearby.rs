//! The choice for a size without a record of its own, by those of sizes near by.

use super::dispatch::{Choice, Why};
use super::instances::Instance;
use super::need::Need;
use super::plan::Plan;

/// The winner of another size is taken if the model says that it takes at most so many times as long as its best.
const CONFIRMED: f64 = 1.04;

/// The winner of another kind of GPU is taken if the model says that it takes at most so many times as long as its best: of 38 that were timed on an H100 two lie above and take 1.08 to 1.10 times as long as the
/// model's choice, and one that takes 0.98 to 0.99 of it (`bench/results/products/choice.md`).
const CONFIRMED_ELSEWHERE: f64 = 1.15;

/// How far M, N and K may be from those of a record, together, in powers of two. Of 35 sizes of a survey so near a record its winner has 0.993 of the speed of the fastest plan, 0.991 the model's choice; of 81 twice as far 0.988 and
/// 0.992 (`bench/results/products/choice.md`).
const FARTHEST: f64 = 0.25;

/// Records that are looked at for a size without one of its own, the nearest first.
const NEAREST: usize = 3;

/// Whether the model does not contradict the winner of another kind of GPU.
pub(super) fn is_confirmed_elsewhere(plan: &Plan, best: &Plan) -> bool {
    plan.microseconds <= CONFIRMED_ELSEWHERE * best.microseconds
}

/// A record by which sizes near by may choose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Near {
    /// M, N and K.
    size: [usize; 3],
    /// Their logarithms to base 2.
    place: [f64; 3],
    instance: Instance,
}

impl Near {
    pub(super) fn new(size: [usize; 3], instance: Instance) -> Near {
        Near {
            size,
            place: size.map(log2),
            instance,
        }
    }

    pub(super) fn is_of(&self, size: [usize; 3]) -> bool {
        self.size == size
    }
}

fn log2(extent: usize) -> f64 {
    (extent.max(1) as f64).log2()
}

/// The winner of the nearest record that the model confirms.
pub(super) fn nearby(records: &[Near], need: &Need, best: &Plan) -> Option<Choice> {
    let here = need.size.map(log2);
    let distance = |there: &[f64; 3]| -> f64 {
        let apart = here
            .iter()
            .zip(there)
            .map(|(here, there)| (here - there).abs());
        apart.sum()
    };
    let mut nearest: [Option<(f64, usize)>; NEAREST] = [None; NEAREST];
    for (at, record) in records.iter().enumerate() {
        let mut found =
            Some((distance(&record.place), at)).filter(|(distance, _)| *distance <= FARTHEST);
        // The first of equally near ones stays in front.
        for place in &mut nearest {
            let is_nearer = match (&found, &place) {
                (Some((new, _)), Some((old, _))) => new < old,
                (Some(_), None) => true,
                (None, _) => false,
            };
            if is_nearer {
                std::mem::swap(place, &mut found);
            }
        }
    }
    nearest.into_iter().flatten().find_map(|(_, at)| {
        let Near { size, instance, .. } = records[at];
        let plan = Plan::able(instance, need)?;
        let there = Need { size, ..*need };
        let then = Plan::able(instance, &there)?;
        // Where another wave begins, a winner is one no longer.
        let is_confirmed = plan.microseconds <= CONFIRMED * best.microseconds
            && plan.waves(need) == then.waves(&there);
        is_confirmed.then_some(Choice {
            plan,
            why: Why::TunedNear(size),
        })
    })
}
