//! Order along one dimension.

use smallvec::smallvec;

use super::define::{answers, define_op};
use super::shape::tensor;
use super::{LayoutRule, OpRules, Scratch, Types, Values};
use crate::OpError;
use crate::elem::Elem;
use crate::{Func, TensorType, Type};
use diag::Code;
use layout::relate;

define_op! {
    /// Puts the elements along `axis` in order and keeps the first `count`. Several tensors are moved together, ordered by
    /// the first, where that is equal by the second, and so on; so the result does not depend on the layout. What is kept
    /// stays in the threads that hold the first places; where the operands' layout puts a tensor of fewer elements
    /// elsewhere, the results have a `Linear` one. CTAs of a cluster that split the dimension read one another's shared
    /// memory.
    pub struct Sort = "sort" {
        /// The dimension along which it runs.
        axis: u32,
        /// How many are kept: all, or a power of two.
        count: u32,
        /// From the largest to the smallest.
        is_descending: bool,
        /// Shared memory for elements exchanged between warps.
        scratch: Scratch,
        /// Tensors of integers, of one shape and layout.
        operands: Values,
    }
}

impl OpRules for Sort {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let Some(&first) = self.operands.first() else {
            return Err(OpError::new(Code::BrokenRule, "`sort` of nothing"));
        };
        let t = tensor(func, "sort", first)?;
        let error = |code, message: String| OpError::new(code, message).typed(first, t);
        let axis = self.axis as usize;
        if axis >= t.rank() {
            let (axis, rank) = (self.axis, t.rank());
            let message = format!("`sort` along dimension {axis} of a tensor of rank {rank}");
            let last = t.rank() - 1;
            return Err(error(Code::NoSuchAxis, message).help(format!(
                "dimensions count from 0, and the last one here is {last}"
            )));
        }
        if t.layout.warp_sets().count > 1
            && let Ok(map) = t.layout.linear(&t.shape)
            && map.divided().is_some_and(|(dim, _)| dim == axis)
        {
            let message = format!(
                "`sort` along dimension {axis}, which the sets of {} warps divide",
                t.layout.warps().unwrap_or(0)
            );
            return Err(error(Code::InvalidLayout, message).help(
                "convert it to a layout whose sets of warps lie along another dimension, or one that a `Slice` loses",
            ));
        }
        let size = t.shape[axis];
        if !can_keep(self.count, size) {
            let message = format!("`sort` keeps {} of {size} elements", self.count);
            return Err(error(Code::ShapeChange, message)
                .help("it can keep all, or a power of two; mask those that are not wanted"));
        }
        let mut types: Types = smallvec![];
        for &operand in &self.operands {
            let o = tensor(func, "sort", operand)?;
            if (&o.shape, &o.layout) != (&t.shape, &t.layout) {
                let other = func.ty(operand).with_elem(t.elem);
                let found = func.ty(first);
                return Err(super::operand_types::mismatch(
                    "sort", first, found, operand, &other,
                ));
            }
            if !matches!(o.elem, Elem::Data(d) if d.is_int()) {
                return Err(
                    error(Code::ElementMismatch, format!("`sort` of {}", o.elem))
                        .help("it orders integers; floats become integers of the same order first"),
                );
            }
            types.push(self.kept(o));
        }
        Ok(types)
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Keep
    }
    answers!(scratch);
}

/// Can a sort keep so many of `size` elements? Threads hold the same registers of what is kept, which a cut would otherwise have to
/// fall on.
pub fn can_keep(count: u32, size: u32) -> bool {
    count == size || count.is_power_of_two() && count < size
}

impl Sort {
    /// The type of what is kept of a tensor.
    fn kept(&self, t: &TensorType) -> Type {
        let mut shape = t.shape.clone();
        shape[self.axis as usize] = self.count;
        let layout = relate::keep(&t.layout, &t.shape, &shape);
        Type::tensor(shape, t.elem, layout)
    }
}
