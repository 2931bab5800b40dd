//! Ranges of a dimension, and tensors put together along one. No element moves.

use smallvec::smallvec;

use super::define::{answers, define_op};
use super::shape::tensor;
use super::{LayoutRule, OpRules, Types, Values};
use crate::OpError;
use crate::entity::Value;
use crate::facts::{self, Facts, KnownFacts};
use crate::{Func, TensorType, Type};
use diag::Code;
use layout::{Dims, Layout, LinearLayout, relate};

define_op! {
    /// The `length` elements of dimension `axis` from `start` on. No element moves: each thread holds of them what it held.
    /// The result's layout is the operand's where that puts the range into the same threads, else its bases; a declared one
    /// stands if it does so too.
    pub struct Part = "slice" {
        /// The dimension.
        axis: u32,
        /// The first coordinate.
        start: u32,
        /// How many there are.
        length: u32,
        /// The operand.
        operand: Value,
    }
}

impl Part {
    fn range(&self) -> relate::Part {
        relate::Part {
            axis: self.axis as usize,
            start: self.start,
            length: self.length,
        }
    }
}

impl OpRules for Part {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let t = tensor(func, "slice", self.operand)?;
        check_axis("slice", self.operand, t, self.axis)?;
        let range = self.range();
        let size = t.shape[range.axis];
        let end = range.start.checked_add(range.length);
        if range.length == 0 || end.is_none_or(|end| end > size) {
            let message = format!(
                "`slice` of elements {}..{} of dimension {} of {}, which has {size}",
                range.start,
                u64::from(range.start) + u64::from(range.length),
                range.axis,
                t.shape
            );
            return Err(OpError::new(Code::ShapeChange, message)
                .typed(self.operand, t)
                .help(format!("slice a part of 0..{size}")));
        }
        let shape = t.shape.with(range.axis, range.length);
        let fits = |layout: &Layout| {
            let place = (range.axis, range.start);
            is_part(&t.layout, &t.shape, layout, &shape, place)
        };
        let wanted = declared.first().and_then(Type::layout);
        let layout = match wanted.filter(|wanted| fits(wanted)) {
            Some(wanted) => wanted.clone(),
            None => relate::part(&t.layout, &t.shape, range)
                .map_err(|e| moved(&e.to_string(), "slice", self.operand, t, range.axis))?,
        };
        Ok(smallvec![Type::tensor(shape, t.elem, layout)])
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Part(self.range())
    }
    answers!(moves(operand));
    fn result_facts(&self, _: &Func, known: &KnownFacts, ty: &Type) -> Facts {
        facts::part(&known[self.operand], self.range(), ty)
    }
}

define_op! {
    /// Tensors one after the other along dimension `axis`. No element moves: each thread holds of the result what it held of
    /// the operands. The result's layout follows from the first operand's, whose missing steps along the dimension go to
    /// registers; a declared one stands if it keeps all operands where they are.
    pub struct Cat = "cat" {
        /// The dimension.
        axis: u32,
        /// Tensors whose shapes differ along the dimension at most.
        operands: Values,
    }
}

impl Cat {
    fn ranges(&self, func: &Func) -> Vec<relate::Part> {
        ranges(func, &self.operands, self.axis as usize)
    }

    /// The shape of the result; the operands' shapes fit.
    fn shape(&self, func: &Func) -> Result<Dims, OpError> {
        let Some(&first) = self.operands.first() else {
            return Err(OpError::new(Code::BrokenRule, "`cat` of nothing"));
        };
        let t = tensor(func, "cat", first)?;
        check_axis("cat", first, t, self.axis)?;
        let axis = self.axis as usize;
        let mut extent: u32 = 0;
        for &operand in &self.operands {
            let o = tensor(func, "cat", operand)?;
            let is_alike = o.rank() == t.rank() && o.shape.with(axis, 1) == t.shape.with(axis, 1);
            if !is_alike || o.elem != t.elem {
                let message = format!(
                    "`cat` along dimension {axis} of {t} and {o}, which differ in another dimension"
                );
                return Err(OpError::new(Code::ShapeMismatch, message)
                    .typed(first, t)
                    .typed(operand, o)
                    .help("give both equal extents in the other dimensions"));
            }
            extent = extent.saturating_add(o.shape[axis]);
        }
        Ok(t.shape.with(axis, extent))
    }

