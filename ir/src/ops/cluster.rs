//! Clusters of CTAs (PTX ISA, `barrier.cluster`, `mapa`), and launches that overlap (`griddepcontrol`).

use smallvec::smallvec;

use super::create::{Const, GridAxis, one_declared};
use super::define::{answers, define_op};
use super::shared::{check_loaded, check_remote_ctas, check_stored, descriptor};
use super::{OpRules, Types};
use crate::OpError;
use crate::elem::Elem;
use crate::entity::Value;
use crate::facts::{Facts, KnownFacts};
use crate::{Effects, Func, Spaces, Type};
use diag::Code;
use layout::Dims;

/// A kernel without `cluster = ..` uses no cluster operation. With `cluster = 1` each CTA is a cluster of one: so is every CTA of a
/// launch without clusters (PTX ISA, `%cluster_nctarank`).
pub(super) fn check_cluster(func: &Func, op: &str) -> Result<(), OpError> {
    if func.has_cluster() || func.says_cluster {
        return Ok(());
    }
    Err(OpError::new(
        Code::NotUniform,
        format!("`{op}` accesses other CTAs of a cluster, and this kernel has none"),
    )
    .help("`#[kernel(cluster = [2, 1, 1])]` makes clusters of two CTAs"))
}

pub(super) fn check_rank(func: &Func, cta: Value) -> Result<(), OpError> {
    let ty = func.ty(cta);
    let ctas = func.cluster_ctas();
    if *ty == Type::Scalar(Elem::I32) {
        return match func.constant_int(cta) {
            Some(rank) if !(0..i128::from(ctas)).contains(&rank) => Err(OpError::new(
                Code::ConstantRange,
                format!("the CTA of rank {rank} in a cluster of {ctas} CTAs"),
            )
            .origin(cta, "this rank")
            .help(format!("ranks are 0 to {}", ctas.saturating_sub(1)))),
            _ => Ok(()),
        };
    }
    Err(OpError::new(
        Code::ElementMismatch,
        format!("the rank of a CTA is an i32, not {ty}"),
    )
    .typed(cta, ty))
}

fn known_rank(func: &Func, cta: Value) -> Option<u32> {
    u32::try_from(func.constant_int(cta)?).ok()
}

/// What orders memory between the CTAs of a cluster.
const ORDERS: Effects = Effects {
    reads: Spaces::ALL,
    writes: Spaces::ALL,
    is_ordered: true,
    is_guarded: true,
    ..Effects::PURE
};

define_op! {
    /// All threads of the cluster synchronize. A relaxed barrier orders no memory: it is for set-up, after a fence.
    pub struct ClusterBarrier = "cluster_barrier" {
        /// Whether it orders nothing.
        is_relaxed: bool,
    }
}

impl OpRules for ClusterBarrier {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        check_cluster(func, "cluster_barrier")?;
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        Effects {
            is_barrier: !self.is_relaxed,
            ..Effects::BARRIER
        }
    }
    fn publishes_barriers(&self) -> bool {
        true
    }
    answers!(free_layouts);
    answers!(cluster_barrier(arrives, waits));
}

define_op! {
    /// The first half of the cluster's barrier: this thread arrives, and does not wait; what it did before is seen by
    /// those whose wait ends, unless it is relaxed.
    pub struct ClusterArrive = "cluster_arrive" {
        /// Whether it orders nothing.
        is_relaxed: bool,
    }
}

impl OpRules for ClusterArrive {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        check_cluster(func, "cluster_arrive")?;
        Ok(smallvec![])
    }
    answers!(effects(ORDERS), free_layouts);
    answers!(cluster_barrier(arrives));
}

define_op! {
    /// The second half of the cluster's barrier: waits until all threads have arrived.
    pub struct ClusterWait = "cluster_wait" {
    }
}

impl OpRules for ClusterWait {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        check_cluster(func, "cluster_wait")?;
        Ok(smallvec![])
    }
    fn publishes_barriers(&self) -> bool {
        true
    }
    answers!(effects(ORDERS), free_layouts);
    answers!(cluster_barrier(waits));
}

define_op! {
    /// Reads what lies in the place of a view in another CTA of the cluster (PTX ISA, `ld.shared::cluster`). Of a view that
    /// the CTAs of the cluster split, each reads what the other has for its own part.
    pub struct RemoteLoad = "remote_load" {
        /// The view.
        view: Value,
        /// The rank of the CTA, an i32.
        cta: Value,
    }
}

impl OpRules for RemoteLoad {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        check_cluster(func, "remote_load")?;
        check_rank(func, self.cta)?;
        let s = descriptor(func, "load", self.view)?;
        let to = one_declared(declared, "remote_load")?;
        let t = check_loaded(to, self.view, s)?;
        check_remote_ctas(func, t, self.view, s)?;
        Ok(smallvec![to.clone()])
    }
    fn effects(&self) -> Effects {
        Effects {
            reads: Spaces::SHARED,
            is_guarded: true,
            ..Effects::PURE
        }
    }
    fn rank_of_views(&self, func: &Func) -> Option<u32> {
        known_rank(func, self.cta)
    }
    answers!(shared(view: RemoteRead), cta_parts, free_layouts);
}

