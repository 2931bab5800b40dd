//! Reductions along one dimension.

use smallvec::smallvec;

use super::control::check_combine;
use super::define::{answers, define_op};
use super::shape::tensor;
use super::{LayoutRule, OpRules, Scratch, Types, Values};
use crate::OpError;
use crate::entity::Region;
use crate::{Func, Type};
use diag::Code;
use layout::relate;

define_op! {
    /// Combines all elements along `axis`, several tensors at once if wanted. The region takes two elements of each
    /// operand (all left ones, then all right ones) and yields one of each; it must be associative and commutative, for
    /// the order of combination is the layout's. A rank-1 operand gives a scalar. CTAs of a cluster that split the
    /// dimension exchange what they found, and each holds the result.
    pub struct Reduce = "reduce" {
        /// The dimension that is removed.
        axis: u32,
        /// Shared memory for partial results exchanged between warps and between CTAs.
        scratch: Scratch,
        /// Tensors of one shape and layout.
        operands: Values,
        /// How two elements become one.
        combine: Region,
    }
}

impl OpRules for Reduce {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let Some(&first) = self.operands.first() else {
            return Err(OpError::new(Code::BrokenRule, "`reduce` of nothing"));
        };
        let t = tensor(func, "reduce", first)?;
        for &other in &self.operands[1..] {
            let o = tensor(func, "reduce", other)?;
            if (&o.shape, &o.layout) != (&t.shape, &t.layout) {
                return Err(super::operand_types::mismatch(
                    "reduce",
                    first,
                    func.ty(first),
                    other,
                    &func.ty(other).with_elem(t.elem),
                ));
            }
        }
        let axis = self.axis as usize;
        if axis >= t.rank() {
            return Err(OpError::new(
                Code::NoSuchAxis,
                format!(
                    "a reduction over dimension {axis} of a tensor of rank {}",
                    t.rank()
                ),
            )
            .typed(first, t)
            .help(format!(
                "dimensions count from 0, and the last one here is {}",
                t.rank() - 1
            )));
        }
        check_combine(func, "reduce", self.combine, &self.operands)?;
        let mut types = smallvec![];
        for &operand in &self.operands {
            types.push(reduced(func.ty(operand), axis));
        }
        Ok(types)
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Reduce { axis: self.axis }
    }
    answers!(scratch);
}

/// The type of the results of a reduction along `axis`: a scalar, if it has no other dimension.
pub(super) fn reduced(ty: &Type, axis: usize) -> Type {
    match ty {
        Type::Tensor(t) if t.rank() == 1 => Type::Scalar(t.elem),
        Type::Tensor(t) => {
            let shape = t.shape.without(axis);
            Type::tensor(shape, t.elem, relate::reduce(&t.layout, axis))
        }
        other => other.clone(),
    }
}
