//! Barriers, clusters of CTAs, and launches that overlap.

use super::super::operand::Raw;
use super::super::{At, with};
use ir::Type;
use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::cluster::{
    ClusterArrive, ClusterBarrier, ClusterRank, ClusterWait, LaunchDependents, LaunchWait,
    RemoteLoad, RemoteStore,
};
use ir::ops::sync::Barrier;
use ir::ops::wgmma::{FenceAsyncGlobal, FenceAsyncShared};
use layout::Layout;

/// The rank of the CTA.
#[inline(never)]
pub(crate) fn cluster_rank(at: At) -> Value {
    with(at, |trace| {
        trace.push1(ClusterRank {}, Type::scalar(Elem::I32), at)
    })
}

/// The CTAs of a cluster.
#[inline(never)]
pub(crate) fn cluster_size(at: At) -> u32 {
    with(at, |trace| trace.builder.func().cluster.iter().product())
}

/// Is the whole grid resident?
#[inline(never)]
pub(crate) fn is_cooperative(at: At) -> bool {
    with(at, |trace| trace.builder.func().is_cooperative)
}

/// A CTA barrier.
#[inline(never)]
pub(crate) fn cta_barrier(at: At) {
    with(at, |trace| trace.push(Barrier {}, &[], at));
}

/// A cluster barrier.
#[inline(never)]
pub(crate) fn cluster_barrier(is_relaxed: bool, at: At) {
    with(at, |trace| {
        trace.push(ClusterBarrier { is_relaxed }, &[], at)
    });
}

/// The arrival at a cluster barrier.
#[inline(never)]
pub(crate) fn cluster_arrive(is_relaxed: bool, at: At) {
    with(at, |trace| {
        trace.push(ClusterArrive { is_relaxed }, &[], at)
    });
}

/// The wait at a cluster barrier.
#[inline(never)]
pub(crate) fn cluster_wait(at: At) {
    with(at, |trace| trace.push(ClusterWait {}, &[], at));
}

/// Waits for the launch before.
#[inline(never)]
pub(crate) fn launch_wait(at: At) {
    with(at, |trace| trace.push(LaunchWait {}, &[], at));
}

/// Lets the next launch begin.
#[inline(never)]
pub(crate) fn launch_dependents(at: At) {
    with(at, |trace| trace.push(LaunchDependents {}, &[], at));
}

/// A proxy fence: makes stores of threads visible to the async proxy.
#[inline(never)]
pub(crate) fn fence_async_shared(at: At) {
    with(at, |trace| trace.push(FenceAsyncShared {}, &[], at));
}

/// A proxy fence: what was acquired in global memory is visible to the async proxy.
#[inline(never)]
pub(crate) fn fence_async_global(at: At) {
    with(at, |trace| trace.push(FenceAsyncGlobal {}, &[], at));
}

/// Reads from another CTA.
#[inline(never)]
pub(crate) fn remote_load(view: Value, cta: Raw, layout: Layout, at: At) -> Value {
    with(at, |trace| {
        let ty = match trace.ty(view).as_smem() {
            Some(s) => Type::tensor(s.shape.clone(), s.elem, layout),
            None => Type::Poison,
        };
        let Some(fitted) = trace.fit("in_cta", &[(cta, Elem::I32)], at) else {
            return trace.builder.poison();
        };
        let cta = fitted[0];
        trace.push1(RemoteLoad { view, cta }, ty, at)
    })
}

/// Writes into another CTA.
#[inline(never)]
pub(crate) fn remote_store(view: Value, value: Value, cta: Raw, at: At) {
    with(at, |trace| {
        if let Some(fitted) = trace.fit("in_cta", &[(cta, Elem::I32)], at) {
            let cta = fitted[0];
            trace.push(RemoteStore { view, value, cta }, &[], at);
        }
    });
}
