//! Clusters of CTAs (PTX ISA, `barrier.cluster`, `mapa`), and launches that overlap (`griddepcontrol`).

use smallvec::smallvec;

use super::define::define_op;
use super::{LayoutRule, OpRules, Types};
use crate::diag::OpError;
use crate::elem::Elem;
use crate::ir::{Effects, Func, Type};

define_op! {
    /// All threads of the cluster meet. A relaxed meeting orders no memory: it is for set-up, after a fence.
    pub struct ClusterBarrier = "cluster_barrier" {
        /// Whether it orders nothing.
        is_relaxed: bool,
    }
}

impl OpRules for ClusterBarrier {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        Effects {
            is_barrier: !self.is_relaxed,
            ..Effects::BARRIER
        }
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Free
    }
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
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Free
    }
}

define_op! {
    /// The next launch may begin once every CTA has said so or ended (PTX ISA, `griddepcontrol.launch_dependents`).
    pub struct LaunchDependents = "launch_dependents" {
    }
}

impl OpRules for LaunchDependents {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        Effects {
            is_ordered: true,
            ..Effects::PURE
        }
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Free
    }
}
