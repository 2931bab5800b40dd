//! How many passes a layout conversion takes through shared memory. A conversion whose tile is larger than its scratch takes several passes,
//! with two CTA barriers each. It gets less scratch where the kernel would not fit otherwise, and more where occupancy stays the same.
//!
//! Matches on ops: only `convert_layout` has a choice of scratch.

use ir::Func;
use ir::entity::Inst;
use ir::ops::layout::ConvertLayout;
use ir::ops::{Op, Scratch};
use layout::convert::{Conversion, Limits};

use super::shared::Need;
use crate::analysis::scratch::{Scratches, conversion};

/// Limits of the scratch of one conversion, in bytes, that are tried in turn where a kernel does not fit.
pub(super) const FEWER_BYTES: [u32; 4] = [16 << 10, 8 << 10, 4 << 10, 2 << 10];

/// Limits the scratch of each conversion to `limit` bytes; `false` if none needs more.
pub(super) fn reduce(
    func: &mut Func,
    scratches: &mut Scratches,
    needs: &[Need],
    limit: u32,
) -> bool {
    let mut is_changed = false;
    for need in needs.iter().filter(|need| need.block.bytes > limit) {
        if matches!(func.op(need.inst), Op::ConvertLayout(_)) {
            allow(func, scratches, need.inst, limit);
            is_changed = true;
        }
    }
    is_changed
}

/// The conversions that take several passes, with the bytes of their tiles.
pub(super) fn of_several(func: &Func, needs: &[Need]) -> Vec<(Inst, u32)> {
    // One of several passes uses more than half of the limit.
    let least = Limits::of(func.target).scratch_bytes / 2;
    let large = needs.iter().filter(|need| need.block.bytes > least);
    let insts = large.map(|need| need.inst);
    let several = insts.filter_map(|inst| match func.op(inst) {
        Op::ConvertLayout(op) => Some((inst, bytes_of_all_passes(func, inst, op)?)),
        _ => None,
    });
    several.collect()
}

/// Raises the limit of these conversions to `limit` bytes, for fewer passes.
pub(super) fn widen(
    func: &mut Func,
    scratches: &mut Scratches,
    conversions: &[(Inst, u32)],
    limit: u32,
) {
    for (inst, bytes) in conversions {
        allow(func, scratches, *inst, limit.min(*bytes));
    }
}

fn allow(func: &mut Func, scratches: &mut Scratches, inst: Inst, bytes: u32) {
    let scratch = Scratch { start: 0, bytes };
    func.op_mut(inst).rules_mut().set_scratch(scratch);
    scratches.renew(func, inst);
}

fn bytes_of_all_passes(func: &Func, inst: Inst, op: &ConvertLayout) -> Option<u32> {
    let (from, to) = (func.ty(op.operand), func.ty(func.result(inst)));
    let plan = conversion::plan(func.target, op, from.as_tensor()?, to.as_tensor()?).ok()?;
    match plan.conversion {
        Conversion::Shared(plan) if plan.exchanges.len() > 1 => {
            Some(plan.scratch_bytes * plan.exchanges.len() as u32)
        }
        _ => None,
    }
}
