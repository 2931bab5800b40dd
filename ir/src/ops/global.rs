//! Global memory through tensors of pointers, or one scalar pointer.

use cranelift_entity::packed_option::PackedOption;
use smallvec::smallvec;

use super::define::{answers, attr_enum, define_op};
pub use super::l2::{L2Fraction, L2Policy, L2Priority, L2Rest};
use super::operand_types::{element, mismatch};
use super::{OpRules, Types, Values};
use crate::OpError;
use crate::elem::DType;
use crate::entity::Value;
use crate::facts::{self, Facts, KnownFacts};
use crate::{Effects, Func, Spaces, Type};
use diag::Code;

attr_enum! {
    /// Cache operator of a load or store (PTX ISA, cache operators).
    pub enum CacheOp {
        /// None written: cached at every level.
        Default = "default",
        /// Loads: cached at every level, stores: not meant.
        Ca = "ca",
        /// Cached in L2 only.
        Cg = "cg",
        /// Streaming: likely used once.
        Cs = "cs",
        /// Loads: never cached, fetched again.
        Cv = "cv",
        /// Stores: written back.
        Wb = "wb",
        /// Stores: written through to memory.
        Wt = "wt",
    }
    unsaid Default
}

attr_enum! {
    /// L1 eviction priority, or not to allocate in L1 at all.
    pub enum Eviction {
        /// None written.
        Default = "default",
        /// The first to go.
        First = "evict_first",
        /// The last to go.
        Last = "evict_last",
        /// Order untouched.
        Unchanged = "evict_unchanged",
        /// Not kept in L1.
        NoAllocate = "no_allocate",
    }
    unsaid Default
}

attr_enum! {
    /// How much L2 fetches around a miss, in bytes.
    pub enum Prefetch {
        /// None written.
        Default = "default",
        /// 64 bytes.
        L2B64 = "64",
        /// 128 bytes.
        L2B128 = "128",
        /// 256 bytes.
        L2B256 = "256",
    }
    unsaid Default
}

define_op! {
    /// Reads one element through each pointer. Where `mask` is false nothing is read and the result is `other`, or
    /// undefined without it.
    pub struct Load = "load" {
        /// Pointers, a tensor or a scalar.
        ptr: Value,
        /// Where to read.
        mask: PackedOption<Value>,
        /// What stands where nothing is read.
        other: PackedOption<Value>,
        /// Cache operator.
        cache: CacheOp,
        /// L1 priority.
        eviction: Eviction,
        /// L2 prefetch.
        prefetch: Prefetch,
        /// L2 priority.
        policy: L2Policy,
        /// Never merged, moved or dropped.
        is_volatile: bool,
    }
}

impl OpRules for Load {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let data = pointed_at(func, "load", self.ptr)?;
        check_mask(func, "load", self.ptr, self.mask.expand())?;
        if let Some(other) = self.other.expand() {
            let ty = func.ty(other);
            if *ty != data {
                return Err(mismatch("load", self.ptr, &data, other, ty)
                    .note("`other` replaces masked-off elements"));
            }
            if self.mask.is_none() {
                return Err(OpError::new(
                    Code::AccessWidth,
                    "`other` has no effect without a mask",
                )
                .help("add `.mask(..)`"));
            }
        }
        let wrong = matches!(self.cache, CacheOp::Wb | CacheOp::Wt);
        if wrong {
            return Err(OpError::new(
                Code::AccessWidth,
                format!("`{}` is a cache operator of stores", self.cache),
            ));
        }
        check_caching(
            "load",
            self.cache,
            self.eviction,
            self.policy,
            self.is_volatile,
        )?;
        Ok(smallvec![data])
    }
    fn effects(&self) -> Effects {
        Effects {
            reads: Spaces::GLOBAL,
            is_ordered: self.is_volatile,
            is_guarded: true,
            ..Effects::PURE
        }
    }
    answers!(one_thread);
    /// Equal pointers read equal elements where they read at all, and `other` stands elsewhere.
    fn result_facts(&self, _: &Func, known: &KnownFacts, ty: &Type) -> Facts {
        if self.is_volatile {
            return Facts::unknown(ty);
        }
        let operands = [Some(self.ptr), self.mask.expand(), self.other.expand()];
        let operands: Values = operands.into_iter().flatten().collect();
        facts::equal_where_operands_are(known, &operands, ty)
    }
}

