//! Elements of a tile that a tensor of indices names.

use smallvec::smallvec;

use super::{descriptor, touches};
use crate::diag::{Code, OpError};
use crate::entity::Value;
use crate::ir::{Effects, Func, SmemType, Type};
use crate::ops::arith::mismatch;
use crate::ops::define::{answers, define_op};
use crate::ops::shape::tensor;
use crate::ops::{OpRules, Types};

define_op! {
    /// For each index: the element of the view at the index along `axis`, and at the index's own coordinates along the
    /// other dimensions.
    pub struct SmemGather = "smem_gather" {
        /// The dimension indexed.
        axis: u32,
        /// The view.
        view: Value,
        /// Integers, a tensor of the view's rank.
        indices: Value,
    }
}

impl OpRules for SmemGather {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let s = descriptor(func, "gather", self.view)?;
        check_indices(func, "gather", s, self.indices, self.axis)?;
        Ok(smallvec![func.ty(self.indices).with_elem(s.elem)])
    }
    fn effects(&self) -> Effects {
        Effects {
            is_guarded: true,
            ..touches(true, false)
        }
    }
    answers!(shared(view: Read));
}

define_op! {
    /// For each index: writes the value into the view at the index along `axis`, and at the index's own coordinates
    /// along the other dimensions. Two values for one place leave either.
    pub struct SmemScatter = "smem_scatter" {
        /// The dimension indexed.
        axis: u32,
        /// The view.
        view: Value,
        /// What to write.
        values: Value,
        /// Integers of the same shape and layout as the values.
        indices: Value,
    }
}

impl OpRules for SmemScatter {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let s = descriptor(func, "scatter", self.view)?;
        check_indices(func, "scatter", s, self.indices, self.axis)?;
        check_values(func, "scatter", s, self.values, self.indices)?;
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        touches(false, true)
    }
    answers!(shared(view: Write));
}

pub(in crate::ops) fn check_indices(
    func: &Func,
    op: &str,
    s: &SmemType,
    indices: Value,
    axis: u32,
) -> Result<(), OpError> {
    let t = tensor(func, op, indices)?;
    if !t.elem.is_int() {
        return Err(OpError::new(
            Code::ElementMismatch,
            format!("`{op}` wants integer indices, these are {t}"),
        ));
    }
    if t.rank() != s.shape.rank() {
        return Err(OpError::new(
            Code::RankMismatch,
            format!("`{op}` wants indices of the rank of {s}, these are {t}"),
        )
        .typed(indices, t));
    }
    if axis as usize >= s.shape.rank() {
        return Err(OpError::new(
            Code::NoSuchAxis,
            format!(
                "`{op}` along dimension {axis} of {s}, which has 0 to {}",
                s.shape.rank() - 1
            ),
        ));
    }
    let others = t.shape.iter().zip(s.shape.iter()).enumerate();
    for (d, (index, size)) in others {
        if d != axis as usize && index > size {
            return Err(OpError::new(
                Code::ShapeMismatch,
                format!("the indices have {index} elements in dimension {d}, and {s} has {size}"),
            )
            .typed(indices, t));
        }
    }
    Ok(())
}

pub(in crate::ops) fn check_values(
    func: &Func,
    op: &str,
    s: &SmemType,
    values: Value,
    indices: Value,
) -> Result<(), OpError> {
    let wanted = func.ty(indices).with_elem(s.elem);
    let ty = func.ty(values);
    if *ty != wanted {
        return Err(mismatch(op, values, ty, indices, &wanted));
    }
    Ok(())
}
