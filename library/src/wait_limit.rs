//! Limits of waits: a kernel that waits for another rank in vain says so and ends.

use gluon_lang::lang::prelude::*;
use gluon_lang::lang::{PtxOperands, Tensor};

/// How long a wait for other ranks may take, and the word of the host that says which of them was late.
///
/// ```text
/// let limit = WaitLimit { ns, late };
/// let seen = flags.at(slot).scope(Scope::Sys).acquire().atomic_poll_within(limit.ns, |seen| seen >= count).seen();
/// limit.check(slot, count - seen);
/// ```
///
/// A late wait stores `slot << 32 | missing` to the word and executes `trap`: the launch ends with an error, after which the context of its GPU is of no more use, as after
/// every trap. The word is 0 before; when several waits are late it is of one of them. It is no `device_assert`: that calls `vprintf`, in each thread, and ptxas serializes every `wgmma`
/// of a kernel with a call.
///
/// Threads check for themselves: neither method takes a barrier or a branch.
#[derive(Clone, Copy, Aggregate, KernelParam)]
pub struct WaitLimit {
    /// Nanoseconds.
    pub ns: Scalar<i64>,
    /// A word of the host (`MappedBuffer<i64>`).
    pub late: Ptr<i64>,
}

/// Release and acquire of the system: the word has reached the host before the thread traps (PTX ISA 8.8), which it does only if it reads a number that is not 0.
const STORE_AND_TRAP: &str = "{ .reg .pred is_late; .reg .b64 stored; setp.gt.s32 is_late, $0, 0; @is_late st.release.sys.global.b64 [$2], $1; \
    @is_late ld.acquire.sys.global.b64 stored, [$2]; @is_late setp.ne.s64 is_late, stored, 0; @is_late trap; }";

impl WaitLimit {
    /// Ends the kernel where `missing` is above 0, of any element.
    #[track_caller]
    pub fn check(self, slot: Tensor<i32>, missing: Tensor<i32>) {
        let word = (slot.cast::<i64>() << 32) | missing.cast::<i64>();
        store_and_trap((missing, word, self.late.address()));
    }

    /// The same for one slot.
    #[track_caller]
    pub fn check_one(self, slot: Scalar<i32>, missing: Scalar<i32>) {
        let word = (slot.cast::<i64>() << 32) | missing.cast::<i64>();
        store_and_trap((missing, word, self.late.address()));
    }
}

#[track_caller]
fn store_and_trap(operands: impl PtxOperands) {
    let () = inline_ptx_with_effects(STORE_AND_TRAP, operands);
}
