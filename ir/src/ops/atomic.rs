//! Atomic operations on global and shared memory (PTX ISA, `atom`, `red`, `ld.acquire`, `st.release`).

use cranelift_entity::packed_option::PackedOption;
use smallvec::smallvec;

use super::define::{answers, attr_enum, define_op};
use super::operand_types::{element, mismatch};
use super::shared::{check_indexed_ctas, check_indices, check_values, descriptor};
use super::{OpRules, Scratch, SharedAccess, SharedAccesses, Types};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::{Effects, Func, Spaces, Type};
use diag::Code;

pub use super::access::{AtomicOp, Scope};

attr_enum! {
    /// What an atomic orders (PTX memory consistency model).
    pub enum Semantics {
        /// Acquires before and releases after: the default, as in Gluon.
        AcqRel = "acq_rel",
        /// Later accesses stay behind it.
        Acquire = "acquire",
        /// Earlier accesses stay before it.
        Release = "release",
        /// Nothing.
        Relaxed = "relaxed",
    }
    unsaid AcqRel
}

pub(super) const GLOBAL_RMW: Effects = Effects {
    reads: Spaces::GLOBAL,
    writes: Spaces::GLOBAL,
    is_ordered: true,
    is_guarded: true,
    ..Effects::PURE
};

define_op! {
    /// For each pointer where `mask` is true: reads, combines with `value`, writes, as one step, once for each element
    /// however many threads hold it. The result is what was there before; 0 where nothing was done.
    ///
    /// All threads of the CTA take part in what it orders: accesses before a release stay before it, accesses after an
    /// acquire stay behind it, whichever threads they are of. Of floats, `min` and `max` take -0 for less than 0, and NaN
    /// for beyond the infinity of its sign.
    pub struct AtomicRmw = "atomic_rmw" {
        /// Which.
        op: AtomicOp,
        /// What it orders.
        semantics: Semantics,
        /// Among whom.
        scope: Scope,
        /// Shared memory for results passed to threads that hold replicas.
        scratch: Scratch,
        /// Pointers, a tensor or a scalar.
        ptr: Value,
        /// What to combine with.
        value: Value,
        /// Where.
        mask: PackedOption<Value>,
    }
}

impl OpRules for AtomicRmw {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let data = data_of(func, "atomic", self.ptr, &[self.value], self.mask.expand())?;
        match element(&data)? {
            Elem::Data(dtype) if self.op.accepts(dtype) => Ok(smallvec![data]),
            elem => Err(OpError::new(
                Code::ElementMismatch,
                format!("there is no atomic `{}` for {elem}", self.op),
            )
            .typed(self.ptr, func.ty(self.ptr))
            .help(help_for(self.op))),
        }
    }
    answers!(effects(GLOBAL_RMW), scratch, scope);
}

define_op! {
    /// For each pointer where `mask` is true: where memory holds the bits of `compare`, writes `value`, as one step. The
    /// result is what was there; 0 where nothing was done.
    pub struct AtomicCas = "atomic_cas" {
        /// What it orders.
        semantics: Semantics,
        /// Among whom.
        scope: Scope,
        /// Shared memory for results passed to threads that hold replicas.
        scratch: Scratch,
        /// Pointers, a tensor or a scalar.
        ptr: Value,
        /// What must be there.
        compare: Value,
        /// What to write.
        value: Value,
        /// Where.
        mask: PackedOption<Value>,
    }
}

impl OpRules for AtomicCas {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let data = data_of(
            func,
            "atomic_cas",
            self.ptr,
            &[self.compare, self.value],
            self.mask.expand(),
        )?;
        match element(&data)? {
            Elem::Data(d) if d.bits() >= 16 => Ok(smallvec![data]),
            elem => Err(OpError::new(
                Code::ElementMismatch,
                format!("there is no atomic compare-and-swap for {elem}"),
            )
            .typed(self.ptr, func.ty(self.ptr))
            .help("use elements of 16, 32 or 64 bits")),
        }
    }
    answers!(effects(GLOBAL_RMW), scratch, scope);
}

define_op! {
    /// Reads through each pointer where `mask` is true as one step, with an order. All threads that hold an element see
    /// one value, so that a loop may wait for it; 0 where nothing was read.
    pub struct AtomicLoad = "atomic_load" {
        /// `acquire` or `relaxed`.
        semantics: Semantics,
        /// Among whom.
        scope: Scope,
        /// Shared memory for results passed to threads that hold replicas.
        scratch: Scratch,
        /// Pointers, a tensor or a scalar.
        ptr: Value,
        /// Where.
        mask: PackedOption<Value>,
    }
}

impl OpRules for AtomicLoad {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        check_load("load", self.semantics)?;
        Ok(smallvec![data_of(
            func,
            "atomic_load",
            self.ptr,
            &[],
            self.mask.expand()
        )?])
    }
    answers!(effects(GLOBAL_RMW), scratch, scope);
}

define_op! {
    /// Writes through each pointer as one step, with an order.
    pub struct AtomicStore = "atomic_store" {
        /// `release` or `relaxed`.
        semantics: Semantics,
        /// Among whom.
        scope: Scope,
        /// Pointers, a tensor or a scalar.
        ptr: Value,
        /// What to write.
        value: Value,
        /// Where.
        mask: PackedOption<Value>,
    }
}

impl OpRules for AtomicStore {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        if !matches!(self.semantics, Semantics::Release | Semantics::Relaxed) {
            return Err(OpError::new(
                Code::AccessWidth,
                format!(
                    "an atomic store is release or relaxed, not {}",
                    self.semantics
                ),
            )
            .help("write `.release()` or `.relaxed()`; the load or read-modify-write that reads the store acquires"));
        }
        data_of(
            func,
            "atomic_store",
            self.ptr,
            &[self.value],
            self.mask.expand(),
        )?;
        Ok(smallvec![])
    }
    answers!(effects(GLOBAL_RMW), scope);
}

