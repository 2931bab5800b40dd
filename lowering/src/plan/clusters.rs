//! The shared memory of another CTA is there only from when that one has begun until it ends: the cluster must meet before
//! it is touched first, and after it is touched last.

use gluon_lang::diag::{Code, Diagnostic, Diagnostics};
use gluon_lang::entity::Inst;
use gluon_lang::ir::Func;
use gluon_lang::ops::{Access, Op};

/// Reports accesses to other CTAs' memory with no meeting of the cluster before or behind them in the kernel's text.
pub(super) fn check(func: &Func, found: &mut Diagnostics) {
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
