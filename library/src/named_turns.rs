//! Groups of warps ordered by named barriers.

use gluon_lang::lang::prelude::*;

/// Round-robin turns of `GROUPS` partitions: 0, 1, .., `GROUPS - 1`, 0, .. Each waits at its own named barrier, at which the previous
/// group arrives. With products in a turn and everything else outside, one group multiplies while the others compute or
/// store (ping-pong).
///
/// ```text
/// turns.begin(group);                  // once, before the loop
/// for .. {
///     turns.wait(group);               // its turn
///     ..                               // what only one group does at a time
///     if another_turn_follows { turns.pass(group); }
/// }
/// ```
///
/// A barrier counts the threads of two groups, one that waits and one that arrives, and orders memory between them (PTX ISA 9.7.13.1,
/// `barrier.sync` and `barrier.arrive`). Every wait is matched by one `pass` or `begin` of the previous group; the emulator reports an
/// arrival without a wait. `cta.barriers` of the target limits their number.
#[derive(Clone, Copy, Debug)]
pub struct NamedTurns<const GROUPS: usize> {
    barriers: [NamedBarrier; GROUPS],
}

impl<const GROUPS: usize> NamedTurns<GROUPS> {
    /// Turns of groups of `threads` threads each, a multiple of 32.
    #[track_caller]
    pub fn new(threads: usize) -> Self {
        static_assert!(
            GROUPS > 1,
            "{GROUPS} groups take no turns: expected two or more"
        );
        // No closure: the barriers are made at the caller's line.
        let mut barriers = Vec::with_capacity(GROUPS);
        for _ in 0..GROUPS {
            barriers.push(NamedBarrier::new(2 * threads));
        }
        match barriers.try_into() {
            Ok(barriers) => NamedTurns { barriers },
            Err(_) => unreachable!("a barrier for each group"),
        }
    }

    /// Gives the first turn to group 0. Every group calls it once, before its first turn.
    #[track_caller]
    pub fn begin(self, group: usize) {
        if group + 1 == GROUPS {
            self.pass(group);
        }
    }

    /// Waits for the turn of `group`.
    #[track_caller]
    pub fn wait(self, group: usize) {
        self.barriers[group].sync();
    }

    /// Gives the turn to the group after `group`.
    #[track_caller]
    pub fn pass(self, group: usize) {
        self.barriers[(group + 1) % GROUPS].arrive();
    }
}
