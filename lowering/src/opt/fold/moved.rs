//! What moves elements that are all equal: the same number in another shape or layout.

use gluon_lang::entity::Value;
use gluon_lang::ir::Func;
use gluon_lang::ops::Op;
use gluon_lang::ops::create::{Constant, Splat};

use super::Outcome;

/// A splat or constant, seen through ops that only move elements, is made in its last shape and layout at once.
pub(super) fn uniform(func: &Func, op: &Op) -> Option<Outcome> {
    let moved: Value = match op {
        Op::Splat(op) => op.value,
        Op::ExpandDims(op) => op.operand,
        Op::Broadcast(op) => op.operand,
        Op::Reshape(op) => op.operand,
        Op::Permute(op) => op.operand,
        Op::ConvertLayout(op) => op.operand,
        _ => return None,
    };
    match func.op(func.def_inst(moved)?) {
        Op::Constant(c) => Some(Outcome::Op(Constant { value: c.value }.into())),
        Op::Splat(s) => Some(Outcome::Op(Splat { value: s.value }.into())),
        _ => None,
    }
}
