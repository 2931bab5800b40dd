//! Asynchronous writes into the shared memory of another CTA of the cluster.

use super::mix::ScalarOperand;
use super::trace::{self, RemoteCore, here};
use super::{Element, Mbarrier, RemoteSmem, Scalar, Smem, Tensor};
use ir::ops::tma::TmaReduceOp;

/// A copy into another CTA being described: `tile.in_cta(rank).bulk().count(n).store(from, full)`.
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is copied before `store` or `reduce`"]
pub struct RemoteCopy<T> {
    to: RemoteSmem<T>,
    core: RemoteCore,
}

impl<T: Element> RemoteSmem<T> {
    /// A copy by TMA, to be described. Both tiles are unswizzled: `Swizzled::plain([0])`.
    #[inline]
    pub fn bulk(self) -> RemoteCopy<T> {
        RemoteCopy {
            to: self,
            core: RemoteCore::default(),
        }
    }

    /// Writes a tensor of this shape, in any layout with 4 contiguous bytes per thread, asynchronously (PTX `st.async`). The bytes
    /// complete on the mbarrier at the offset of `barrier` in the other CTA, which must [expect](Mbarrier::expect)
    /// them; a thread that waits for it there observes them.
    #[inline]
    #[track_caller]
    pub fn store_async(self, value: Tensor<T>, barrier: Mbarrier) {
        let (view, value) = (self.tile.value(), value.value());
        trace::remote_store_async(view, value, barrier.value(), self.cta, here());
    }
}

impl<T: Element> RemoteCopy<T> {
    /// Only the first `count` elements, a multiple of the target's `tensor_map.unit_bytes`; none are copied if it is not above zero.
    #[inline]
    pub fn count(mut self, count: impl ScalarOperand<i32>) -> Self {
        self.core.count = Some(count.into_raw());
        self
    }

    /// Copies only if a condition holds.
    #[inline]
    pub fn when(mut self, condition: Scalar<bool>) -> Self {
        self.core.condition = Some(condition.value());
        self
    }

    /// Copies a tile of this CTA. The compiler inserts the proxy fence for earlier stores of the partition. The bytes complete on the
    /// mbarrier at the offset of `barrier` in the other CTA, which must [expect](Mbarrier::expect) them. The tile must not change until
    /// the other CTA signals that the phase is complete.
    #[inline]
    #[track_caller]
    pub fn store(self, from: Smem<T>, barrier: Mbarrier) {
        self.reduce_at(TmaReduceOp::Store, from, barrier, here());
    }

    /// Combines a tile of this CTA with the destination, atomically per element. Completes as a store does.
    #[inline]
    #[track_caller]
    pub fn reduce(self, op: TmaReduceOp, from: Smem<T>, barrier: Mbarrier) {
        self.reduce_at(op, from, barrier, here());
    }

    fn reduce_at(self, op: TmaReduceOp, from: Smem<T>, barrier: Mbarrier, here: trace::At) {
        let (from, to) = (from.value(), self.to.tile.value());
        trace::remote_copy(
            &self.core,
            op,
            (from, to),
            barrier.value(),
            self.to.cta,
            here,
        );
    }
}
