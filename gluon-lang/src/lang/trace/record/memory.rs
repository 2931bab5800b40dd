//! Loads and stores of global memory.

use cranelift_entity::packed_option::PackedOption;

use super::super::operand::{Operand, Raw};
use super::super::{At, Trace, with};
use diag::Code;
use ir::OpError;
use ir::elem::{DType, Elem};
use ir::entity::Value;
use ir::ops::atomic::{Scope, Semantics};
use ir::ops::global::{
    CacheOp, Eviction, L2Policy, Load, Prefetch, PrefetchInto, PrefetchLines, Store,
};

/// A global access as the author describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessCore {
    pub(crate) ptr: Value,
    pub(crate) pointee: DType,
    pub(crate) mask: Option<Raw>,
    pub(crate) other: Option<Raw>,
    pub(crate) cache: CacheOp,
    pub(crate) eviction: Eviction,
    pub(crate) prefetch: Prefetch,
    pub(crate) policy: L2Policy,
    pub(crate) is_volatile: bool,
    pub(crate) semantics: Option<Semantics>,
    pub(crate) scope: Option<Scope>,
    /// That of an atomic of which none is said.
    pub(crate) usual_scope: Scope,
}

impl AccessCore {
    pub(crate) fn new(ptr: Value, pointee: DType) -> AccessCore {
        AccessCore {
            ptr,
            pointee,
            mask: None,
            other: None,
            cache: CacheOp::Default,
            eviction: Eviction::Default,
            prefetch: Prefetch::Default,
            policy: L2Policy::Default,
            is_volatile: false,
            semantics: None,
            scope: None,
            usual_scope: Scope::Gpu,
        }
    }

    /// What has no meaning in a plain load or store.
    fn refused_by_plain(&self) -> [(bool, &'static str); 2] {
        [
            (self.semantics.is_some(), "a memory order"),
            (self.scope.is_some(), "a scope"),
        ]
    }

    /// What has no meaning in an atomic.
    pub(super) fn refused_by_atomics(&self) -> [(bool, &'static str); 6] {
        [
            (self.other.is_some(), "`other`"),
            (self.cache != CacheOp::Default, "`cache`"),
            (self.eviction != Eviction::Default, "an eviction priority"),
            (self.prefetch != Prefetch::Default, "`l2_prefetch`"),
            (self.policy != L2Policy::Default, "an L2 policy"),
            (self.is_volatile, "`volatile`"),
        ]
    }

    /// Takes the L2 prefetch size in bytes.
    #[inline(never)]
    pub(crate) fn set_prefetch(&mut self, bytes: u32, at: At) {
        match bytes {
            64 => self.prefetch = Prefetch::L2B64,
            128 => self.prefetch = Prefetch::L2B128,
            256 => self.prefetch = Prefetch::L2B256,
            _ => {
                let message = format!("`l2_prefetch({bytes})`: L2 prefetches 64, 128 or 256 bytes");
                with(at, |trace| {
                    trace.fail(OpError::new(Code::AccessWidth, message), at)
                });
            }
        }
    }

    /// Pointers first, then those of value or `other`, and mask, that there are.
    pub(super) fn operands(&self, data: impl IntoIterator<Item = Raw>) -> Vec<Operand> {
        let data_elem = Elem::Data(self.pointee);
        let ptr = (Raw::Value(self.ptr), Elem::Ptr(self.pointee));
        let data = data.into_iter().map(|raw| (raw, data_elem));
        let mask = self.mask.map(|raw| (raw, Elem::I1));
        [ptr].into_iter().chain(data).chain(mask).collect()
    }
}

/// Reports the first thing said of an access that it cannot have.
pub(super) fn refuse(
    trace: &mut Trace,
    refused: &[(bool, &'static str)],
    (access, help): (&str, &str),
    at: At,
) -> bool {
    let Some((_, what)) = refused.iter().find(|(is_said, _)| *is_said) else {
        return false;
    };
    let message = format!("{what} does not apply to {access}");
    trace.fail(OpError::new(Code::AccessWidth, message).help(help), at);
    true
}

/// What a load and a store that are no atomics are called, and what to write if one is meant.
const PLAIN_LOAD: (&str, &str) = (
    "a plain load",
    "write `atomic_load`, which takes a memory order and a scope",
);
const PLAIN_STORE: (&str, &str) = (
    "a plain store",
    "write `atomic_store`, which takes a memory order and a scope",
);

/// Asks for lines ahead of their use.
#[inline(never)]
pub(crate) fn prefetch_lines(access: &AccessCore, into: PrefetchInto, at: At) {
    with(at, |trace| {
        let help = (
            "a prefetch",
            "a prefetch takes a mask, and says which cache it fills",
        );
        let of_loads = [(access.other.is_some(), "`other`")];
        let refused = access.refused_by_plain().into_iter().chain(of_loads);
        let refused = refused.chain(access.refused_by_atomics());
        if refuse(trace, &refused.collect::<Vec<_>>(), help, at) {
            return;
        }
        let Some(fitted) = trace.fit("prefetch", &access.operands(None), at) else {
            return;
        };
        let op = PrefetchLines {
            into,
            ptr: fitted[0],
            mask: fitted.get(1).copied().into(),
        };
        trace.push(op, &[], at);
    });
}

/// Reads.
#[inline(never)]
pub(crate) fn load(access: &AccessCore, at: At) -> Value {
    with(at, |trace| {
        if refuse(trace, &access.refused_by_plain(), PLAIN_LOAD, at) {
            return trace.builder.poison();
        }
        let operands = access.operands(access.other);
        let Some(fitted) = trace.fit("load", &operands, at) else {
            return trace.builder.poison();
        };
        let ty = trace.ty(fitted[0]).with_elem(access.pointee);
        let mut rest = fitted[1..].iter().copied();
        let other: PackedOption<Value> = access.other.and_then(|_| rest.next()).into();
        let op = Load {
            ptr: fitted[0],
            mask: rest.next().into(),
            other,
            cache: access.cache,
            eviction: access.eviction,
            prefetch: access.prefetch,
            policy: access.policy,
            is_volatile: access.is_volatile,
        };
        trace.push1(op, ty, at)
    })
}

/// Writes.
#[inline(never)]
pub(crate) fn store(access: &AccessCore, value: Raw, at: At) {
    with(at, |trace| {
        let refused = [
            (access.other.is_some(), "`other`"),
            (access.prefetch != Prefetch::Default, "`l2_prefetch`"),
        ];
        if let Some((_, what)) = refused.iter().find(|(is_set, _)| *is_set) {
            let message = format!("{what} applies to loads, and this is a store");
            trace.fail(OpError::new(Code::AccessWidth, message), at);
            return;
        }
        if refuse(trace, &access.refused_by_plain(), PLAIN_STORE, at) {
            return;
        }
        let operands = access.operands(Some(value));
        let Some(fitted) = trace.fit("store", &operands, at) else {
            return;
        };
        let op = Store {
            ptr: fitted[0],
            value: fitted[1],
            mask: fitted.get(2).copied().into(),
            cache: access.cache,
            eviction: access.eviction,
            policy: access.policy,
            is_volatile: access.is_volatile,
        };
        trace.push(op, &[], at);
    });
}