    /// The operand that does not lie in a layout of the result as it does now.
    fn misfit(&self, func: &Func, layout: &Layout, shape: &Dims) -> Option<(Value, relate::Part)> {
        let parts = self.operands.iter().copied().zip(self.ranges(func));
        let mut parts = parts.filter(|(value, range)| {
            let t = func.ty(*value).as_tensor();
            let place = (range.axis, range.start);
            !t.is_some_and(|t| is_part(layout, shape, &t.layout, &t.shape, place))
        });
        parts.next()
    }
}

impl OpRules for Cat {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let shape = self.shape(func)?;
        let elem = tensor(func, "cat", self.operands[0])?.elem;
        let wanted = declared.first().and_then(Type::layout);
        let given =
            |layout: &Layout| Ok(smallvec![Type::tensor(shape.clone(), elem, layout.clone())]);
        if let Some(wanted) = wanted.filter(|w| w.is_resolved())
            && self.misfit(func, wanted, &shape).is_none()
        {
            return given(wanted);
        }
        let tensors = self.operands.iter().filter_map(|v| func.ty(*v).as_tensor());
        let mut known = tensors.zip(self.ranges(func));
        let Some((first, range)) = known.find(|(t, _)| t.layout.is_resolved()) else {
            return given(&tensor(func, "cat", self.operands[0])?.layout);
        };
        let extent = shape[range.axis];
        let layout = relate::whole(&first.layout, &first.shape, range, extent)
            .map_err(|e| OpError::new(Code::ShapeChange, e.to_string()).help(IN_REGISTERS))?;
        if let Some((operand, range)) = self.misfit(func, &layout, &shape) {
            let o = tensor(func, "cat", operand)?;
            let message = format!(
                "`cat`: {o} does not lie in its threads as elements {}..{} of dimension {} of {shape} in {layout} do",
                range.start,
                range.start + range.length,
                range.axis
            );
            let help = match relate::part(&layout, &shape, range) {
                Ok(fitting) => format!("convert it: `convert_layout` to {fitting}"),
                Err(_) => IN_REGISTERS.to_owned(),
            };
            return Err(OpError::new(Code::LayoutMismatch, message)
                .typed(operand, o)
                .help(help));
        }
        given(&layout)
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Cat {
            axis: self.axis as usize,
        }
    }
    fn result_facts(&self, func: &Func, known: &KnownFacts, ty: &Type) -> Facts {
        let parts = self.operands.iter().map(|v| &known[*v]);
        facts::cat(&parts.collect::<Vec<_>>(), &self.ranges(func), ty)
    }
}

/// The ranges that tensors are of what they make one after the other along a dimension.
pub fn ranges(func: &Func, operands: &[Value], axis: usize) -> Vec<relate::Part> {
    let mut start: u32 = 0;
    let shapes = operands.iter().map(|v| func.ty(*v).shape());
    let ranges = shapes.map(|shape| {
        let length = shape.get(axis).copied().unwrap_or(0);
        let range = relate::Part {
            axis,
            start,
            length,
        };
        start = start.saturating_add(length);
        range
    });
    ranges.collect()
}

const IN_REGISTERS: &str = "`convert_layout` to one that takes the large steps along the dimension in registers: a `Blocked` whose threads and \
     warps lie along other dimensions, or cover no more than a part along this one";

/// Does each thread hold, of a part in `layout`, what it holds of the whole? Where one of the two is open, it will.
fn is_part(
    whole: &Layout,
    shape: &Dims,
    layout: &Layout,
    part_shape: &Dims,
    (axis, start): (usize, u32),
) -> bool {
    if !whole.is_resolved() || !layout.is_resolved() {
        return whole == layout;
    }
    let maps = (whole.linear(shape), layout.linear(part_shape));
    let found = |whole: &LinearLayout, part: &LinearLayout| {
        relate::registers_of_part(whole, part, axis, start).is_some()
    };
    matches!(&maps, (Ok(whole), Ok(part)) if found(whole, part))
}

fn check_axis(op: &str, operand: Value, t: &TensorType, axis: u32) -> Result<(), OpError> {
    if (axis as usize) < t.rank() {
        return Ok(());
    }
    let message = format!(
        "`{op}` along dimension {axis} of a tensor of rank {}",
        t.rank()
    );
    let last = t.rank() - 1;
    Err(OpError::new(Code::NoSuchAxis, message)
        .typed(operand, t)
        .help(format!(
            "dimensions count from 0, and the last one here is {last}"
        )))
}

/// Elements would have to move.
fn moved(why: &str, op: &str, operand: Value, t: &TensorType, axis: usize) -> OpError {
    let message = format!("`{op}` along dimension {axis} would move elements between threads");
    OpError::new(Code::ShapeChange, message)
        .typed(operand, t)
        .note(why.to_owned())
        .help(IN_REGISTERS)
}
