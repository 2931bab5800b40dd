//! Barriers of CTAs and of clusters of CTAs, shared memory of other CTAs, and launches that overlap.

use super::mix::ScalarOperand;
use super::trace::{self, Grid, Raw, here};
use super::{Element, Scalar, Smem, Tensor};
use layout::Layout;

/// The rank of this CTA in its cluster.
#[inline]
#[track_caller]
pub fn cluster_rank() -> Scalar<i32> {
    Scalar::wrap(trace::cluster_rank(here()))
}

/// The index of this CTA's cluster in dimension `axis` (0, 1 or 2) among the clusters of the grid: what
/// [`program_id`](super::program_id) is to a CTA. All CTAs of a cluster have the same, so that it names what they work on
/// together.
#[inline]
#[track_caller]
pub fn cluster_id(axis: usize) -> Scalar<i32> {
    Scalar::wrap(trace::grid(axis, Grid::ClusterId, here()))
}

/// The number of clusters in dimension `axis` (0, 1 or 2) of the grid.
#[inline]
#[track_caller]
pub fn num_clusters(axis: usize) -> Scalar<i32> {
    Scalar::wrap(trace::grid(axis, Grid::NumClusters, here()))
}

/// The CTAs of a cluster.
#[track_caller]
pub fn cluster_size() -> usize {
    trace::cluster_size(here()) as usize
}

/// Is the kernel `#[kernel(cooperative)]`? Then all CTAs of a launch are resident at once, and may wait for one another.
#[track_caller]
pub fn is_cooperative() -> bool {
    trace::is_cooperative(here())
}

/// All threads of the CTA synchronize, within a partition of [`warp_specialize`](super::warp_specialize) all threads of the partition (PTX ISA
/// 9.7.13.1, `bar.sync`). Accesses of any of them before it, to global and to shared memory, are visible to all of them after it.
///
/// It is for exchanges through global memory: the compiler inserts a barrier where threads exchange data through shared memory, and orders no
/// accesses to global memory.
///
/// ```text
/// workspace.at(127 - at).store(tile);
/// cta_barrier();
/// let reversed = workspace.at(at).load();     // each thread loads what another one stored
/// ```
#[inline]
#[track_caller]
pub fn cta_barrier() {
    trace::cta_barrier(here());
}

/// All threads of the cluster synchronize (PTX ISA 9.7.13.3, `barrier.cluster`). Accesses of any of them before it are visible to all of
/// them after it. Every thread of every CTA must arrive.
#[inline]
#[track_caller]
pub fn cluster_barrier() {
    trace::cluster_barrier(false, here());
}

/// All threads of the cluster synchronize, without release or acquire semantics. It is cheaper, and suffices after mbarriers
/// were initialised, and before a CTA exits whose shared memory others still access.
#[inline]
#[track_caller]
pub fn cluster_barrier_relaxed() {
    trace::cluster_barrier(true, here());
}

/// The first half of [`cluster_barrier`]: arrives, and continues.
#[inline]
#[track_caller]
pub fn cluster_arrive() {
    trace::cluster_arrive(false, here());
}

/// The first half of [`cluster_barrier_relaxed`].
#[inline]
#[track_caller]
pub fn cluster_arrive_relaxed() {
    trace::cluster_arrive(true, here());
}

/// The second half of [`cluster_barrier`]: waits until all threads of the cluster have arrived.
#[inline]
#[track_caller]
pub fn cluster_wait() {
    trace::cluster_wait(here());
}

/// Waits until the previous launch in the stream is complete and its writes are visible (PTX `griddepcontrol.wait`).
/// A kernel that calls this may be launched while that one still runs; memory that it does not write may be read before.
#[inline]
#[track_caller]
pub fn launch_wait() {
    trace::launch_wait(here());
}

/// The next launch in the stream may begin once every CTA has executed this or exited (PTX `griddepcontrol.launch_dependents`). It orders
/// no memory: the next launch observes writes of this one after its own [`launch_wait`].
#[inline]
#[track_caller]
pub fn launch_dependents() {
    trace::launch_dependents(here());
}

/// The same tile in the shared memory of another CTA of the cluster (distributed shared memory).
#[derive(Clone, Copy, Debug)]
pub struct RemoteSmem<T> {
    pub(super) tile: Smem<T>,
    pub(super) cta: Raw,
}

impl<T: Element> Smem<T> {
    /// The same tile in the CTA of this rank. Writes of other CTAs are visible after a [`cluster_barrier`]; a CTA must not exit before
    /// accesses to its memory are complete.
    #[inline]
    pub fn in_cta(self, rank: impl ScalarOperand<i32>) -> RemoteSmem<T> {
        RemoteSmem {
            tile: self,
            cta: rank.into_raw(),
        }
    }
}

impl<T: Element> RemoteSmem<T> {
    /// Reads all elements into registers (PTX `ld.shared::cluster`).
    #[inline]
    #[track_caller]
    pub fn load(self, layout: impl Into<Layout>) -> Tensor<T> {
        let view = self.tile.value();
        Tensor::wrap(trace::remote_load(view, self.cta, layout.into(), here()))
    }

    /// Writes a tensor of this shape, in any layout (PTX `st.shared::cluster`).
    #[inline]
    #[track_caller]
    pub fn store(self, value: Tensor<T>) {
        trace::remote_store(self.tile.value(), value.value(), self.cta, here());
    }
}
