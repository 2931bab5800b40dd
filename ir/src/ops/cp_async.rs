//! Asynchronous copies by the threads themselves (PTX ISA, `cp.async`): global to shared memory without registers between.

use cranelift_entity::packed_option::PackedOption;
use smallvec::smallvec;

use super::define::{answers, define_op};
use super::global::{CacheOp, Prefetch};
use super::mbarrier::one_barrier;
use super::shared::{check_ctas, descriptor};
use super::{OpRules, Types};
use crate::OpError;
use crate::elem::DType;
use crate::entity::Value;
use crate::{Effects, Func, Spaces, Type};
use diag::Code;

define_op! {
    /// One element through each pointer into the view, where `mask` is true; zero where it is not. Complete when its
    /// group or barrier is.
    pub struct AsyncCopy = "async_copy" {
        /// Cache operator, `ca` or `cg`.
        cache: CacheOp,
        /// L2 prefetch.
        prefetch: Prefetch,
        /// Where to.
        view: Value,
        /// Where from, a tensor of pointers of the view's shape.
        ptr: Value,
        /// Where at all.
        mask: PackedOption<Value>,
    }
}

impl OpRules for AsyncCopy {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let s = descriptor(func, "async_copy", self.view)?;
        let ty = func.ty(self.ptr);
        if let Some(t) = ty.as_tensor() {
            check_ctas(func, t, s).map_err(|e| e.typed(self.view, s))?;
        }
        let pointee = ty
            .as_tensor()
            .filter(|t| t.shape == s.shape)
            .and_then(|t| t.elem.pointee());
        if pointee.map(Into::into) != Some(s.elem) {
            return Err(OpError::new(
                Code::ShapeMismatch,
                format!("{ty} does not point to the elements of {s}"),
            )
            .typed(self.view, s)
            .typed(self.ptr, ty));
        }
        if let Some(mask) = self.mask.expand() {
            let wanted = ty.with_elem(DType::I1);
            if *func.ty(mask) != wanted {
                return Err(super::operand_types::mismatch(
                    "async_copy",
                    self.ptr,
                    &wanted,
                    mask,
                    func.ty(mask),
                ));
            }
        }
        if !matches!(self.cache, CacheOp::Default | CacheOp::Ca | CacheOp::Cg) {
            return Err(OpError::new(
                Code::AccessWidth,
                format!(
                    "an asynchronous copy has no cache operator `{}`",
                    self.cache
                ),
            ));
        }
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        Effects {
            reads: Spaces::GLOBAL,
            writes: Spaces::SHARED,
            is_ordered: true,
            is_guarded: true,
            ..Effects::PURE
        }
    }
    answers!(shared(view: Copy), cta_parts);
}

define_op! {
    /// The copies requested since the last commit become a group.
    pub struct AsyncCommit = "async_commit" {
    }
}

impl OpRules for AsyncCommit {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![])
    }
    answers!(effects(ORDERED_SHARED), free_layouts);
}

define_op! {
    /// Waits until at most `pending` groups of each thread are in flight. Other threads' copies are seen after a barrier,
    /// which the planner places.
    pub struct AsyncWait = "async_wait" {
        /// Groups that may still be in flight.
        pending: u32,
    }
}

/// The number of groups that a wait may leave in flight is a signed immediate.
pub(super) fn check_pending(pending: u32) -> Result<(), OpError> {
    if i32::try_from(pending).is_ok() {
        return Ok(());
    }
    let message = format!(
        "a wait leaves at most {} groups pending, not {pending}",
        i32::MAX
    );
    Err(OpError::new(Code::TooLarge, message).help("0 waits for all"))
}

impl OpRules for AsyncWait {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        check_pending(self.pending)?;
        Ok(smallvec![])
    }
    fn waits_for_copies(&self) -> Option<u32> {
        Some(self.pending)
    }
    answers!(effects(ORDERED_SHARED), free_layouts);
}

define_op! {
    /// Each thread arrives at the barrier once its copies so far are complete (PTX ISA, `cp.async.mbarrier.arrive`). With
    /// `is_counted` the barrier's count includes these arrivals; else it is raised for them.
    pub struct AsyncArrive = "async_arrive" {
        /// Whether the barrier counts them already.
        is_counted: bool,
        /// The barrier.
        barrier: Value,
    }
}

impl OpRules for AsyncArrive {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        one_barrier(func, "async_arrive", self.barrier)?;
        Ok(smallvec![])
    }
    fn signals_copies(&self) -> bool {
        true
    }
    answers!(effects(ORDERED_SHARED), shared(barrier: Atomic), free_layouts);
}

const ORDERED_SHARED: Effects = Effects {
    reads: Spaces::SHARED,
    writes: Spaces::SHARED,
    is_ordered: true,
    is_guarded: true,
    ..Effects::PURE
};
