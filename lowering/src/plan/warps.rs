//! `plan-warps`: how many registers the warps of each partition have.
//!
//! All warps of a CTA start with the same number. Where warps part, workers give registers up and the kernel's own warps
//! take them (PTX ISA, `setmaxnreg`). What the author left open is filled in: workers keep what they start with, and the
//! kernel's own warps get all that is left.

use gluon_lang::diag::{Code, Diagnostic, Diagnostics};
use gluon_lang::entity::Inst;
use gluon_lang::ir::Func;
use gluon_lang::layout::Dims;
use gluon_lang::ops::Op;
use gluon_lang::ops::warps::WarpSpecialize;

use crate::analysis::pressure;

/// Registers of an SM, all of which one CTA may have, and the most of one thread (CUDA C++ guide, compute capability 9.0).
const REGISTERS_OF_CTA: u32 = 65_536;
const MAX_REGISTERS: u32 = 255;
/// `setmaxnreg` counts in eights, from 24 to 256.
const UNIT: u32 = 8;
const MIN_BUDGET: u32 = 24;
const MAX_BUDGET: u32 = 256;
const THREADS_OF_GROUP: u32 = 128;

/// Fills in the budgets, and reports a partition that cannot do with its own.
pub fn run(func: &mut Func, found: &mut Diagnostics) {
    let parting = func
        .region(func.body)
        .insts
        .iter()
        .copied()
        .find(|inst| parts(func, *inst).is_some());
    let Some(inst) = parting else { return };
    let Some(mut op) = parts(func, inst).cloned() else {
        return;
    };
    let start = func.max_registers.unwrap_or_else(|| initial(&op));
    op.registers = budgets(&op, start);
    func.max_registers = Some(start);
    check(func, inst, &op, found);
    func.replace_op(inst, op);
}

fn parts(func: &Func, inst: Inst) -> Option<&WarpSpecialize> {
    match func.op(inst) {
        Op::WarpSpecialize(op) => Some(op),
        _ => None,
    }
}

/// What every warp starts with: an equal share of all.
fn initial(op: &WarpSpecialize) -> u32 {
    let threads = op.total_warps() * 32;
    (REGISTERS_OF_CTA / threads / UNIT * UNIT).clamp(MIN_BUDGET, MAX_REGISTERS / UNIT * UNIT)
}

fn budgets(op: &WarpSpecialize, start: u32) -> Dims {
    let is_left_open = op.registers.iter().all(|r| *r == 0);
    let mut registers = op.registers.clone();
    for budget in registers.iter_mut().skip(1).filter(|r| **r == 0) {
        *budget = start;
    }
    if registers[0] == 0 {
        registers[0] = if is_left_open {
            start
        } else {
            what_is_left(op, &registers)
        };
    }
    registers
}

/// What the workers' warpgroups leave for each thread of the kernel's own warps.
fn what_is_left(op: &WarpSpecialize, registers: &Dims) -> u32 {
    let mut of_group = [0_u32; 8];
    for partition in 1..op.warps.rank() {
        let first = op.first_warp(partition);
        for warp in first..first + op.warps[partition] {
            // A warpgroup has the largest budget among its warps.
            let most = &mut of_group[warp as usize / 4];
            *most = (*most).max(registers[partition]);
        }
    }
    let taken: u32 = of_group.iter().map(|r| r * THREADS_OF_GROUP).sum();
    let left = REGISTERS_OF_CTA.saturating_sub(taken) / (op.warps[0] * 32);
    (left / UNIT * UNIT).clamp(MIN_BUDGET, MAX_BUDGET)
}

/// Tiles that are alive at one moment must fit, whatever else is needed.
fn check(func: &Func, inst: Inst, op: &WarpSpecialize, found: &mut Diagnostics) {
    for (at, &region) in op.partitions.0.iter().enumerate() {
        let budget = op.registers[at].min(MAX_REGISTERS);
        let peak = pressure::of_region(func, region);
        if peak.registers <= budget {
            continue;
        }
        let who = if at == 0 {
            "the kernel's own warps".to_owned()
        } else {
            format!("worker {at}")
        };
        let message = format!(
            "{who} hold tiles of {} registers per thread at once, and have a budget of {budget}",
            peak.registers
        );
        let place = func.place(peak.at.unwrap_or(inst));
        let d = Diagnostic::error(Code::RegisterBudget, place, message)
            .labelled("here most tiles are alive");
        found.push(
            d.related(func.place(inst), "the budgets are given here")
                .help("give this partition more warps or registers, or make its tiles smaller"),
        );
    }
}
