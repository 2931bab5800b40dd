//! Named barriers: there are enough of them, and as many threads arrive at each as it counts.

use std::collections::BTreeMap;

use crate::Func;
use crate::entity::Inst;
use crate::ops::flow;
use crate::ops::sync::NamedBarrier;
use crate::ops::warps::WarpSpecialize;
use diag::{Code, Diagnostic, Diagnostics};

/// Who arrives at a barrier: an instruction of a partition.
#[derive(Clone, Copy)]
struct Arrival {
    inst: Inst,
    partition: usize,
    barrier: NamedBarrier,
}

pub(super) fn check(func: &Func, all_insts: &[Inst], found: &mut Diagnostics) {
    let is_named = |inst: &Inst| func.op(*inst).rules().named_barrier().is_some();
    if !all_insts.iter().any(is_named) {
        return;
    }
    let mut all: BTreeMap<u32, Vec<Arrival>> = BTreeMap::new();
    let mut inside = Vec::new();
    let specialize = all_insts
        .iter()
        .find_map(|inst| flow::partitions(func.op(*inst)));
    for (partition, &region) in specialize
        .iter()
        .flat_map(|op| op.partitions.0.iter().enumerate())
    {
        let mut insts = Vec::new();
        func.walk_region(region, &mut insts);
        for &inst in &insts {
            if let Some(barrier) = func.op(inst).rules().named_barrier() {
                let arrival = Arrival {
                    inst,
                    partition,
                    barrier,
                };
                all.entry(barrier.number).or_default().push(arrival);
            }
        }
        inside.extend(insts);
    }
    outside(func, all_insts, &inside, found);
    if let Some(specialize) = specialize {
        for arrivals in all.values() {
            check_one(func, specialize, arrivals, found);
        }
    }
}

/// Before `warp_specialize`, the workers' warps run along with the kernel's own.
fn outside(func: &Func, all: &[Inst], inside: &[Inst], found: &mut Diagnostics) {
    for &inst in all {
        if func.op(inst).rules().named_barrier().is_some() && !inside.contains(&inst) {
            let d = Diagnostic::error(
                Code::NamedBarrier,
                func.place(inst),
                "a named barrier synchronizes partitions of `warp_specialize`, and this is outside of them",
            );
            found.push(d.help("use it inside `.main(..)` or `.worker(..)`; elsewhere all threads of the CTA synchronize at a `cta_barrier()`, which the compiler inserts for shared memory"));
        }
    }
}

fn check_one(
    func: &Func,
    specialize: &WarpSpecialize,
    arrivals: &[Arrival],
    found: &mut Diagnostics,
) {
    let first = arrivals[0];
    let wrong = |at: Arrival, message: String| {
        Diagnostic::error(Code::NamedBarrier, func.place(at.inst), message)
    };
    let (own, number) = (specialize.own_barriers(), first.barrier.number);
    let most = func.target.cta.barriers;
    if number >= most.saturating_sub(own) {
        let d = wrong(
            first,
            format!(
                "this is named barrier {}, and of the {most} barriers of a CTA {own} are reserved: one for all threads, one for each partition",
                u64::from(number) + 1
            ),
        );
        found.push(d.help("use an `Mbarrier`, whose number only shared memory limits"));
        return;
    }
    let threads = first.barrier.threads;
    if let Some(other) = arrivals.iter().find(|c| c.barrier.threads != threads) {
        let message = format!("this barrier counts {} threads here", other.barrier.threads);
        let d = wrong(*other, message);
        found.push(d.related(func.place(first.inst), format!("and {threads} here")));
        return;
    }
    let of = |partition: usize| specialize.warps[partition] * 32;
    if let Some(large) = arrivals.iter().find(|c| of(c.partition) > threads) {
        let d = wrong(
            *large,
            format!(
                "{} threads of this partition arrive at a barrier that counts {threads}",
                of(large.partition)
            ),
        );
        found.push(
            d.help("count the threads of all partitions that arrive, with or without waiting"),
        );
        return;
    }
    let mut partitions: Vec<usize> = arrivals.iter().map(|c| c.partition).collect();
    partitions.sort_unstable();
    partitions.dedup();
    let arriving: u32 = partitions.iter().map(|at| of(*at)).sum();
    if arriving < threads {
        let d = wrong(
            first,
            format!(
                "this barrier counts {threads} threads and never completes: the partitions that arrive at it have {arriving}"
            ),
        );
        found.push(d.help(format!(
            "count {arriving}, or let another partition `sync` or `arrive` too"
        )));
    }
}
