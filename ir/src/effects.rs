//! What an operation does besides computing its results.

use std::ops::BitOr;

/// A set of memories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spaces(u8);

impl Spaces {
    /// No memory.
    pub const NONE: Spaces = Spaces(0);
    /// Global memory.
    pub const GLOBAL: Spaces = Spaces(1);
    /// Shared memory of the CTA.
    pub const SHARED: Spaces = Spaces(2);

    /// Every memory.
    pub const ALL: Spaces = Spaces(3);

    /// Does it hold any memory of `other`?
    pub const fn intersects(self, other: Spaces) -> bool {
        self.0 & other.0 != 0
    }

    /// Is it without any memory?
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Spaces {
    type Output = Spaces;
    fn bitor(self, other: Spaces) -> Spaces {
        Spaces(self.0 | other.0)
    }
}

/// The effects of one operation. Passes ask this; they never list operations.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a question of its own that passes ask"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Memories read.
    pub reads: Spaces,
    /// Memories written.
    pub writes: Spaces,
    /// Something else that must happen exactly once and in order: a print, an assertion, inline PTX with effects.
    pub is_ordered: bool,
    /// Must not run where the author did not ask for it, even if its result is not used: a load behind a branch, or what is at an
    /// index that is in range there alone.
    pub is_guarded: bool,
    /// A CTA barrier: what the threads did to memory before is ordered before what they do after.
    pub is_barrier: bool,
    /// Each run gives something of its own: an allocation. Never merged, but dropped as dead code.
    pub is_unique: bool,
}

impl Effects {
    /// Only the results matter: may be merged, moved, repeated and dropped.
    pub const PURE: Effects = Effects {
        reads: Spaces::NONE,
        writes: Spaces::NONE,
        is_ordered: false,
        is_guarded: false,
        is_barrier: false,
        is_unique: false,
    };

    /// No access to memory, but a place in the order of the ops around.
    pub const ORDERED: Effects = Effects {
        is_ordered: true,
        ..Effects::PURE
    };

    /// A CTA barrier; no access may move across.
    pub const BARRIER: Effects = Effects {
        reads: Spaces::ALL,
        writes: Spaces::ALL,
        is_ordered: true,
        is_guarded: true,
        is_barrier: true,
        is_unique: false,
    };

    /// Only the results matter. If it is guarded, it still runs nowhere but where the author asked for it.
    pub fn is_pure(self) -> bool {
        let open = Effects {
            is_guarded: false,
            ..self
        };
        open == Effects::PURE
    }

    /// May it be dropped when its results are unused?
    pub fn is_droppable(self) -> bool {
        self.writes.is_none() && !self.is_ordered
    }
}
