//! Successive halving: which candidates are timed next, and which is the fastest in the end. Nothing here depends on a device.

use std::time::Duration;

use crate::harness::request::TuneTimes;

/// How candidates are timed once, and who goes on.
pub(super) struct Rule {
    /// Rounds, each with a single launch and a slice back to back of every candidate.
    pub(super) rounds: usize,
    /// A slice back to back.
    pub(super) slice: Duration,
    /// How many go on at most.
    keep: usize,
    /// How many times as long as the fastest one that goes on takes at most.
    within: f64,
}

/// Each heat tells candidates apart that the one before could not.
pub(super) const HEATS: [Rule; 3] = [
    Rule {
        rounds: 3,
        slice: Duration::from_millis(2),
        keep: 8,
        within: 1.25,
    },
    Rule {
        rounds: 6,
        slice: Duration::from_millis(4),
        keep: 3,
        within: 1.05,
    },
    Rule {
        rounds: 15,
        slice: Duration::from_millis(6),
        keep: 1,
        within: 1.0,
    },
];

/// Candidates closer than this are level, and the model's order decides.
const LEVEL: f64 = 1.005;

/// What a candidate is judged by: the geometric mean of both modes.
pub(super) fn score(times: TuneTimes) -> f64 {
    (times.single_ns as f64 * times.back_to_back_ns as f64).sqrt()
}

/// The next heat and who takes part, by their places among the candidates, of which each has its times in the heats so far; none when the
/// fastest is known. Whoever has no times at all is timed alone with the others of that kind; a later heat is always one of all that take part,
/// since times of two moments differ.
pub(super) fn next(candidates: &[&[TuneTimes]], exhaustive: bool) -> Option<(usize, Vec<usize>)> {
    let mut among: Vec<usize> = (0..candidates.len()).collect();
    for (heat, rule) in HEATS.iter().enumerate() {
        let lacks = |at: &usize| candidates[*at].len() <= heat;
        let lacking: Vec<usize> = among.iter().copied().filter(lacks).collect();
        if heat == 0 && !lacking.is_empty() {
            return Some((heat, lacking));
        }
        if heat > 0 && among.len() < 2 {
            return None;
        }
        if !lacking.is_empty() {
            return Some((heat, among));
        }
        if !exhaustive {
            among = survivors(&among, rule, |at| score(candidates[at][heat]));
        }
    }
    None
}

/// Those that go on, the fastest first.
fn survivors(among: &[usize], rule: &Rule, score: impl Fn(usize) -> f64) -> Vec<usize> {
    let mut order = among.to_vec();
    order.sort_by(|a, b| score(*a).total_cmp(&score(*b)));
    let best = order.first().map_or(0.0, |&at| score(at));
    order.truncate(rule.keep);
    order.retain(|&at| score(at) <= best * rule.within);
    order
}

/// The fastest of candidates in the order of the model, each with the times of its heats: among those that went on, as in [`next`], by the last heat of all of them. One that was timed later than
/// the others, and is far faster, has fewer heats than they.
pub(super) fn fastest(candidates: &[&[TuneTimes]]) -> Option<usize> {
    let timed = (0..candidates.len()).filter(|&at| !candidates[at].is_empty());
    let mut among: Vec<usize> = timed.collect();
    let mut decides = 0;
    for (heat, rule) in HEATS.iter().enumerate().take(HEATS.len() - 1) {
        let has_next = |at: &usize| candidates[*at].len() > heat + 1;
        // Of an exhaustive search all have.
        if !among.iter().all(has_next) {
            let further = survivors(&among, rule, |at| score(candidates[at][heat]));
            if further.len() < 2 || !further.iter().all(has_next) {
                break;
            }
            among = further;
        }
        decides = heat + 1;
    }
    // The order of the model.
    among.sort_unstable();
    let time = |at: &usize| score(candidates[*at][decides]);
    let best = among.iter().map(time).reduce(f64::min)?;
    among.into_iter().find(|at| time(at) <= best * LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ns: u64) -> TuneTimes {
        TuneTimes {
            single_ns: ns,
            back_to_back_ns: ns,
        }
    }

    /// Follows heats of candidates that always take the same time; gives how many took part in each, and the fastest.
    fn follow(ns: &[u64], exhaustive: bool) -> (Vec<usize>, Option<usize>) {
        let mut known: Vec<Vec<TuneTimes>> = vec![Vec::new(); ns.len()];
        let mut sizes = Vec::new();
        loop {
            let slices: Vec<&[TuneTimes]> = known.iter().map(Vec::as_slice).collect();
            let Some((heat, among)) = next(&slices, exhaustive) else {
                return (sizes, fastest(&slices));
            };
            sizes.push(among.len());
            for at in among {
                known[at].truncate(heat);
                known[at].push(times(ns[at]));
            }
        }
    }

    #[test]
    fn heats_keep_the_fastest() {
        let many: Vec<u64> = (0..20).map(|at| 1000 + 10 * ((at * 7) % 20)).collect();
        assert_eq!(follow(&many, false), (vec![20, 8, 3], Some(0)));
        assert_eq!(follow(&many, true), (vec![20, 20, 20], Some(0)));
        // Far apart: one heat is enough.
        assert_eq!(follow(&[2000, 1000, 3000], false), (vec![3], Some(1)));
        assert_eq!(follow(&[1000], false), (vec![1], Some(0)));
        assert_eq!(follow(&[], false), (vec![], None));
    }

    #[test]
    fn level_candidates_are_decided_by_the_models_order() {
        assert_eq!(follow(&[1004, 1000, 1001], false).1, Some(0));
        assert_eq!(follow(&[1009, 1000, 1001], false).1, Some(1));
    }

    /// Heats of others, in which it took no part, were for it.
    #[test]
    fn a_candidate_that_is_new_and_far_faster_is_the_fastest() {
        let (old, level) = ([times(100); 3], [times(101); 3]);
        let known: [&[TuneTimes]; 3] = [&old, &level, &[times(50)]];
        assert_eq!((next(&known, false), fastest(&known)), (None, Some(2)));
        let slower: [&[TuneTimes]; 3] = [&[times(150)], &level, &old];
        assert_eq!((next(&slower, false), fastest(&slower)), (None, Some(2)));
        // A search that was interrupted between two heats, and one within.
        assert_eq!(fastest(&[&[times(10)], &[times(9)], &[]]), Some(1));
        assert_eq!(fastest(&[&[times(10); 2], &[times(9)]]), Some(1));
    }

    #[test]
    fn what_is_known_is_not_timed_again_unless_others_are_timed_beside_it() {
        let [a, b, c] = [[times(10)], [times(11)], [times(30)]];
        assert_eq!(next(&[&a, &[], &c], false), Some((0, vec![1])));
        assert_eq!(next(&[&a, &b, &c], false), Some((1, vec![0, 1])));
        let further = [times(10), times(10)];
        assert_eq!(next(&[&further, &b, &c], false), Some((1, vec![0, 1])));
    }
}
