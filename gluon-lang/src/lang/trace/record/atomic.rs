//! Atomics on global memory.

use super::super::operand::Raw;
use super::super::{At, Trace, with};
use super::memory::{AccessCore, refuse};
use ir::Type;
use ir::entity::Value;
use ir::ops::Scratch;
use ir::ops::atomic::{AtomicCas, AtomicLoad, AtomicOp, AtomicRmw, AtomicStore, Semantics};
use ir::ops::control::Yield;
use ir::ops::poll::AtomicPoll;

/// Reads, combines with a value, writes.
#[inline(never)]
pub(crate) fn atomic_rmw(access: &AccessCore, op: AtomicOp, value: Raw, at: At) -> Value {
    with(at, |trace| {
        let Some(fitted) = trace.fit_atomic(access, [value], at) else {
            return trace.builder.poison();
        };
        let ty = trace.ty(fitted[1]).clone();
        let rmw = AtomicRmw {
            op,
            semantics: access.semantics.unwrap_or_default(),
            scope: access.scope.unwrap_or(access.usual_scope),
            scratch: Scratch::NONE,
            ptr: fitted[0],
            value: fitted[1],
            mask: fitted.get(2).copied().into(),
        };
        trace.push1(rmw, ty, at)
    })
}

/// Writes where memory holds what is expected.
#[inline(never)]
pub(crate) fn atomic_cas(access: &AccessCore, compare: Raw, value: Raw, at: At) -> Value {
    with(at, |trace| {
        let Some(fitted) = trace.fit_atomic(access, [compare, value], at) else {
            return trace.builder.poison();
        };
        let ty = trace.ty(fitted[1]).clone();
        let cas = AtomicCas {
            semantics: access.semantics.unwrap_or_default(),
            scope: access.scope.unwrap_or(access.usual_scope),
            scratch: Scratch::NONE,
            ptr: fitted[0],
            compare: fitted[1],
            value: fitted[2],
            mask: fitted.get(3).copied().into(),
        };
        trace.push1(cas, ty, at)
    })
}

/// Reads with an order.
#[inline(never)]
pub(crate) fn atomic_load(access: &AccessCore, at: At) -> Value {
    with(at, |trace| {
        let Some(fitted) = trace.fit_atomic(access, [], at) else {
            return trace.builder.poison();
        };
        let ty = trace.ty(fitted[0]).with_elem(access.pointee);
        let load = AtomicLoad {
            semantics: access.semantics.unwrap_or(Semantics::Acquire),
            scope: access.scope.unwrap_or(access.usual_scope),
            scratch: Scratch::NONE,
            ptr: fitted[0],
            mask: fitted.get(1).copied().into(),
        };
        trace.push1(load, ty, at)
    })
}

/// Opens the test of a poll; gives the pointers and the mask, `None` after a mistake, and one element that was read.
#[inline(never)]
pub(crate) fn open_poll(access: &AccessCore, at: At) -> (Option<Vec<Value>>, Value) {
    with(at, |trace| {
        let fitted = trace.fit_atomic(access, [], at);
        let read = match &fitted {
            Some(_) => Type::Scalar(access.pointee.into()),
            None => Type::Poison,
        };
        let loc = trace.loc(at);
        let (_, elements) = trace.builder.open(&[read]);
        trace.builder.func_mut().set_value_loc(elements[0], loc);
        (fitted.map(|fitted| fitted.to_vec()), elements[0])
    })
}

/// Closes it with the answer, and polls, for at most `within` ns.
#[inline(never)]
pub(crate) fn close_poll(
    access: &AccessCore,
    fitted: Option<Vec<Value>>,
    answer: Value,
    within: Option<Value>,
    at: At,
) -> Value {
    const TEST: (&str, &str) = (
        "the test of a poll",
        "compute with the value read only; load before the poll or after it",
    );
    with(at, |trace| {
        let is_lost = trace.is_poison(answer) || within.is_some_and(|limit| trace.is_poison(limit));
        let values = [answer].into_iter().collect();
        trace.push(Yield { values }, &[], at);
        let until = trace.builder.close();
        let Some(fitted) = fitted.filter(|_| !is_lost && trace.only_computes(until, TEST)) else {
            return trace.builder.poison();
        };
        let ty = trace.ty(fitted[0]).with_elem(access.pointee);
        let poll = AtomicPoll {
            semantics: access.semantics.unwrap_or(Semantics::Acquire),
            scope: access.scope.unwrap_or(access.usual_scope),
            scratch: Scratch::NONE,
            ptr: fitted[0],
            mask: fitted.get(1).copied().into(),
            within: within.into(),
            until,
        };
        trace.push1(poll, ty, at)
    })
}

/// Writes with an order.
#[inline(never)]
pub(crate) fn atomic_store(access: &AccessCore, value: Raw, at: At) {
    with(at, |trace| {
        let Some(fitted) = trace.fit_atomic(access, [value], at) else {
            return;
        };
        let store = AtomicStore {
            semantics: access.semantics.unwrap_or(Semantics::Release),
            scope: access.scope.unwrap_or(access.usual_scope),
            ptr: fitted[0],
            value: fitted[1],
            mask: fitted.get(2).copied().into(),
        };
        trace.push(store, &[], at);
    });
}

impl Trace {
    fn fit_atomic(
        &mut self,
        access: &AccessCore,
        data: impl IntoIterator<Item = Raw>,
        at: At,
    ) -> Option<super::super::operand::Fitted> {
        const ATOMIC: (&str, &str) = ("an atomic", "remove it: atomics execute in L2");
        if refuse(self, &access.refused_by_atomics(), ATOMIC, at) {
            return None;
        }
        let operands = access.operands(data);
        self.fit("atomic", &operands, at)
    }
}
