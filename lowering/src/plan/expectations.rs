//! Checks of mbarriers without running the kernel: some copy completes the bytes that are expected, copies are expected, and
//! some thread waits for them.

use diag::{Code, Diagnostic, Diagnostics};
use ir::Func;
use ir::entity::{Inst, Value};
use ir::ops::{Op, SharedAccess};

use crate::analysis::shared::Views;

/// Reports every mbarrier whose phases can never complete, or for whose completion no thread waits.
pub(super) fn check(func: &Func, views: &Views, found: &mut Diagnostics) {
    let insts = func.walk();
    let users = |wanted: &dyn Fn(&Op) -> Option<Value>| -> Vec<(Inst, Value)> {
        let of_inst = |&inst: &Inst| wanted(func.op(inst)).map(|barrier| (inst, barrier));
        insts.iter().filter_map(of_inst).collect()
    };
    let accessing = |op: &Op, wanted: SharedAccess| {
        let accesses = op.rules().shared_accesses();
        let access = accesses.iter().find(|(_, access)| *access == wanted);
        access.map(|(barrier, _)| *barrier)
    };
    let expectations = users(&|op| op.rules().expects_bytes());
    let waits = users(&|op| accessing(op, SharedAccess::Poll));
    let copies = users(&|op| accessing(op, SharedAccess::AsyncAtomic));
    let is_met = |(_, barrier): &(Inst, Value), others: &[(Inst, Value)]| {
        let own = views.allocations(*barrier);
        let shares = |(_, other): &(Inst, Value)| {
            let theirs = views.allocations(*other);
            own.iter().any(|allocation| theirs.contains(allocation))
        };
        others.iter().any(shares)
    };
    for one in expectations.iter().filter(|one| !is_met(one, &copies)) {
        let message = "the mbarrier expects bytes here, and no copy completes on it: its phase never completes";
        let help =
            "issue a TMA load that completes on this mbarrier, or `arrive` without expecting bytes";
        found.push(report(func, views, *one, message, help));
    }
    for one in copies.iter().filter(|one| !is_met(one, &expectations)) {
        let message = "a copy completes on an mbarrier that expects no bytes";
        let help = "call `barrier.expect(bytes)` before the copy, with the bytes that it copies: `map.block_bytes()` through a tensor map";
        found.push(report(func, views, *one, message, help));
    }
    for one in copies.iter().filter(|one| !is_met(one, &waits)) {
        let message = "no thread waits for the mbarrier on which this copy completes, so no thread may read the copied tile";
        let help = "call `barrier.wait(phase)` before the tile is read, and before the kernel ends";
        found.push(report(func, views, *one, message, help));
    }
}

fn report(
    func: &Func,
    views: &Views,
    (inst, barrier): (Inst, Value),
    message: &str,
    help: &str,
) -> Diagnostic {
    let mut d = Diagnostic::error(Code::MbarrierMisuse, func.place(inst), message);
    for &allocation in views.allocations(barrier) {
        d = d.related(func.place(allocation), "the mbarrier was made here");
    }
    d.help(help)
}
