//! Numbers that clusters draw from a counter in global memory, where time is modelled.
//!
//! Clusters that draw tiles share the work of a launch: who is free draws the next one. So they take turns: after each draw, the cluster
//! goes on whose last draw was the earliest. Where some clusters stand for all of a launch, a draw takes as many numbers from the counter as
//! there are clusters for each that runs, and gives one of them, chosen at random: at equal distances a kernel may have tiles of one kind.

use std::collections::BTreeMap;

/// What a cluster has drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draws {
    /// What it added last to a counter, by its address.
    added: BTreeMap<u64, u64>,
    /// Numbers from counters that it has drawn several from.
    pub(crate) count: u64,
    /// When it drew the last number.
    time: u64,
    /// Others go on before it draws the next one.
    ends_turn: bool,
    /// It waits for its turn.
    waits: bool,
}

/// Numbers that a draw takes from a counter, and which of them it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) takes: u64,
    pub(crate) gives: u64,
}

impl Draws {
    /// What the next draw of cluster `own` from a counter is, where `running` clusters stand for so many.
    pub(crate) fn share(
        &self,
        (address, step): (u64, u64),
        own: u64,
        (running, clusters): (u64, u64),
    ) -> Share {
        // One that adds up arrivals adds once in a launch: only by a second number is a counter known to be drawn from.
        if self.added.get(&address) != Some(&step) {
            return Share { takes: 1, gives: 0 };
        }
        let mixed = (own << 32 ^ self.count).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let [rounding, choice] = [mixed >> 40, mixed >> 16 & 0xff_ffff];
        let each = clusters / running + u64::from(rounding % running < clusters % running);
        // The first numbers of those that do not run.
        let first = if self.count == 0 { each - 1 } else { 0 };
        Share {
            takes: first + each,
            gives: first + choice % each,
        }
    }

    /// A number was drawn.
    pub(crate) fn note(&mut self, (address, step): (u64, u64), time: u64) {
        if self.added.insert(address, step) == Some(step) {
            self.count += if self.count == 0 { 2 } else { 1 };
        }
        self.time = time;
        self.ends_turn = true;
    }

    /// Do others go on? Then it waits for its turn.
    pub(crate) fn end_turn(&mut self) -> bool {
        self.waits = std::mem::take(&mut self.ends_turn);
        self.waits
    }

    /// When it drew the last number, if it waits for its turn.
    pub(crate) fn waits_since(&self) -> Option<u64> {
        self.waits.then_some(self.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_of_some_clusters_take_what_all_would() {
        let (counter, of) = ((4096, 1), (6, 132));
        let mut draws = Draws::default();
        assert_eq!(draws.share(counter, 0, of), Share { takes: 1, gives: 0 });
        draws.note(counter, 10);
        let second = draws.share(counter, 0, of);
        assert_eq!(second.takes, 21 + 22);
        assert!((21..43).contains(&second.gives));
        draws.note(counter, 20);
        let third = draws.share(counter, 0, of);
        assert_eq!((third.takes, draws.count), (22, 2));
        assert_eq!(draws.share((8192, 1), 0, of).takes, 1, "another counter");
        assert_eq!(draws.share((4096, 2), 0, of).takes, 1, "another step");
    }

    #[test]
    fn numbers_are_of_every_kind_and_what_cannot_be_divided_is_right_in_the_mean() {
        let (mut takes, mut of_kind) = (0, [0; 4]);
        for own in 0..6 {
            let mut draws = Draws::default();
            (0..2).for_each(|_| draws.note((64, 1), 0));
            for _ in 0..1000 {
                let share = draws.share((64, 1), own, (6, 32));
                draws.note((64, 1), 0);
                assert!([5, 6].contains(&share.takes));
                takes += share.takes;
                of_kind[share.gives as usize % 4] += 1;
            }
        }
        assert!(takes.abs_diff(32_000) < 640, "{takes}");
        assert!(of_kind.iter().all(|count| *count > 900), "{of_kind:?}");
    }
}
