//! Prefix combinations along one dimension.

use smallvec::smallvec;

use super::control::check_combine;
use super::define::{answers, define_op};
use super::reduce::reduced;
use super::shape::tensor;
use super::{LayoutRule, OpRules, Scratch, Types, Values};
use crate::OpError;
use crate::entity::Region;
use crate::{Func, Type};
use diag::Code;

define_op! {
    /// Each element becomes the combination of all up to itself along `axis`, several tensors at once if wanted. The
    /// region takes two elements of each operand (all earlier ones, then all later ones) and yields one of each; it must
    /// be associative. From the end if `is_reverse`. CTAs of a cluster that split the dimension exchange what they found.
    /// With `has_totals`, the totals along `axis` follow, in a result for each operand whose type is that of
    /// a reduction.
    pub struct Scan = "scan" {
        /// The dimension along which it runs.
        axis: u32,
        /// From the last element to the first.
        is_reverse: bool,
        /// Does it give totals too?
        has_totals: bool,
        /// Shared memory for what goes between warps and between CTAs.
        scratch: Scratch,
        /// Tensors of one shape and layout.
        operands: Values,
        /// How two elements become one.
        combine: Region,
    }
}

impl OpRules for Scan {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let Some(&first) = self.operands.first() else {
            return Err(OpError::new(Code::BrokenRule, "`scan` of nothing"));
        };
        let t = tensor(func, "scan", first)?;
        if self.axis as usize >= t.rank() {
            let message = format!(
                "`scan` along dimension {} of a tensor of rank {}, which has 0 to {}",
                self.axis,
                t.rank(),
                t.rank() - 1
            );
            return Err(OpError::new(Code::NoSuchAxis, message)
                .typed(first, t)
                .help("dimensions count from 0"));
        }
        check_combine(func, "scan", self.combine, &self.operands)?;
        let mut types = smallvec![];
        for &operand in &self.operands {
            let o = tensor(func, "scan", operand)?;
            if (&o.shape, &o.layout) != (&t.shape, &t.layout) {
                return Err(super::operand_types::mismatch(
                    "scan",
                    first,
                    func.ty(first),
                    operand,
                    &func.ty(operand).with_elem(t.elem),
                ));
            }
            types.push(func.ty(operand).clone());
        }
        if self.has_totals {
            let axis = self.axis as usize;
            let totals: Vec<Type> = types.iter().map(|ty| reduced(ty, axis)).collect();
            types.extend(totals);
        }
        Ok(types)
    }
    fn layout_rule(&self) -> LayoutRule {
        if self.has_totals {
            LayoutRule::AlongWithTotals { axis: self.axis }
        } else {
            LayoutRule::Along
        }
    }
    answers!(scratch);
}
