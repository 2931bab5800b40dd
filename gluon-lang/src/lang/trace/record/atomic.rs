//! Atomics on global memory.

use super::super::operand::Raw;
use super::super::{At, Trace, with};
use super::memory::{AccessCore, refuse};
use ir::entity::Value;
use ir::ops::Scratch;
use ir::ops::atomic::{AtomicCas, AtomicLoad, AtomicOp, AtomicRmw, AtomicStore, Semantics};

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
            scope: access.scope.unwrap_or_default(),
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
            scope: access.scope.unwrap_or_default(),
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
            scope: access.scope.unwrap_or_default(),
            scratch: Scratch::NONE,
            ptr: fitted[0],
            mask: fitted.get(1).copied().into(),
        };
        trace.push1(load, ty, at)
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
            scope: access.scope.unwrap_or_default(),
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
        const ATOMIC: (&str, &str) = ("an atomic", "leave it out: atomics work on L2 alone");
        if refuse(self, &access.refused_by_atomics(), ATOMIC, at) {
            return None;
        }
        let operands = access.operands(data);
        self.fit("atomic", &operands, at)
    }
}
