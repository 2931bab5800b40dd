//! Loads and stores of global memory.

use cranelift_entity::packed_option::PackedOption;

use super::super::operand::{Operand, Raw};
use super::super::{At, with};
use crate::diag::{Code, OpError};
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::ops::global::{CacheOp, Eviction, Load, Prefetch, Store};

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
    pub(crate) is_volatile: bool,
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
            is_volatile: false,
        }
    }

    /// Takes the L2 prefetch size in bytes.
    #[inline(never)]
    pub(crate) fn set_prefetch(&mut self, bytes: u32, at: At) {
        match bytes {
            64 => self.prefetch = Prefetch::L2B64,
            128 => self.prefetch = Prefetch::L2B128,
            256 => self.prefetch = Prefetch::L2B256,
            _ => {
                let message = format!(
                    "`l2_prefetch({bytes})`: L2 can be asked to fetch 64, 128 or 256 bytes"
                );
                with(at, |trace| {
                    trace.fail(OpError::new(Code::AccessWidth, message), at)
                });
            }
        }
    }

    /// Pointers first, then those of value or `other`, and mask, that there are.
    pub(super) fn operands(&self, data: Option<Raw>) -> Vec<Operand> {
        let data_elem = Elem::Data(self.pointee);
        let ptr = (Raw::Value(self.ptr), Elem::Ptr(self.pointee));
        let data = data.map(|raw| (raw, data_elem));
        let mask = self.mask.map(|raw| (raw, Elem::I1));
        [Some(ptr), data, mask].into_iter().flatten().collect()
    }
}

/// Reads.
#[inline(never)]
pub(crate) fn load(access: &AccessCore, at: At) -> Value {
    with(at, |trace| {
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
            (access.other.is_some(), "other"),
            (access.prefetch != Prefetch::Default, "l2_prefetch"),
        ];
        if let Some((_, what)) = refused.iter().find(|(is_set, _)| *is_set) {
            let message = format!("`{what}` is about loads, this is a store");
            trace.fail(OpError::new(Code::AccessWidth, message), at);
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
            is_volatile: access.is_volatile,
        };
        trace.push(op, &[], at);
    });
}
