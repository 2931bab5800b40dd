//! Comparisons that the bounds of a loop around them decide.
//!
//! Matches on ops: the bound of a loop is compared with a sum of its index, a pattern of certain ops.

use ir::entity::Value;
use ir::ops::arith::{BinaryOp, CompareOp};
use ir::ops::control::For;
use ir::ops::create::Const;
use ir::ops::{Op, flow};
use ir::{Func, ValueDef};

use super::outcome::Outcome;
use crate::analysis::axis::{Axes, Range};

/// `i + r < high` in a loop over `i` below `high`, where `r` is too small to reach it.
pub(super) fn comparison(func: &Func, axes: &Axes, op: &Op) -> Option<Outcome> {
    let Op::Compare(compare) = op else {
        return None;
    };
    let (small, large) = match compare.op {
        CompareOp::Lt => (compare.lhs, compare.rhs),
        CompareOp::Gt => (compare.rhs, compare.lhs),
        _ => return None,
    };
    let (index, offset) = index_and_offset(func, axes, small)?;
    let lane = loop_of(func, index)?;
    if uniform(func, large) != lane.high {
        return None;
    }
    // From below, an unsigned sum could wrap.
    let holds = offset.low >= 0 && offset.high <= reach(axes, lane);
    holds.then(|| Outcome::constant(Const::Int(1)))
}

/// The most that may be added to the index without reaching the end: 0, or more where the last step ends there exactly.
fn reach(axes: &Axes, lane: &For) -> i128 {
    let Some(step) = axes.constant(lane.step).filter(|s| *s > 0) else {
        return 0;
    };
    // Both ends multiples of the step: the last index is one whole step below the end.
    let is_whole = |v: Value| {
        axes.constant(v)
            .map_or(i128::from(axes.divisor(v)) % step == 0, |c| c % step == 0)
    };
    if is_whole(lane.low) && is_whole(lane.high) {
        step - 1
    } else {
        0
    }
}

/// A value as an index of a loop and what is added to it.
fn index_and_offset(func: &Func, axes: &Axes, value: Value) -> Option<(Value, Range)> {
    let base = uniform(func, value);
    if loop_of(func, base).is_some() {
        return Some((base, Range::new(0, 0)));
    }
    let Op::Binary(add) = func.op(func.def_inst(base)?) else {
        return None;
    };
    if add.op != BinaryOp::Add {
        return None;
    }
    let sides = [(add.lhs, add.rhs), (add.rhs, add.lhs)];
    sides.into_iter().find_map(|(index, offset)| {
        let index = uniform(func, index);
        loop_of(func, index)?;
        Some((index, axes.range(offset)?))
    })
}

/// The scalar that every element is, seen through ops that only repeat and move.
fn uniform(func: &Func, value: Value) -> Value {
    let mut at = value;
    while let Some(inst) = func.def_inst(at) {
        let Some(moved) = func.op(inst).rules().moved_operand() else {
            return at;
        };
        at = moved;
    }
    at
}

/// The loop that a value is the index of.
fn loop_of(func: &Func, value: Value) -> Option<&For> {
    let ValueDef::Param(region, 0) = func.def(value) else {
        return None;
    };
    flow::counted(func.op(func.region(region).owner.expand()?))
}
