//! TMA: blocks between a tensor in global memory and shared memory.

use smallvec::SmallVec;

use super::mix::{Operand, ScalarOperand};
use super::trace::{self, Raw, TmaCore, here};
use super::{Element, HostInt, Mbarrier, Scalar, Smem, TensorMap};
pub use ir::ops::tma::TmaReduceOp;
use layout::{Dims, SharedLayout};

/// Where a block begins in its tensor: one coordinate in elements for each dimension, the slowest first. An array, or a
/// tuple where host numbers and scalars of the kernel stand side by side.
///
/// Coordinates may be beyond the end: loads read zeros outside of the tensor, and stores are clipped. Those of loads may be negative too; a store that begins in front of its tensor is an illegal instruction
/// of the hardware (measured on an H200). The last one, in bytes, is a multiple of the target's `tensor_map.unit_bytes`. Constants that are neither are TK0028.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of coordinates of a block",
    note = "write `[row, column]` or `(row, 0)`: one i32 of the kernel or host integer for each dimension"
)]
pub trait Coordinates {
    /// The coordinates before they are fitted.
    #[doc(hidden)]
    fn into_coordinates(self) -> SmallVec<[Raw; 5]>;
}

impl<C: ScalarOperand<i32>, const RANK: usize> Coordinates for [C; RANK] {
    fn into_coordinates(self) -> SmallVec<[Raw; 5]> {
        self.into_iter().map(Operand::into_raw).collect()
    }
}

macro_rules! coordinates {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: ScalarOperand<i32>),*> Coordinates for ($($name,)*) {
            #[allow(non_snake_case, reason = "the names are those of the type parameters")]
            fn into_coordinates(self) -> SmallVec<[Raw; 5]> {
                let ($($name,)*) = self;
                let mut all = SmallVec::new();
                $(all.push($name.into_raw());)*
                all
            }
        }
    )*};
}

coordinates!((A)(A B)(A B C)(A B C D)(A B C D E));

/// A copy being described: `a.copy().policy(L2Policy::EvictFirst).when(is_first).load([row, 0], tile, full)`.
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is copied before `load`, `store` or `prefetch`"]
pub struct TmaCopy<T> {
    map: TensorMap<T>,
    pub(super) core: TmaCore,
}

impl<T: Element> TensorMap<T> {
    /// The elements of one copy in each dimension, of all CTAs together where they split it.
    #[track_caller]
    pub fn block(self) -> Dims {
        trace::shape_of(self.value(), here())
    }

    /// The layout in shared memory of a block: that of the tiles that it is copied from and to.
    #[track_caller]
    pub fn layout(self) -> SharedLayout {
        trace::map_layout(self.value(), here())
    }

    /// Bytes of a block, or of what one CTA has of it where the CTAs of a cluster split it: what the barrier of a load
    /// expects. Elements outside of the tensor count too.
    #[track_caller]
    pub fn block_bytes(self) -> usize {
        trace::map_block_bytes(self.value(), here()) as usize
    }

    /// How many CTAs of the cluster have the same part of a block: a power of two.
    #[track_caller]
    pub fn copies(self) -> usize {
        trace::map_copies(self.value(), here()) as usize
    }

    /// The rank of the CTA that loads the part of this one by [`multicast_copies`](TmaCopy::multicast_copies): the first of
    /// those that have the same. Before it loads again, all of them must signal that they have read the previous contents.
    #[track_caller]
    pub fn loader(self) -> Scalar<i32> {
        Scalar::wrap(trace::map_loader(self.value(), here()))
    }

    /// A copy to be described.
    #[inline]
    pub fn copy(self) -> TmaCopy<T> {
        TmaCopy {
            map: self,
            core: TmaCore::default(),
        }
    }

    /// Copies the block at `at` into a tile of shared memory; elements outside of the tensor become zero (PTX ISA 9.7.9.27,
    /// `cp.async.bulk.tensor`). One elected thread issues it, and all continue. The tile has the block's shape, element type and layout.
    /// Its bytes complete on `barrier`, which must [expect](Mbarrier::expect) [so many](TensorMap::block_bytes). Of a block that the CTAs of a cluster split, each copies its
    /// part, and `at` is where the whole block begins.
    #[inline]
    #[track_caller]
    pub fn load(self, at: impl Coordinates, to: Smem<T>, barrier: Mbarrier) {
        self.copy().load_at(at, &[], to, barrier, here());
    }

    /// [`load`](TensorMap::load) through an im2col map: `offsets` say which tap of the filter, one for each spatial dimension.
    #[inline]
    #[track_caller]
    pub fn load_im2col(
        self,
        at: impl Coordinates,
        offsets: impl Coordinates,
        to: Smem<T>,
        barrier: Mbarrier,
    ) {
        let offsets = offsets.into_coordinates();
        self.copy().load_at(at, &offsets, to, barrier, here());
    }

    /// Copies a tile of shared memory into the block at `at`; elements outside of the tensor are not written. The compiler inserts the
    /// proxy fence for earlier stores of the partition. The copy is a bulk group of its own, which [`tma_store_wait`] waits for. Through an im2col map the tile is that of the pixels from `at` on, in
    /// their order within the map's window, under no tap (`im2col_no_offs`).
    #[inline]
    #[track_caller]
    pub fn store(self, at: impl Coordinates, from: Smem<T>) {
        self.copy().store_at(TmaReduceOp::Store, at, from, here());
    }

