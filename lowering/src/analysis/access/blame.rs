//! Which values limit the width of an access.
//!
//! The walk goes from the pointers to what they are made of, and asks each operand for what its user lacks. It ends at values
//! of which only the author can know more: parameters, numbers that were loaded, constants.
//!
//! Matches on ops: what would make an address more divisible depends on the arithmetic that it is made of.

use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::arith::{Binary, BinaryOp, Compare};
use ir::ops::{Op, flow};
use ir::{Func, ValueDef};

use crate::analysis::axis::Axes;

/// A value of which too little is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// The value.
    pub value: Value,
    /// What is known to divide it; of a pointer, its address in bytes.
    pub divisor: u32,
    /// What would have to.
    pub wanted: u32,
}

/// The values that would have to be more divisible for the first element of each run of `value` along `dim` to be a multiple
/// of `wanted`, in bytes for pointers.
pub fn divisibility(
    func: &Func,
    axes: &Axes,
    value: Value,
    dim: usize,
    wanted: u32,
) -> Vec<Culprit> {
    let mut walk = CulpritSearch::new(func, axes);
    walk.divisibility(value, dim, wanted);
    walk.culprits
}

/// The values that would have to be multiples of `len` for `mask` to be the same for aligned runs of `len` elements.
pub fn equal_runs(func: &Func, axes: &Axes, mask: Value, dim: usize, len: u32) -> Vec<Culprit> {
    let mut walk = CulpritSearch::new(func, axes);
    walk.equal_runs(mask, dim, len);
    walk.culprits
}

/// The value that says how far apart neighbouring elements of `value` along `dim` are, or at which they are loaded.
pub fn distance(func: &Func, axes: &Axes, value: Value, dim: usize) -> Option<Value> {
    if axes.constancy(value, dim) > 1 || axes.contiguity(value, dim) > 1 {
        return None;
    }
    let inst = func.def_inst(value)?;
    let of = |value: Value, dim: usize| distance(func, axes, value, dim);
    match func.op(inst) {
        Op::PtrAdd(op) => of(op.offset, dim).or_else(|| of(op.ptr, dim)),
        Op::Binary(op) if op.op == BinaryOp::Mul => {
            let is_factor = |v: &Value| axes.stride(*v, dim) == Some(0);
            let factor = [op.rhs, op.lhs].into_iter().find(is_factor);
            factor.map(|factor| scalar(func, factor))
        }
        Op::Binary(op) => of(op.lhs, dim).or_else(|| of(op.rhs, dim)),
        Op::Load(_) | Op::Gather(_) => Some(value),
        op => {
            let (operand, dim) = passed_on(func, op, dim)?;
            of(operand, dim)
        }
    }
}

/// The scalar that every element is, as far up as it is one.
fn scalar(func: &Func, value: Value) -> Value {
    let op = func.def_inst(value).map(|inst| func.op(inst));
    match op {
        Some(Op::Splat(op)) => scalar(func, op.value),
        Some(op) => passed_on(func, op, 0).map_or(value, |(operand, _)| scalar(func, operand)),
        None => value,
    }
}

/// The operand whose elements an op passes on as they are, and its dimension that `dim` of the result is.
fn passed_on(func: &Func, op: &Op, dim: usize) -> Option<(Value, usize)> {
    Some(match op {
        Op::Splat(op) => (op.value, 0),
        Op::Broadcast(op) => (op.operand, dim),
        Op::ConvertLayout(op) => (op.operand, dim),
        Op::SetLayout(op) => (op.operand, dim),
        Op::Cast(op) => (op.operand, dim),
        Op::Hint(op) => (op.operand, dim),
        Op::Permute(op) => (op.operand, op.order[dim] as usize),
        Op::ExpandDims(op) => {
            let rank = func.ty(op.operand).shape().len();
            let inner = if dim > op.axis as usize { dim - 1 } else { dim };
            (op.operand, inner.min(rank.saturating_sub(1)))
        }
        _ => return None,
    })
}

struct CulpritSearch<'f> {
    func: &'f Func,
    axes: &'f Axes,
    culprits: Vec<Culprit>,
    /// Values on the way: a loop passes a value to itself.
    seen: Vec<Value>,
}

