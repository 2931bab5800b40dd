//! Linear bulk copies by TMA: contiguous elements between global and shared memory, without a tensor map.

use super::mix::ScalarOperand;
use super::trace::{self, BulkCore, here};
use super::{Element, Mbarrier, Offset, Ptr, Scalar, Smem};
use ir::ops::tma::TmaReduceOp;

/// A linear copy being described: `x.bulk(start).count(n).load(ring.index(slot), full)` (PTX ISA 9.7.9.25.4,
/// `cp.async.bulk`).
///
/// Source, destination and size are multiples of the target's `tensor_map.unit_bytes`. Constants are checked while
/// tracing, runtime values by the emulator.
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is copied before `load`, `store` or `prefetch`"]
pub struct BulkCopy<T> {
    pub(super) core: BulkCore,
    element: std::marker::PhantomData<T>,
}

impl<T: Element> Ptr<T> {
    /// The contiguous elements from `offset` on, to be copied by TMA. One elected thread issues
    /// it. Tiles of shared memory are unswizzled: `Swizzled::plain([0])`.
    #[inline]
    #[track_caller]
    pub fn bulk<O: Offset<Moved<T> = Ptr<T>>>(self, offset: O) -> BulkCopy<T> {
        BulkCopy {
            core: BulkCore::new((self + offset).value()),
            element: std::marker::PhantomData,
        }
    }
}

impl<T: Element> BulkCopy<T> {
    /// Only the first `count` elements of the tile, a multiple of the target's `tensor_map.unit_bytes`; none are copied if
    /// it is not above zero. The barrier of a load expects as many bytes.
    #[inline]
    pub fn count(mut self, count: impl ScalarOperand<i32>) -> Self {
        self.core.count = Some(count.into_raw());
        self
    }

    /// Copies them into a tile of shared memory. Their bytes complete on `barrier`, which must
    /// [expect](Mbarrier::expect) them. Of a tile that the CTAs of a cluster split, each copies its part, and its barrier
    /// expects [the bytes of that](BulkCopy::bytes_into).
    #[inline]
    #[track_caller]
    pub fn load(self, to: Smem<T>, barrier: Mbarrier) {
        trace::bulk_load(&self.core, to.value(), barrier.value(), here());
    }

    /// The bytes that this CTA copies into a tile, all of it or the first [so many](BulkCopy::count) elements: what its barrier
    /// expects.
    #[track_caller]
    pub fn bytes_into(&self, to: Smem<T>) -> Scalar<i32> {
        Scalar::wrap(trace::bulk_bytes(&self.core, to.value(), here()))
    }

    /// Copies a tile of shared memory over them. The compiler inserts the proxy fence for earlier stores of the partition. The copy is a bulk group of its own,
    /// which [`tma_store_wait`](super::tma_store_wait) waits for.
    #[inline]
    #[track_caller]
    pub fn store(self, from: Smem<T>) {
        trace::bulk_store(&self.core, TmaReduceOp::Store, from.value(), here());
    }

    /// Combines a tile of shared memory with them, each step atomic. Waited for as a store.
    #[inline]
    #[track_caller]
    pub fn reduce(self, op: TmaReduceOp, from: Smem<T>) {
        trace::bulk_store(&self.core, op, from.value(), here());
    }

    /// Adds a tile of shared memory to them, each step atomic. Waited for as a store.
    #[inline]
    #[track_caller]
    pub fn store_add(self, from: Smem<T>) {
        trace::bulk_store(&self.core, TmaReduceOp::Add, from.value(), here());
    }

    /// Prefetches [so many](BulkCopy::count) of them into L2.
    #[inline]
    #[track_caller]
    pub fn prefetch(self) {
        trace::bulk_prefetch(&self.core, here());
    }
}
