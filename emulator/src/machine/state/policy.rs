//! Schedules: in which order warps run, and when asynchronous work completes.

use crate::machine::state::launch::Launch;

/// The schedule that the seed of a launch selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) turns: Turns,
    /// TMA and bulk copies.
    pub(crate) copies: When,
    /// Products of `wgmma`.
    pub(crate) products: When,
    /// Writes to memory of another device; a release never overtakes them.
    pub(crate) remote: When,
}

/// Which warp runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turns {
    /// Round robin, each until it waits.
    InOrder,
    /// The one whose modelled time is the earliest.
    Earliest,
    /// The same from the last warp of the last CTA to the first, and clusters from the last to the first.
    Reversed,
    /// At random, for random numbers of steps.
    Random,
    /// The same, but one warpgroup of each CTA runs only when no other warp can.
    StarvedWarpgroup,
    /// The same, but one CTA of the cluster runs only when no other can; where there is one only, one warp.
    StarvedCta,
}

/// Warp instructions of a cluster after which a starved warp has a turn, and a late copy completes: a warp that polls for what depends on either
/// would poll forever. On a GPU each warp that can run does in the end, and each copy completes.
pub(crate) const LONGEST_STARVATION: u64 = 1 << 15;

/// The same where the others of its cluster do nothing but poll what nobody changes: it then runs until they can go on.
pub(crate) const IDLE_STARVATION: u64 = 1 << 11;

/// When asynchronous work completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// As soon as it can.
    Soon,
    /// At random.
    Random,
    /// When nothing else can run; a copy, at long last.
    Late,
}

/// The policies that seeds from 1 cycle through.
const UNLUCKY: [Policy; 5] = [
    Policy {
        turns: Turns::Random,
        copies: When::Random,
        products: When::Random,
        remote: When::Random,
    },
    Policy {
        turns: Turns::Random,
        copies: When::Late,
        products: When::Late,
        remote: When::Late,
    },
    Policy {
        turns: Turns::StarvedWarpgroup,
        copies: When::Soon,
        products: When::Soon,
        remote: When::Soon,
    },
    Policy {
        turns: Turns::StarvedCta,
        copies: When::Random,
        products: When::Late,
        remote: When::Random,
    },
    Policy {
        turns: Turns::Reversed,
        copies: When::Soon,
        products: When::Soon,
        remote: When::Late,
    },
];

impl Policy {
    /// The schedule of a launch.
    pub(crate) fn of(launch: &Launch) -> Policy {
        if launch.is_timed {
            return Policy {
                turns: Turns::Earliest,
                remote: When::Soon,
                copies: When::Soon,
                products: When::Late,
            };
        }
        Policy::of_seed(launch.seed)
    }

    /// Round robin for 0; other seeds cycle through the adverse schedules, each with its own random sequence.
    pub(crate) fn of_seed(seed: u64) -> Policy {
        match seed.checked_sub(1) {
            None => Policy {
                turns: Turns::InOrder,
                copies: When::Soon,
                products: When::Late,
                remote: When::Soon,
            },
            Some(index) => UNLUCKY[(index % UNLUCKY.len() as u64) as usize],
        }
    }

    /// The place of cluster number `index` of `total` in the order in which they start; the cluster at a place, too.
    pub(crate) fn place_of(self, index: u64, total: u64) -> u64 {
        match self.turns {
            Turns::Reversed => total - 1 - index,
            _ => index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_a_seed_and_round_robin_has_zero() {
        assert_eq!(Policy::of_seed(0).turns, Turns::InOrder);
        for (index, policy) in UNLUCKY.into_iter().enumerate() {
            let seed = index as u64 + 1;
            assert_eq!(Policy::of_seed(seed), policy);
            assert_eq!(Policy::of_seed(seed + 5), policy);
        }
        assert_eq!(Policy::of_seed(u64::MAX), Policy::of_seed(5));
    }

    #[test]
    fn reversed_clusters_start_with_the_last() {
        let place = |seed, index| Policy::of_seed(seed).place_of(index, 4);
        assert_eq!([0, 1, 2, 3].map(|index| place(0, index)), [0, 1, 2, 3]);
        assert_eq!([0, 1, 2, 3].map(|index| place(5, index)), [3, 2, 1, 0]);
    }
}
