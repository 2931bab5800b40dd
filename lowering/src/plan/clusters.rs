//! The shared memory of another CTA is there only from when that one has begun until it ends: the cluster must meet before
//! it is touched first, and after it is touched last.

use gluon_lang::diag::{Code, Diagnostic, Diagnostics};
use gluon_lang::entity::Inst;
use gluon_lang::ir::Func;
use gluon_lang::layout::Dims;
use gluon_lang::ops::cluster::{ClusterArrive, ClusterWait, ExchangeInit};
use gluon_lang::ops::{Access, Op, Types, flow};

use crate::emit::scratch::{self, Meeting};

/// Reports accesses to other CTAs' memory with no meeting of the cluster before or behind them in the kernel's text, and
/// meetings of the cluster that only some of its threads would come to.
pub(super) fn check(func: &Func, found: &mut Diagnostics) {
    if !func.has_cluster() {
        return;
    }
    check_presence(func, found);
    check_partitions(func, found);
}

fn check_presence(func: &Func, found: &mut Diagnostics) {
    let insts = func.walk();
    let is_remote = |inst: &Inst| {
        let accesses = func.op(*inst).rules().shared_accesses();
        let mut accesses = accesses.iter();
        accesses.any(|(_, a)| {
            matches!(
                a,
                Access::RemoteRead | Access::RemoteWrite | Access::AsyncRemoteWrite
            )
        })
    };
    let meets = |inst: &Inst| matches!(func.op(*inst), Op::ClusterBarrier(_) | Op::ClusterWait(_));
    let speaks = |inst: &Inst| func.op(*inst).rules().speaks_to_other_ctas();
    if let Some(first) = insts.iter().position(speaks)
        && !insts[..first].iter().any(meets)
    {
        let message = "another CTA's barrier is touched before the cluster has met: that CTA need not have made it";
        found.push(report(func, insts[first], message, "before this"));
    }
    let (Some(first), Some(last)) = (
        insts.iter().position(is_remote),
        insts.iter().rposition(is_remote),
    ) else {
        return;
    };
    if !insts[..first].iter().any(meets) {
        let message = "another CTA's shared memory is touched before the cluster has met: that CTA need not have begun";
        found.push(report(func, insts[first], message, "before this"));
    }
    if !insts[last..].iter().any(meets) {
        let message = "the kernel ends without another meeting of the cluster: a CTA may end while others still touch its shared memory";
        found.push(report(func, insts[last], message, "after this"));
    }
}

fn report(func: &Func, inst: Inst, message: &str, place: &str) -> Diagnostic {
    let d = Diagnostic::error(Code::Race, func.place(inst), message);
    d.help(format!(
        "put a `cluster_barrier()` {place}; `cluster_barrier_relaxed()` is enough if no data is handed over"
    ))
}

/// A meeting of the cluster counts all threads of all its CTAs (PTX ISA 9.7.13.3), and a partition has only some of them.
fn check_partitions(func: &Func, found: &mut Diagnostics) {
    for parting in func.walk() {
        if !flow::is_parallel(func.op(parting)) {
            continue;
        }
        let mut inner = Vec::new();
        for region in func.op(parting).regions() {
            func.walk_region(region, &mut inner);
        }
        for inst in inner.into_iter().filter(|inst| meets_cluster(func, *inst)) {
            let name = func.op(inst).rules().mnemonic();
            let message = format!(
                "`{name}` waits for all threads of the cluster, and this partition has only some of them"
            );
            let help = match func.op(inst) {
                Op::ConvertLayout(_) => {
                    "convert before the warps part, or between layouts that keep each CTA's part where it is"
                }
                Op::Gather(_) | Op::Sort(_) => {
                    "do it before the warps part, or along a dimension that the CTAs do not split"
                }
                _ => {
                    "meet before the warps part; partitions of several CTAs speak through barriers in shared memory (`barrier.in_cta(rank).arrive()`)"
                }
            };
            found.push(
                Diagnostic::error(Code::MisplacedPartition, func.place(inst), message)
                    .related(func.place(parting), "the warps part here")
                    .help(help),
            );
        }
    }
}

/// Does the instruction wait for all threads of the cluster, or announce that some have come?
fn meets_cluster(func: &Func, inst: Inst) -> bool {
    match func.op(inst) {
        Op::ClusterBarrier(_) | Op::ClusterArrive(_) | Op::ClusterWait(_) => true,
        op => {
            op.rules().scratch().is_some() && scratch::need(func, inst).meeting == Meeting::Cluster
        }
    }
}

/// Has the barriers of all exchanges between CTAs made at the beginning of the kernel, and lets the cluster meet before the
/// first exchange. It arrives at once and waits late, so that a CTA does not wait for another one to begin as long as it
/// has something to do. No data is handed over, so that the meeting orders nothing.
pub(super) fn open_exchanges(func: &mut Func) {
    if !func.has_cluster() {
        return;
    }
    let mut barriers: Vec<u32> = Vec::new();
    for inst in func.walk() {
        let start = func.op(inst).rules().scratch().unwrap_or_default().start;
        let own = scratch::exchange_barriers(func, inst);
        barriers.extend(own.into_iter().map(|at| start + at));
    }
    if barriers.is_empty() {
        return;
    }
    let old = func.region(func.body).insts.clone();
    let Some(first) = old.iter().position(|inst| needs_cluster(func, *inst)) else {
        return;
    };
    let loc = func.loc(old[first]);
    let barriers = Dims::from(barriers);
    let none = Types::new;
    let init = func.make_inst(Op::from(ExchangeInit { barriers }), none(), loc);
    let arrive = func.make_inst(Op::from(ClusterArrive { is_relaxed: true }), none(), loc);
    let wait = func.make_inst(Op::from(ClusterWait {}), none(), loc);
    let mut new = vec![init, arrive];
    new.extend_from_slice(&old[..first]);
    new.push(wait);
    new.extend_from_slice(&old[first..]);
    func.set_insts(func.body, new);
}

/// Does the instruction, or one in its regions, send to other CTAs or meet them?
fn needs_cluster(func: &Func, inst: Inst) -> bool {
    let mut insts = vec![inst];
    for region in func.op(inst).regions() {
        func.walk_region(region, &mut insts);
    }
    insts
        .into_iter()
        .any(|inst| meets_cluster(func, inst) || scratch::reaches_peers(func, inst))
}
