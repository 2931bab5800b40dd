//! Barriers that partitions share: there are enough of them, and as many threads come to each as it counts.

use std::collections::BTreeMap;

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::entity::Inst;
use crate::ir::Func;
use crate::ops::Op;
use crate::ops::sync::{BARRIERS_OF_CTA, NamedBarrier};
use crate::ops::warps::WarpSpecialize;

/// Who comes to a barrier: in which instruction of which partition.
#[derive(Clone, Copy)]
struct Comer {
    inst: Inst,
    partition: usize,
    barrier: NamedBarrier,
}

pub(super) fn check(func: &Func, all_insts: &[Inst], found: &mut Diagnostics) {
    let is_named = |inst: &Inst| func.op(*inst).rules().named_barrier().is_some();
    if !all_insts.iter().any(is_named) {
        return;
    }
    let mut all: BTreeMap<u32, Vec<Comer>> = BTreeMap::new();
    let mut inside = Vec::new();
    let parting = all_insts.iter().find_map(|inst| match func.op(*inst) {
        Op::WarpSpecialize(op) => Some(op),
        _ => None,
    });
    for (partition, &region) in parting
        .iter()
        .flat_map(|op| op.partitions.0.iter().enumerate())
    {
        let mut insts = Vec::new();
        func.walk_region(region, &mut insts);
        for &inst in &insts {
            if let Some(barrier) = func.op(inst).rules().named_barrier() {
                let comer = Comer {
                    inst,
                    partition,
                    barrier,
                };
                all.entry(barrier.number).or_default().push(comer);
            }
        }
        inside.extend(insts);
    }
    outside(func, all_insts, &inside, found);
    if let Some(parting) = parting {
        for comers in all.values() {
            check_one(func, parting, comers, found);
        }
    }
}

/// Before the warps part, the workers' warps run along with the kernel's own.
fn outside(func: &Func, all: &[Inst], inside: &[Inst], found: &mut Diagnostics) {
    for &inst in all {
        if func.op(inst).rules().named_barrier().is_some() && !inside.contains(&inst) {
            let d = Diagnostic::error(
                Code::NamedBarrier,
                func.place(inst),
                "a named barrier is for partitions, and the warps have not parted here",
            );
            found.push(d.help("use it inside `.main(..)` or `.worker(..)`; elsewhere, barriers are placed where they are needed"));
        }
    }
}

fn check_one(func: &Func, parting: &WarpSpecialize, comers: &[Comer], found: &mut Diagnostics) {
    let first = comers[0];
    let wrong = |at: Comer, message: String| {
        Diagnostic::error(Code::NamedBarrier, func.place(at.inst), message)
    };
    let (own, number) = (parting.own_barriers(), first.barrier.number);
    if own + number >= BARRIERS_OF_CTA {
        let d = wrong(
            first,
            format!(
                "this is named barrier {}, and of the {BARRIERS_OF_CTA} of a CTA {own} are taken: one of all threads, one of each partition",
                number + 1
            ),
        );
        found.push(d.help("take an `Mbarrier`, of which there are as many as shared memory holds"));
        return;
    }
    let threads = first.barrier.threads;
    if let Some(other) = comers.iter().find(|c| c.barrier.threads != threads) {
        let message = format!("this barrier counts {} threads here", other.barrier.threads);
        let d = wrong(*other, message);
        found.push(d.related(func.place(first.inst), format!("and {threads} here")));
        return;
    }
    let of = |partition: usize| parting.warps[partition] * 32;
    if let Some(large) = comers.iter().find(|c| of(c.partition) > threads) {
        let d = wrong(
            *large,
            format!(
                "{} threads of this partition come to a barrier that counts {threads}",
                of(large.partition)
            ),
        );
        found.push(d.help("count the threads of all partitions that come, those that wait and those that only arrive"));
        return;
    }
    let mut partitions: Vec<usize> = comers.iter().map(|c| c.partition).collect();
    partitions.sort_unstable();
    partitions.dedup();
    let coming: u32 = partitions.iter().map(|at| of(*at)).sum();
    if coming < threads {
        let d = wrong(
            first,
            format!(
                "this barrier counts {threads} threads and never completes: the partitions that come to it have {coming}"
            ),
        );
        found.push(d.help(format!(
            "count {coming}, or let another partition `sync` or `arrive` too"
        )));
    }
}
