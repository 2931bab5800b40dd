//! What the CTAs of a cluster do together: it stands where all their threads execute it, and its mbarriers exist before the first of them sends.
//!
//! Matches on ops: the help names what the author wrote.

use diag::{Code, Diagnostic, Diagnostics};
use ir::Func;
use ir::entity::Inst;
use ir::ops::cluster::{ClusterArrive, ClusterWait, ExchangeInit};
use ir::ops::{Op, Types, flow};
use layout::Dims;

use crate::analysis::scratch::{BarrierScope, Scratches};

/// Reports ops in partitions that synchronize all threads of the cluster within their own code: only some of these threads execute it. The
/// barriers of the cluster themselves may stand there: each thread arrives for itself, and threads that have exited count as arrived
/// (PTX ISA 9.7.13.4).
pub(super) fn check(func: &Func, scratches: &Scratches, found: &mut Diagnostics) {
    if func.has_cluster() {
        check_partitions(func, scratches, found);
    }
}

fn check_partitions(func: &Func, scratches: &Scratches, found: &mut Diagnostics) {
    for parting in func.walk() {
        if !flow::has_partitions(func.op(parting)) {
            continue;
        }
        let mut inner = Vec::new();
        for region in func.op(parting).regions() {
            func.walk_region(region, &mut inner);
        }
        let exchanges = |inst: &Inst| scratches.need(*inst).scope == BarrierScope::Cluster;
        for inst in inner.into_iter().filter(exchanges) {
            let name = func.op(inst).rules().mnemonic();
            let message = format!(
                "`{name}` waits at a barrier of all threads of the cluster, and this partition has only some of them"
            );
            let help = match func.op(inst) {
                Op::ConvertLayout(_) => {
                    "convert before `warp_specialize`, or use layouts with the same CTA bases"
                }
                _ => {
                    "do it before `warp_specialize`, or along a dimension that the CTAs do not split"
                }
            };
            found.push(
                Diagnostic::error(Code::MisplacedPartition, func.place(inst), message)
                    .related(func.place(parting), "the partitions begin here")
                    .help(help),
            );
        }
    }
}

/// Does the instruction arrive at a barrier of the cluster or wait there, or exchange data with other CTAs?
fn synchronizes_cluster(func: &Func, scratches: &Scratches, inst: Inst) -> bool {
    func.op(inst).rules().synchronizes_cluster() || scratches.need(inst).reaches_peers()
}

/// Initializes the mbarriers of all exchanges between CTAs at the beginning of the kernel, and inserts a cluster barrier before
/// the first exchange. Threads arrive at once and wait late, so that a CTA does not wait for another one to begin as long as
/// it has something to do. No data is transferred, so that the barrier is relaxed.
pub(super) fn open_exchanges(func: &mut Func, scratches: &Scratches) {
    if !func.has_cluster() {
        return;
    }
    let mut barriers: Vec<u32> = Vec::new();
    for inst in func.walk() {
        let start = func.op(inst).rules().scratch().unwrap_or_default().start;
        let own = scratches.need(inst).mbarriers.iter();
        barriers.extend(own.map(|at| start + at));
    }
    if barriers.is_empty() {
        return;
    }
    let old = func.region(func.body).insts.clone();
    let Some(first) = old
        .iter()
        .position(|inst| needs_cluster(func, scratches, *inst))
    else {
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

/// Does the instruction, or one in its regions, send to other CTAs or synchronize with them?
fn needs_cluster(func: &Func, scratches: &Scratches, inst: Inst) -> bool {
    let mut insts = vec![inst];
    for region in func.op(inst).regions() {
        func.walk_region(region, &mut insts);
    }
    insts
        .into_iter()
        .any(|inst| synchronizes_cluster(func, scratches, inst))
}