impl<'f> CulpritSearch<'f> {
    fn new(func: &'f Func, axes: &'f Axes) -> CulpritSearch<'f> {
        CulpritSearch {
            func,
            axes,
            culprits: Vec::new(),
            seen: Vec::new(),
        }
    }

    fn divisibility(&mut self, value: Value, dim: usize, wanted: u32) {
        if self.axes.divisibility(value, dim) >= wanted || self.seen.contains(&value) {
            return;
        }
        self.seen.push(value);
        let func = self.func;
        match func.def_inst(value).map(|inst| func.op(inst)) {
            Some(Op::PtrAdd(op)) => {
                let bytes = func.ty(value).elem().and_then(Elem::pointee);
                let bytes = bytes.map_or(1, ir::elem::DType::bytes);
                self.divisibility(op.ptr, dim, wanted);
                self.divisibility(op.offset, dim, (wanted / bytes).max(1));
            }
            Some(Op::Binary(op)) => self.of_binary(value, op, dim, wanted),
            Some(op) => match passed_on(func, op, dim) {
                Some((operand, dim)) => self.divisibility(operand, dim, wanted),
                None => self.blame(value, wanted),
            },
            None => self.of_param(value, wanted),
        }
    }

    fn of_binary(&mut self, value: Value, op: &Binary, dim: usize, wanted: u32) {
        let known = |v: Value| self.axes.divisor(v);
        match op.op {
            BinaryOp::Add | BinaryOp::Sub => {
                self.divisibility(op.lhs, dim, wanted);
                self.divisibility(op.rhs, dim, wanted);
            }
            BinaryOp::Mul => {
                let (left, right) = (known(op.lhs), known(op.rhs));
                let before = self.culprits.len();
                // What counts up or is constant cannot be more divisible, and leads to nobody.
                self.divisibility(op.rhs, dim, (wanted / left).max(1));
                if self.culprits.len() == before {
                    self.divisibility(op.lhs, dim, (wanted / right).max(1));
                }
            }
            BinaryOp::Shl => match self.axes.constant(op.rhs) {
                Some(by @ 0..32) => self.divisibility(op.lhs, dim, (wanted >> by).max(1)),
                _ => self.blame(value, wanted),
            },
            _ => self.blame(value, wanted),
        }
    }

    /// A parameter of the kernel, or a value that a loop carries.
    fn of_param(&mut self, value: Value, wanted: u32) {
        let func = self.func;
        let ValueDef::Param(region, _) = func.def(value) else {
            return;
        };
        if region == func.body {
            return self.blame(value, wanted);
        }
        match flow::slot_of_param(func, value).and_then(|(inst, at)| flow::slot(func, inst, at)) {
            Some(slot) => {
                for from in slot.values().filter(|v| *v != slot.result) {
                    self.divisibility(from, 0, wanted);
                }
            }
            None => match func.region(region).owner.expand().map(|inst| func.op(inst)) {
                Some(Op::For(op)) => {
                    self.divisibility(op.low, 0, wanted);
                    self.divisibility(op.step, 0, wanted);
                }
                _ => self.blame(value, wanted),
            },
        }
    }

    fn equal_runs(&mut self, mask: Value, dim: usize, len: u32) {
        if self.axes.constancy(mask, dim) >= len {
            return;
        }
        let func = self.func;
        match func.def_inst(mask).map(|inst| func.op(inst)) {
            Some(Op::Compare(op)) => self.bound(op, dim, len),
            Some(Op::Binary(op)) if op.op == BinaryOp::And => {
                self.equal_runs(op.lhs, dim, len);
                self.equal_runs(op.rhs, dim, len);
            }
            Some(op) => {
                if let Some((operand, dim)) = passed_on(func, op, dim) {
                    self.equal_runs(operand, dim, len);
                }
            }
            None => {}
        }
    }

    /// Both sides of `index < bound`: a bound that is a multiple of the run's length splits none.
    fn bound(&mut self, op: &Compare, dim: usize, len: u32) {
        self.divisibility(op.lhs, dim, len);
        self.divisibility(op.rhs, dim, len);
    }

    fn blame(&mut self, value: Value, wanted: u32) {
        let divisor = self.axes.divisor(value);
        let is_named = self.culprits.iter().any(|c| c.value == value);
        if divisor < wanted && !is_named {
            self.culprits.push(Culprit {
                value,
                divisor,
                wanted,
            });
        }
    }
}
