//! Asynchronous copies by the threads themselves.

use super::super::{At, with};
use super::memory::{AccessCore, refuse};
use ir::entity::Value;
use ir::ops::cp_async::{AsyncArrive, AsyncCommit, AsyncCopy, AsyncWait};
use ir::ops::global::{Eviction, L2Policy};

/// The name of an asynchronous copy, and how its options differ from those of loads.
const COPY: (&str, &str) = (
    "an asynchronous copy",
    "remove it: masked-off elements become zero; write `.cache(..)` and `.l2_prefetch(..)` for caches",
);

/// What has no meaning in an asynchronous copy.
fn refused(access: &AccessCore) -> [(bool, &'static str); 6] {
    [
        (access.other.is_some(), "`other`"),
        (access.eviction != Eviction::Default, "an eviction priority"),
        // ptxas 13.0 encodes the policy of a copy to a swizzled address as an illegal instruction.
        (access.policy != L2Policy::Default, "an L2 policy"),
        (access.is_volatile, "`volatile`"),
        (access.semantics.is_some(), "a memory order"),
        (access.scope.is_some(), "a scope"),
    ]
}

/// Copies into a view.
#[inline(never)]
pub(crate) fn async_copy(access: &AccessCore, view: Value, at: At) {
    with(at, |trace| {
        if refuse(trace, &refused(access), COPY, at) {
            return;
        }
        let Some(fitted) = trace.fit("copy_to", &access.operands(None), at) else {
            return;
        };
        let op = AsyncCopy {
            cache: access.cache,
            prefetch: access.prefetch,
            view,
            ptr: fitted[0],
            mask: fitted.get(1).copied().into(),
        };
        trace.push(op, &[], at);
    });
}

/// The end of a group.
#[inline(never)]
pub(crate) fn async_commit(at: At) {
    with(at, |trace| trace.push(AsyncCommit {}, &[], at));
}

/// Waits for groups.
#[inline(never)]
pub(crate) fn async_wait(pending: u32, at: At) {
    with(at, |trace| trace.push(AsyncWait { pending }, &[], at));
}

/// Arrivals that copies make.
#[inline(never)]
pub(crate) fn async_arrive(barrier: Value, is_counted: bool, at: At) {
    with(at, |trace| {
        let op = AsyncArrive {
            is_counted,
            barrier,
        };
        trace.push(op, &[], at)
    });
}