define_op! {
    /// Writes one element through each pointer, where `mask` is true.
    pub struct Store = "store" {
        /// Pointers, a tensor or a scalar.
        ptr: Value,
        /// What to write.
        value: Value,
        /// Where to write.
        mask: PackedOption<Value>,
        /// Cache operator.
        cache: CacheOp,
        /// L1 priority.
        eviction: Eviction,
        /// L2 priority.
        policy: L2Policy,
        /// Never merged or moved.
        is_volatile: bool,
    }
}

impl OpRules for Store {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let data = pointed_at(func, "store", self.ptr)?;
        let ty = func.ty(self.value);
        if *ty != data {
            return Err(mismatch("store", self.ptr, &data, self.value, ty)
                .note("a store writes what its pointers point to"));
        }
        check_mask(func, "store", self.ptr, self.mask.expand())?;
        let wrong = matches!(self.cache, CacheOp::Ca | CacheOp::Cv);
        if wrong {
            return Err(OpError::new(
                Code::AccessWidth,
                format!("`{}` is a cache operator of loads", self.cache),
            ));
        }
        check_caching(
            "store",
            self.cache,
            self.eviction,
            self.policy,
            self.is_volatile,
        )?;
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        Effects {
            writes: Spaces::GLOBAL,
            is_ordered: self.is_volatile,
            ..Effects::PURE
        }
    }
}

attr_enum! {
    /// Which cache a prefetch fills, and with which priority.
    pub enum PrefetchInto {
        /// L2.
        L2 = "l2",
        /// L2, the last to be evicted.
        L2Last = "l2_evict_last",
        /// L1 and L2.
        L1 = "l1",
    }
    unsaid L2
}

define_op! {
    /// Asks for the lines of global memory behind the pointers, where `mask` is true, ahead of their use (PTX ISA 9.7.9.15).
    pub struct PrefetchLines = "prefetch" {
        /// Into which cache.
        into: PrefetchInto,
        /// Pointers, a tensor or a scalar.
        ptr: Value,
        /// Where.
        mask: PackedOption<Value>,
    }
}

impl OpRules for PrefetchLines {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        pointed_at(func, "prefetch", self.ptr)?;
        check_mask(func, "prefetch", self.ptr, self.mask.expand())?;
        Ok(smallvec![])
    }
    answers!(effects(Effects::ORDERED));
    answers!(one_thread);
}

/// Few combinations of cache hints exist (PTX ISA 9.7.9.8 and 9.7.9.11).
fn check_caching(
    op: &str,
    cache: CacheOp,
    eviction: Eviction,
    policy: L2Policy,
    is_volatile: bool,
) -> Result<(), OpError> {
    policy.check()?;
    let has_operator = cache != CacheOp::Default;
    let has_priority = eviction != Eviction::Default;
    let message = if has_operator && has_priority {
        format!(
            "a {op} takes either a cache operator or an eviction priority, not `{cache}` and `{eviction}`"
        )
    } else if is_volatile && (has_operator || has_priority || policy != L2Policy::Default) {
        format!("a volatile {op} takes neither a cache operator nor an eviction priority")
    } else {
        return Ok(());
    };
    Err(OpError::new(Code::AccessWidth, message).help("leave one of them out"))
}

/// The type of what the pointers point to.
fn pointed_at(func: &Func, op: &str, ptr: Value) -> Result<Type, OpError> {
    let ty = func.ty(ptr);
    match element(ty)?.pointee() {
        Some(pointee) => Ok(ty.with_elem(pointee)),
        None => Err(OpError::new(
            Code::ElementMismatch,
            format!("`{op}` wants pointers, this is {ty}"),
        )
        .typed(ptr, ty)),
    }
}

fn check_mask(func: &Func, op: &str, ptr: Value, mask: Option<Value>) -> Result<(), OpError> {
    let Some(mask) = mask else { return Ok(()) };
    let (wanted, ty) = (func.ty(ptr).with_elem(DType::I1), func.ty(mask));
    if *ty == wanted {
        return Ok(());
    }
    Err(mismatch(op, ptr, &wanted, mask, ty)
        .note(format!("the mask of these pointers is {wanted}")))
}