define_op! {
    /// Writes a tensor into the place of a view in another CTA of the cluster (PTX ISA, `st.shared::cluster`). Of a view that
    /// the CTAs of the cluster split, each writes its part where the other has its own.
    pub struct RemoteStore = "remote_store" {
        /// The view.
        view: Value,
        /// What to write.
        value: Value,
        /// The rank of the CTA, an i32.
        cta: Value,
    }
}

impl OpRules for RemoteStore {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        check_cluster(func, "remote_store")?;
        check_rank(func, self.cta)?;
        let s = descriptor(func, "store", self.view)?;
        let t = check_stored(func, "store", self.value, (self.view, s))?;
        check_remote_ctas(func, t, self.view, s)?;
        Ok(smallvec![])
    }
    fn rank_of_views(&self, func: &Func) -> Option<u32> {
        known_rank(func, self.cta)
    }
    answers!(effects(ORDERS), shared(view: RemoteWrite), cta_parts, free_layouts);
}

define_op! {
    /// The rank of this CTA in its cluster (PTX `%cluster_ctarank`), an i32.
    pub struct ClusterRank = "cluster_rank" {
    }
}

impl OpRules for ClusterRank {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![Type::Scalar(Elem::I32)])
    }
    fn differs_between_ctas(&self, _: &Func, _: &dyn Fn(Value) -> bool) -> bool {
        true
    }
    /// Rank 0 is the only one where there are no clusters.
    fn result_facts(&self, func: &Func, _: &KnownFacts, ty: &Type) -> Facts {
        let ctas = i128::from(func.cluster.iter().product::<u32>());
        if ctas == 1 {
            return Facts::constant_of(Const::Int(0), ty);
        }
        Facts::between(0, ctas - 1, ty)
    }
}

define_op! {
    /// The index of this CTA's cluster among the clusters of the grid (PTX `%clusterid`), an i32: the same in all of its CTAs.
    pub struct ClusterId = "cluster_id" {
        /// Which dimension.
        axis: GridAxis,
    }
}

impl OpRules for ClusterId {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![Type::Scalar(Elem::I32)])
    }
    fn result_facts(&self, func: &Func, _: &KnownFacts, ty: &Type) -> Facts {
        Facts::between(0, self.axis.most_ctas(func) - 1, ty)
    }
}

define_op! {
    /// The number of clusters in the grid (PTX `%nclusterid`), an i32.
    pub struct NumClusters = "num_clusters" {
        /// Which dimension.
        axis: GridAxis,
    }
}

impl OpRules for NumClusters {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![Type::Scalar(Elem::I32)])
    }
    fn result_facts(&self, func: &Func, _: &KnownFacts, ty: &Type) -> Facts {
        Facts::between(1, self.axis.most_ctas(func), ty)
    }
}

define_op! {
    /// One thread initializes the mbarriers on which exchanges between the CTAs of the cluster complete. The other CTAs may send
    /// after a cluster barrier that follows. Planning inserts it at the beginning of the kernel.
    pub struct ExchangeInit = "exchange_init" {
        /// Where they lie, in bytes of the CTA's shared memory.
        barriers: Dims,
    }
}

impl OpRules for ExchangeInit {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        check_cluster(func, "exchange_init")?;
        let bytes = target::MBARRIER_BYTES;
        match self
            .barriers
            .iter()
            .find(|at| **at + bytes > func.shared_bytes || **at % bytes != 0)
        {
            None => Ok(smallvec![]),
            Some(at) => Err(OpError::new(
                Code::BrokenRule,
                format!(
                    "there is no place for a barrier at byte {at} of {} shared bytes",
                    func.shared_bytes
                ),
            )),
        }
    }
    answers!(effects(ORDERS), free_layouts);
}

define_op! {
    /// Waits until the launch before this one in the stream has completed and its writes are seen; passes at once when
    /// the launch is not a dependent one (PTX ISA, `griddepcontrol.wait`).
    pub struct LaunchWait = "launch_wait" {
    }
}

impl OpRules for LaunchWait {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        Effects {
            is_barrier: false,
            ..Effects::BARRIER
        }
    }
    answers!(one_thread, free_layouts);
}

define_op! {
    /// The next launch may begin once every CTA has executed it or exited (PTX ISA, `griddepcontrol.launch_dependents`).
    pub struct LaunchDependents = "launch_dependents" {
    }
}

impl OpRules for LaunchDependents {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![])
    }
    answers!(effects(Effects::ORDERED));
    answers!(one_thread, free_layouts);
}
