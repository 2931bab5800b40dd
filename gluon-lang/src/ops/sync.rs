//! Meeting points of threads.

use smallvec::smallvec;

use super::define::define_op;
use super::{LayoutRule, OpRules, Types};
use crate::diag::OpError;
use crate::ir::{Effects, Func, Type};

define_op! {
    /// All threads of the CTA meet; what any of them wrote before, all of them see after (PTX `barrier.cta.sync`).
    pub struct Barrier = "barrier" {
    }
}

impl OpRules for Barrier {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        Effects::BARRIER
    }
    /// It has met itself.
    fn suits_one_thread(&self) -> bool {
        true
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Free
    }
}
