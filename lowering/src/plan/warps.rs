//! `plan-warps`: how many registers the warps of each partition have.
//!
//! All warps of a CTA start with the same number. In `warp_specialize` workers release registers and the warps of `main`
//! take them (PTX ISA 9.7.19.5, `setmaxnreg`). Without a budget of the author's, workers keep what they start with, and
//! `main` gets all that is left.

use diag::{Code, Diagnostic, Diagnostics};
use ir::Func;
use ir::entity::Inst;
use ir::ops::flow;
use ir::ops::warps::WarpSpecialize;
use layout::{Dims, Layout};
use target::RegisterLimits;

use crate::analysis::pressure;

/// Threads of a warpgroup.
const THREADS_OF_GROUP: u32 = 128;

/// Fills in the budgets, and reports a partition that cannot do with its own, and a product that no thread can hold.
pub fn run(func: &mut Func, found: &mut Diagnostics) {
    check_products(func, found);
    let parting = func
        .region(func.body)
        .insts
        .iter()
        .copied()
        .find(|inst| parts(func, *inst).is_some());
    let Some(inst) = parting else {
        check_whole(func, found);
        return;
    };
    let Some(mut op) = parts(func, inst).cloned() else {
        return;
    };
    let start = op.registers_at_launch(func);
    op.registers = budgets(&func.target.registers, &op, start);
    func.max_registers = Some(start);
    check_sum(func, inst, &op, found);
    check(func, inst, &op, found);
    func.replace_op(inst, op);
}

fn parts(func: &Func, inst: Inst) -> Option<&WarpSpecialize> {
    flow::partitions(func.op(inst))
}

fn budgets(limits: &RegisterLimits, op: &WarpSpecialize, start: u32) -> Dims {
    let is_left_open = op.registers.iter().all(|r| *r == 0);
    let mut registers = op.registers.clone();
    for budget in registers.iter_mut().skip(1).filter(|r| **r == 0) {
        *budget = start;
    }
    if registers[0] == 0 {
        registers[0] = if is_left_open {
            start
        } else {
            what_is_left(limits, op, &registers, start)
        };
    }
    registers
}

/// Registers of the workers' warpgroups, each with the largest budget among its warps.
fn of_workers(op: &WarpSpecialize, registers: &Dims) -> u32 {
    let mut of_group = [0_u32; 8];
    for partition in 1..op.warps.rank() {
        let first = op.first_warp(partition);
        for warp in first..first + op.warps[partition] {
            let most = &mut of_group[warp as usize / 4];
            *most = (*most).max(registers[partition]);
        }
    }
    of_group.iter().map(|r| r * THREADS_OF_GROUP).sum()
}

/// What the workers' warpgroups leave for each thread of the kernel's own warps.
fn what_is_left(limits: &RegisterLimits, op: &WarpSpecialize, registers: &Dims, start: u32) -> u32 {
    let taken = of_workers(op, registers);
    let left = (start * op.total_warps() * 32).saturating_sub(taken) / (op.warps[0] * 32);
    let left = left / limits.unit * limits.unit;
    left.clamp(limits.least_budget, limits.most_budget)
}

/// What a thread needs besides the accumulators of one `wgmma`, as ptxas counts it (its fatal note C7602).
const BESIDES_PRODUCT: u32 = 26;

/// ptxas assembles no `wgmma` whose registers are more than all warps start with, whatever they take later.
fn check_products(func: &Func, found: &mut Diagnostics) {
    let threads = func.launch_warps() * 32;
    let most = func.registers_of_thread(threads);
    for inst in func.walk() {
        let Some(accumulator) = func.op(inst).rules().started_product() else {
            continue;
        };
        let ty = func.ty(accumulator);
        let Some(acc) = ty.as_in_flight().or_else(|| ty.as_tensor()) else {
            continue;
        };
        let Layout::Wgmma(layout) = &acc.layout else {
            continue;
        };
        let registers = layout.n() / 2 * acc.elem.bits() / 32 + BESIDES_PRODUCT;
        if registers <= most {
            continue;
        }
        let columns = layout.n();
        let message = format!(
            "one `wgmma` of {columns} columns takes {registers} registers, and each of {threads} threads is launched with {most}"
        );
        found.push(
            Diagnostic::error(Code::RegisterBudget, func.place(inst), message)
                .related(
                    func.value_place(accumulator),
                    format!("the accumulator is {}", acc.layout),
                )
                .help(format!(
                    "use instructions of {} columns, or fewer warps",
                    columns / 2
                )),
        );
    }
}

/// Without partitions, the tiles of a kernel must fit what every thread has. It is an error in a kernel with products: nothing of an
/// accumulator may be spilled. Others run, slowly, so they are warned of.
fn check_whole(func: &Func, found: &mut Diagnostics) {
    let multiplies = func
        .walk()
        .into_iter()
        .any(|inst| func.op(inst).rules().started_product().is_some());
    let budget = func.registers_of_thread(func.threads());
    let peak = pressure::of_region(func, func.body);
    let Some(at) = peak.at.filter(|_| peak.registers > budget) else {
        return;
    };
    let message = format!(
        "the live tiles take {} registers per thread, and each thread has {budget}",
        peak.registers
    );
    let wrong = Diagnostic::error(Code::RegisterBudget, func.place(at), message)
        .labelled("the most tiles are live here")
        .help("give the kernel more warps, or make its tiles smaller");
    if multiplies {
        found.push(wrong);
    } else {
        let note = "ptxas spills what does not fit to local memory, each time that it is needed";
        found.push(wrong.warning().note(note));
    }
}

/// All warpgroups together have what the CTA is launched with.
fn check_sum(func: &Func, inst: Inst, op: &WarpSpecialize, found: &mut Diagnostics) {
    let workers = of_workers(op, &op.registers);
    let own = op.warps[0] * 32 * op.registers[0];
    let all = op.registers_of_cta(func);
    if own + workers <= all {
        return;
    }
    let message = format!(
        "the workers take {workers} registers and the kernel's own warps {own}, and the CTA is launched with {all}"
    );
    found.push(
        Diagnostic::error(Code::RegisterBudget, func.place(inst), message)
            .help("give the workers fewer registers: `Warps(1).registers(40)`"),
    );
}

/// Tiles that are alive at one moment must fit, whatever else is needed.
fn check(func: &Func, inst: Inst, op: &WarpSpecialize, found: &mut Diagnostics) {
    for (at, &region) in op.partitions.0.iter().enumerate() {
        let budget = op.registers[at].min(func.target.registers.per_thread);
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
            "the live tiles of {who} take {} registers per thread, and their budget is {budget}",
            peak.registers
        );
        let place = func.place(peak.at.unwrap_or(inst));
        let d = Diagnostic::error(Code::RegisterBudget, place, message)
            .labelled("the most tiles are live here");
        found.push(
            d.related(func.place(inst), "the budgets are given here")
                .help("give this partition more warps or registers, or make its tiles smaller"),
        );
    }
}
