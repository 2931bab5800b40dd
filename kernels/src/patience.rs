//! Limits of waits for other ranks.

use std::time::Duration;

use tilekit::prelude::*;

/// How long a wait for other ranks may take, unless the host says otherwise: less than a launch.
pub(crate) const DEFAULT_LIMIT: Duration = Duration::from_secs(5);

/// A limit in nanoseconds, as kernels take it.
pub(crate) fn nanoseconds(limit: Duration) -> i64 {
    i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX)
}

/// How long a wait may take.
#[derive(Clone, Copy, Aggregate)]
pub(crate) struct Patience {
    /// Nanoseconds.
    pub(crate) limit: Scalar<i64>,
    /// A word of the host, for what a wait of this rank waited for in vain.
    pub(crate) late: Ptr<i64>,
}

impl Patience {
    /// Ends the kernel if something is missing: with a trap, behind the word of the host, which gets `slot << 32 | missing` for one of the slots.
    #[device]
    pub(crate) fn expect(self, slot: Tensor<i32>, missing: Tensor<i32>) {
        let most = missing.max(0).scalar();
        if most > 0 {
            let word = (slot.cast::<i64>() << 32) | missing.cast::<i64>();
            self.end(select(missing > 0, word, 0).max(0).scalar());
        }
    }

    /// The same for one slot. It takes no barrier.
    #[device]
    pub(crate) fn expect_one(self, slot: Scalar<i32>, missing: Scalar<i32>) {
        if missing > 0 {
            self.end((slot.cast::<i64>() << 32) | missing.cast::<i64>());
        }
    }

    /// An assertion of the device would print, and in a kernel that calls a function ptxas waits behind each `wgmma`.
    #[device]
    fn end(self, word: Scalar<i64>) {
        let late = self.late.at(0).scope(Scope::Sys);
        late.atomic_store(word);
        // What is read back has reached the host before any thread traps.
        let stored = late.atomic_load();
        let _: () = inline_ptx_with_effects(
            "{ .reg .pred is_late; setp.ne.s64 is_late, $0, 0; @is_late trap; }",
            stored,
        );
    }
}
