//! What orders accesses of the tensor cores: the wait for products, and the fence of the async proxy.

use smallvec::smallvec;

use crate::OpError;
use crate::entity::Value;
use crate::ops::define::{answers, define_op};
use crate::ops::{OpRules, SharedAccess, Types, Values};
use crate::{Effects, Func, Spaces, Type};
use diag::Code;

/// Effects of what the tensor cores do, or are waited for.
pub(super) const TENSOR_CORES: Effects = Effects {
    reads: Spaces::SHARED,
    writes: Spaces::SHARED,
    is_ordered: true,
    is_guarded: true,
    ..Effects::PURE
};

define_op! {
    /// Waits until at most `pending` groups of this warpgroup are in flight. Its results are the accumulators:
    /// tensors where the products are complete, in-flight accumulators where more products follow.
    pub struct WgmmaWait = "wgmma_wait" {
        /// Groups that may still be in flight.
        pending: u32,
        /// What is in flight.
        accumulators: Values,
    }
}

impl OpRules for WgmmaWait {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let most = func.target.wgmma.pending_groups;
        if self.pending > most {
            return Err(OpError::new(
                Code::TooLarge,
                format!("at most {most} groups may be pending, not {}", self.pending),
            )
            .help(format!(
                "wait with {most} or fewer pending; 0 waits for all"
            )));
        }
        let mut types = Types::new();
        for (i, &value) in self.accumulators.iter().enumerate() {
            let Some(t) = func.ty(value).as_in_flight() else {
                return Err(OpError::new(
                    Code::ElementMismatch,
                    format!(
                        "`wait` takes accumulators in flight, not {}",
                        func.ty(value)
                    ),
                )
                .typed(value, func.ty(value)));
            };
            // The author says which accumulators are done: with groups pending, older groups are; and one that continues
            // round a loop stays what it is.
            let stays = match declared.get(i) {
                Some(ty) => ty.as_in_flight().is_some(),
                None => self.pending > 0,
            };
            types.push(if stays {
                Type::InFlight(t.clone())
            } else {
                Type::Tensor(t.clone())
            });
        }
        Ok(types)
    }
    fn waits_for_async_reads(&self) -> Option<(SharedAccess, u32)> {
        Some((SharedAccess::OperandRead, self.pending))
    }
    answers!(effects(TENSOR_CORES), free_layouts);
    fn in_place_operands(&self) -> &[Value] {
        &self.accumulators
    }
    fn waits_for_products(&self) -> Option<u32> {
        Some(self.pending)
    }
}

define_op! {
    /// What the threads wrote to shared memory by ordinary stores may be read by TMA and the tensor cores
    /// (PTX ISA, `fence.proxy.async`). Each writing thread executes it, before the barrier that signals the reader.
    pub struct FenceAsyncShared = "fence_async_shared" {
    }
}

impl OpRules for FenceAsyncShared {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![])
    }
    fn is_async_fence(&self) -> bool {
        true
    }
    answers!(effects(TENSOR_CORES), free_layouts);
}

/// It orders accesses to global memory.
const GLOBAL_FENCE: Effects = Effects {
    reads: Spaces::GLOBAL,
    writes: Spaces::GLOBAL,
    is_ordered: true,
    ..Effects::PURE
};

define_op! {
    /// Accesses of the async proxy to global memory, by TMA, stay behind what the executing threads have acquired there, and see it (PTX ISA,
    /// `fence.proxy.async.global`).
    pub struct FenceAsyncGlobal = "fence_async_global" {
    }
}

impl OpRules for FenceAsyncGlobal {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![])
    }
    answers!(effects(GLOBAL_FENCE), free_layouts);
}
