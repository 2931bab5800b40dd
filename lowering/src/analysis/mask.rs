//! Masks that end: along a dimension they hold up to some element and not after it, as `index < bound` does.
//!
//! A run of such a mask holds whole where its last element holds, which saves every other comparison of the run.

use gluon_lang::entity::Value;
use gluon_lang::ir::Func;
use gluon_lang::ops::Op;
use gluon_lang::ops::arith::{BinaryOp, Compare, CompareOp};

use super::axis::Axes;

/// Does every aligned run of `len` elements of `mask` along `dim` hold up to some element and not after it?
pub fn ends_within_runs(func: &Func, axes: &Axes, mask: Value, dim: usize, len: u32) -> bool {
    if axes.constancy(mask, dim) >= len {
        return true;
    }
    let Some(inst) = func.def_inst(mask) else {
        return false;
    };
    match func.op(inst) {
        Op::Compare(compare) => compare_ends(axes, compare, dim, len),
        Op::Binary(both) if both.op == BinaryOp::And => {
            ends_within_runs(func, axes, both.lhs, dim, len)
                && ends_within_runs(func, axes, both.rhs, dim, len)
        }
        Op::Broadcast(broadcast) => ends_within_runs(func, axes, broadcast.operand, dim, len),
        Op::ExpandDims(expand) => {
            let axis = expand.axis as usize;
            let inner = if dim < axis { dim } else { dim - 1 };
            // Along the new dimension there is one element, which the constancy above has covered.
            dim != axis && ends_within_runs(func, axes, expand.operand, inner, len)
        }
        _ => false,
    }
}

fn compare_ends(axes: &Axes, compare: &Compare, dim: usize, len: u32) -> bool {
    let (rising, bound) = match compare.op {
        CompareOp::Lt | CompareOp::Le => (compare.lhs, compare.rhs),
        CompareOp::Gt | CompareOp::Ge => (compare.rhs, compare.lhs),
        CompareOp::Eq | CompareOp::Ne => return false,
    };
    axes.contiguity(rising, dim) >= len && axes.constancy(bound, dim) >= len
}
