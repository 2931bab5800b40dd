//! Votes of warps.

use smallvec::smallvec;

use super::define::define_op;
use super::operand_types::no_such_op;
use super::shape::tensor;
use super::{LayoutRule, OpRules, Types};
use crate::OpError;
use crate::elem::Elem;
use crate::entity::Value;
use crate::{Func, Type};

define_op! {
    /// Whether any of the elements that a warp holds is true: a scalar that may differ between warps. It decides branches that only compute, so
    /// that no warp waits for another one in them.
    pub struct AnyInWarp = "any_in_warp" {
        /// Booleans.
        operand: Value,
    }
}

impl OpRules for AnyInWarp {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let t = tensor(func, "any_in_warp", self.operand)?;
        if t.elem != Elem::I1 {
            return Err(no_such_op("any_in_warp", t.elem));
        }
        Ok(smallvec![Type::Scalar(Elem::I1)])
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Free
    }
    fn differs_between_warps(&self) -> bool {
        true
    }
}
