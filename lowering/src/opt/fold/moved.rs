//! What moves elements that are all equal: the same number in another shape or layout.

use ir::Func;
use ir::ops::Op;

use super::outcome::Outcome;

/// A splat or constant, seen through ops that only move elements, is made in its last shape and layout at once.
pub(super) fn uniform(func: &Func, op: &Op) -> Option<Outcome> {
    let moved = op.rules().moved_operand()?;
    let uniform = func.op(func.def_inst(moved)?).rules().uniform()?;
    Some(Outcome::Op(uniform.into()))
}
