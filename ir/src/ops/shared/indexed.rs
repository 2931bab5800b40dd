//! Elements of a tile that a tensor of indices names.

use smallvec::smallvec;

use super::{check_start, descriptor, touches};
use crate::OpError;
use crate::entity::Value;
use crate::ops::define::{answers, define_op};
use crate::ops::operand_types::mismatch;
use crate::ops::shape::tensor;
use crate::ops::{OpRules, Types};
use crate::{Effects, Func, SmemType, Type};
use diag::Code;
use layout::Axis;
use layout::linear::cut::bits_below;
use layout::local::Places;

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
        check_indexed_ctas(func, "gather", (self.view, self.indices), self.axis, false)?;
        Ok(smallvec![func.ty(self.indices).with_elem(s.elem)])
    }
    fn effects(&self) -> Effects {
        Effects {
            is_guarded: true,
            ..touches(true, false)
        }
    }
    answers!(shared(view: Read), cta_parts);
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
        check_indexed_ctas(func, "scatter", (self.view, self.indices), self.axis, true)?;
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        touches(false, true)
    }
    answers!(shared(view: Write), cta_parts);
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
            format!("`{op}` takes integer indices, not {t}"),
        )
        .help("convert them: `cast::<i32>()`"));
    }
    if t.rank() != s.shape.rank() {
        return Err(OpError::new(
            Code::RankMismatch,
            format!("`{op}` takes indices of the rank of {s}, not {t}"),
        )
        .typed(indices, t)
        .help("add dimensions to the indices: `expand_dims(axis)`"));
    }
    if axis as usize >= s.shape.rank() {
        return Err(OpError::new(
            Code::NoSuchAxis,
            format!(
                "`{op}` along dimension {axis} of {s}, which has 0 to {}",
                s.shape.rank() - 1
            ),
        )
        .help("dimensions count from 0"));
    }
    let others = t.shape.iter().zip(s.shape.iter()).enumerate();
    for (d, (index, size)) in others {
        if d != axis as usize && index > size {
            return Err(OpError::new(
                Code::ShapeMismatch,
                format!("the indices have {index} elements in dimension {d}, and {s} has {size}"),
            )
            .typed(indices, t)
            .help(format!("use at most {size} indices along dimension {d}")));
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

/// What indices name along one dimension lies in the CTA that has them, and what is written there is every CTA's.
pub(in crate::ops) fn check_indexed_ctas(
    func: &Func,
    op: &str,
    (view, indices): (Value, Value),
    axis: u32,
    is_written: bool,
) -> Result<(), OpError> {
    let (s, t) = (descriptor(func, op, view)?, tensor(func, op, indices)?);
    if !func.has_cluster() && s.layout.ctas() == 1 {
        return Ok(());
    }
    let axis = axis as usize;
    check_start(s, op, axis, 0..bits_below(s.alloc_shape[axis])).map_err(|e| e.typed(view, s))?;
    let maps = (
        t.layout.linear(&t.shape),
        Places::new(&s.layout, &s.alloc_shape),
    );
    let (Ok(registers), Ok(places)) = maps else {
        // Open layouts are looked at again once they are decided, wrong ones are reported where they are made.
        return Ok(());
    };
    let of_ctas = registers.basis_coords(Axis::Block);
    let differs = is_written && of_ctas.iter().any(|basis| basis[axis] != 0);
    if places.stay_in_cta_but(&registers, Some(axis)) && !differs {
        return Ok(());
    }
    let message =
        format!("`{op}` by {t} in {s}: the CTAs of the cluster split them in different ways");
    Err(OpError::new(Code::LayoutMismatch, message)
        .typed(view, s)
        .help("a CTA reads and writes its own shared memory: give both layouts the same CTA bases, with zeros along the dimension that is indexed"))
}
