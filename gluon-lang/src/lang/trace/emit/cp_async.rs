//! Asynchronous copies by the threads themselves.

use super::super::{At, with};
use super::memory::AccessCore;
use crate::diag::{Code, OpError};
use crate::entity::Value;
use crate::ops::cp_async::{AsyncArrive, AsyncCommit, AsyncCopy, AsyncWait};
use crate::ops::global::Eviction;

/// Copies into a view.
#[inline(never)]
pub(crate) fn async_copy(access: &AccessCore, view: Value, at: At) {
    with(at, |trace| {
        let refused = [
            (access.other.is_some(), "other"),
            (access.eviction != Eviction::Default, "eviction"),
            (access.is_volatile, "volatile"),
        ];
        if let Some((_, what)) = refused.iter().find(|(is_set, _)| *is_set) {
            let message = format!(
                "an asynchronous copy has no `{what}`; where its mask is false it writes zeros"
            );
            trace.fail(OpError::new(Code::AccessWidth, message), at);
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