    /// Combines a tile of shared memory with the block at `at`, element by element, each step atomic and relaxed
    /// (PTX `cp.reduce.async.bulk.tensor`). Waited for as a store. An operation that TMA lacks for the element type is
    /// an error (TK0011).
    #[inline]
    #[track_caller]
    pub fn reduce(self, op: TmaReduceOp, at: impl Coordinates, from: Smem<T>) {
        self.copy().store_at(op, at, from, here());
    }

    /// Adds a tile of shared memory to the block at `at`, element by element, each step atomic.
    #[inline]
    #[track_caller]
    pub fn store_add(self, at: impl Coordinates, from: Smem<T>) {
        self.copy().store_at(TmaReduceOp::Add, at, from, here());
    }

    /// Prefetches the map itself ahead of the first copy through it (PTX `prefetch.tensormap`), which would otherwise wait for
    /// it.
    #[inline]
    #[track_caller]
    pub fn prefetch_map(self) {
        trace::prefetch_map(self.value(), here());
    }

    /// Prefetches the block at `at` into L2.
    #[inline]
    #[track_caller]
    pub fn prefetch(self, at: impl Coordinates) {
        self.copy().prefetch_at(at, here());
    }
}

impl<T: Element> TmaCopy<T> {
    /// See [`TensorMap::load`].
    #[inline]
    #[track_caller]
    pub fn load(self, at: impl Coordinates, to: Smem<T>, barrier: Mbarrier) {
        self.load_at(at, &[], to, barrier, here());
    }

    /// See [`TensorMap::load_im2col`].
    #[inline]
    #[track_caller]
    pub fn load_im2col(
        self,
        at: impl Coordinates,
        offsets: impl Coordinates,
        to: Smem<T>,
        barrier: Mbarrier,
    ) {
        let offsets = offsets.into_coordinates();
        self.load_at(at, &offsets, to, barrier, here());
    }

    /// See [`TensorMap::store`].
    #[inline]
    #[track_caller]
    pub fn store(self, at: impl Coordinates, from: Smem<T>) {
        self.store_at(TmaReduceOp::Store, at, from, here());
    }

    /// See [`TensorMap::reduce`].
    #[inline]
    #[track_caller]
    pub fn reduce(self, op: TmaReduceOp, at: impl Coordinates, from: Smem<T>) {
        self.store_at(op, at, from, here());
    }

    /// See [`TensorMap::prefetch`].
    #[inline]
    #[track_caller]
    pub fn prefetch(self, at: impl Coordinates) {
        self.prefetch_at(at, here());
    }

    fn load_at(
        self,
        at: impl Coordinates,
        offsets: &[Raw],
        to: Smem<T>,
        barrier: Mbarrier,
        here: trace::At,
    ) {
        let at = at.into_coordinates();
        let (map, to) = (self.map.value(), to.value());
        trace::tma_load(&self.core, map, &at, offsets, to, barrier.0, here);
    }

    fn store_at(self, op: TmaReduceOp, at: impl Coordinates, from: Smem<T>, here: trace::At) {
        let at = at.into_coordinates();
        trace::tma_store(&self.core, op, self.map.value(), &at, from.value(), here);
    }

    fn prefetch_at(self, at: impl Coordinates, here: trace::At) {
        let at = at.into_coordinates();
        trace::tma_prefetch(&self.core, self.map.value(), &at, here);
    }
}

/// Waits until at most `pending` TMA stores, the newest, are in flight; the writes of the others are visible after it
/// (PTX `cp.async.bulk.wait_group`).
#[inline]
#[track_caller]
pub fn tma_store_wait(pending: impl HostInt) {
    let at = here();
    trace::tma_store_wait(pending_of(pending, at), false, at);
}

/// Waits until at most `pending` TMA stores, the newest, still read shared memory; the tiles of the others may then be overwritten (PTX `cp.async.bulk.wait_group.read`).
#[inline]
#[track_caller]
pub fn tma_store_wait_read(pending: impl HostInt) {
    let at = here();
    trace::tma_store_wait(pending_of(pending, at), true, at);
}

/// Makes earlier stores of the threads to shared memory visible through the async proxy, to TMA and the tensor cores
/// (PTX `fence.proxy.async`). Within one partition the compiler inserts it where it is needed; where another partition is
/// signalled, the author writes it: a missing fence is an error (TK0077).
#[inline]
#[track_caller]
pub fn fence_async_shared() {
    trace::fence_async_shared(here());
}

/// Makes what these threads have acquired in global memory visible through the async proxy, to TMA loads that they, or threads ordered after them,
/// issue (PTX `fence.proxy.async.global`). Between a wait for a flag of another CTA or rank and TMA loads of what it wrote by stores of threads.
#[inline]
#[track_caller]
pub fn fence_async_global() {
    trace::fence_async_global(here());
}

fn pending_of(pending: impl HostInt, at: trace::At) -> u32 {
    trace::count_of(pending.to_i128(), "the stores that stay in flight", at)
}