define_op! {
    /// A scatter into shared memory that combines with what is there, as one step, relaxed and among the CTA's threads.
    /// Where `mask` is false nothing happens.
    pub struct SmemAtomicScatter = "smem_atomic_scatter" {
        /// Which.
        op: AtomicOp,
        /// The dimension indexed.
        axis: u32,
        /// The view.
        view: Value,
        /// What to combine with.
        values: Value,
        /// Integers of the same shape and layout as the values.
        indices: Value,
        /// Where.
        mask: PackedOption<Value>,
    }
}

impl OpRules for SmemAtomicScatter {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let place = (self.view, self.indices, self.axis);
        check_scatter(func, self.op, place, self.values, self.mask.expand())?;
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        SHARED_RMW
    }
    fn shared_accesses(&self) -> SharedAccesses {
        smallvec![(self.view, SharedAccess::Combine(self.op))]
    }
    answers!(cta_parts);
}

const SHARED_RMW: Effects = Effects {
    reads: Spaces::SHARED,
    writes: Spaces::SHARED,
    ..Effects::PURE
};

define_op! {
    /// The same, with what was there before as its result: 0 where `mask` is false. Several indices of one place are done one
    /// after the other, in an order that is open, so each finds what another left.
    pub struct SmemAtomicFetch = "smem_atomic_fetch" {
        /// Which.
        op: AtomicOp,
        /// The dimension indexed.
        axis: u32,
        /// Shared memory for results on their way to threads that hold copies.
        scratch: Scratch,
        /// The view.
        view: Value,
        /// What to combine with.
        values: Value,
        /// Integers of the same shape and layout as the values.
        indices: Value,
        /// Where.
        mask: PackedOption<Value>,
    }
}

impl OpRules for SmemAtomicFetch {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let place = (self.view, self.indices, self.axis);
        check_scatter(func, self.op, place, self.values, self.mask.expand())?;
        Ok(smallvec![func.ty(self.values).clone()])
    }
    fn effects(&self) -> Effects {
        SHARED_RMW
    }
    // A write, to whoever else accesses the bytes: it finds what all accesses before it left, and what comes after finds all
    // that it did.
    answers!(shared(view: Write), scratch, cta_parts);
}

/// The rules of atomics on places of a view that indices name.
fn check_scatter(
    func: &Func,
    op: AtomicOp,
    (view, indices, axis): (Value, Value, u32),
    values: Value,
    mask: Option<Value>,
) -> Result<(), OpError> {
    let s = descriptor(func, "atomic_scatter", view)?;
    check_indices(func, "atomic_scatter", s, indices, axis)?;
    check_values(func, "atomic_scatter", s, values, indices)?;
    match s.elem {
        Elem::Data(dtype) if op.accepts(dtype) => {}
        elem => {
            return Err(OpError::new(
                Code::ElementMismatch,
                format!("there is no atomic `{op}` for {elem}"),
            )
            .help(help_for(op)));
        }
    }
    check_mask(func, "atomic_scatter", indices, mask)?;
    check_indexed_ctas(func, "atomic_scatter", (view, indices), axis, true)
}

/// Which element types an operation exists for.
fn help_for(op: AtomicOp) -> &'static str {
    match op {
        AtomicOp::Add => "use integers of 32 or 64 bits, f16, bf16, f32 or f64",
        AtomicOp::Min | AtomicOp::Max => {
            "use integers of 32 or 64 bits, f32 or f64, or a loop over `atomic_cas`"
        }
        AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => "use integers of 32 or 64 bits",
        AtomicOp::Exchange => {
            "use integers of 32 or 64 bits, f32 or f64; `atomic_cas` takes 16 bits too"
        }
    }
}

/// An atomic that only reads acquires or orders nothing.
pub(super) fn check_load(what: &str, semantics: Semantics) -> Result<(), OpError> {
    if matches!(semantics, Semantics::Acquire | Semantics::Relaxed) {
        return Ok(());
    }
    Err(OpError::new(
        Code::AccessWidth,
        format!("an atomic {what} is acquire or relaxed, not {semantics}"),
    )
    .help(format!(
        "write `.acquire()` or `.relaxed()`; the store or read-modify-write that a {what} reads releases"
    )))
}

/// The type behind the pointers, which the values must have.
pub(super) fn data_of(
    func: &Func,
    op: &str,
    ptr: Value,
    values: &[Value],
    mask: Option<Value>,
) -> Result<Type, OpError> {
    let ty = func.ty(ptr);
    let Some(pointee) = element(ty)?.pointee() else {
        return Err(OpError::new(
            Code::ElementMismatch,
            format!("`{op}` wants pointers, this is {ty}"),
        )
        .typed(ptr, ty));
    };
    let data = ty.with_elem(pointee);
    for &value in values {
        if *func.ty(value) != data {
            return Err(mismatch(op, ptr, &data, value, func.ty(value)));
        }
    }
    check_mask(func, op, ptr, mask)?;
    super::split::held_once(func, op, ptr)?;
    Ok(data)
}

fn check_mask(func: &Func, op: &str, like: Value, mask: Option<Value>) -> Result<(), OpError> {
    let Some(mask) = mask else { return Ok(()) };
    let wanted = func.ty(like).with_elem(DType::I1);
    if *func.ty(mask) == wanted {
        return Ok(());
    }
    Err(mismatch(op, like, &wanted, mask, func.ty(mask)))
}
