//! Shared memory of a CTA exists from when the CTA has begun until it exits. Accesses by other CTAs of its cluster must lie in between.
//!
//! What proves the first: a cluster barrier on every path to the access. What proves the second:
//!
//! - a cluster barrier at which the accessing threads arrive afterwards: in the kernel's body, in their partition, or after the partitions
//!   have joined. Threads that have exited count as arrived (PTX ISA 9.7.13.4), so that it need not stand in every partition;
//! - for an asynchronous write, a wait of the receiving CTA on the mbarrier that counts its bytes; [`super::expectations`] reports the kernel
//!   that has none.
//!
//! Which CTA waits for which phase is known at run time alone: the emulator reports the rest.

use diag::{Code, Diagnostic, Diagnostics};
use ir::Func;
use ir::entity::{Inst, Region};
use ir::ops::{Op, SharedAccess, flow};

/// Reports accesses to other CTAs' shared memory that may come before these CTAs have begun, or after they have exited.
pub(super) fn check(func: &Func, found: &mut Diagnostics) {
    let mut lifetimes = Lifetimes {
        func,
        early: None,
        early_barrier: None,
        late: None,
    };
    lifetimes.begin(func.body, false);
    lifetimes.end(func.body, false);
    lifetimes.report(found);
}

struct Lifetimes<'f> {
    func: &'f Func,
    /// The first access to memory of another CTA that no cluster barrier comes before.
    early: Option<Inst>,
    /// The same of an operation on another CTA's mbarriers.
    early_barrier: Option<Inst>,
    /// The last access with nothing after it that says when it is over.
    late: Option<Inst>,
}

impl Lifetimes<'_> {
    /// Walks forward. `has_begun`: every path to the region passes a cluster barrier. The same for what follows the region.
    fn begin(&mut self, region: Region, mut has_begun: bool) -> bool {
        let func = self.func;
        for &inst in &func.region(region).insts {
            let rules = func.op(inst).rules();
            if !has_begun {
                if rules.accesses_other_ctas() {
                    self.early_barrier.get_or_insert(inst);
                }
                if is_remote(func, inst) {
                    self.early.get_or_insert(inst);
                }
            }
            has_begun |= func.op(inst).rules().waits_at_cluster_barrier();
            let regions = func.op(inst).regions();
            if regions.is_empty() {
                continue;
            }
            let mut all = true;
            for inner in regions {
                all &= self.begin(inner, has_begun);
            }
            // The body of a loop may not run at all.
            has_begun |= all && !flow::is_loop(func.op(inst));
        }
        has_begun
    }

    /// Walks backward. `arrives`: on every path from the end of the region, its threads arrive at a cluster barrier. The same for what comes
    /// before the region.
    fn end(&mut self, region: Region, mut arrives: bool) -> bool {
        let func = self.func;
        for &inst in func.region(region).insts.iter().rev() {
            arrives |=
                self.end_inner(inst, arrives) || func.op(inst).rules().arrives_at_cluster_barrier();
            if !arrives && is_synchronous(func, inst) {
                self.late.get_or_insert(inst);
            }
        }
        arrives
    }

    /// The same of an instruction with regions.
    fn end_inner(&mut self, inst: Inst, arrives: bool) -> bool {
        let op = self.func.op(inst);
        let regions = op.regions();
        if flow::has_partitions(op) {
            let waits = |r: &Region| {
                let mut insts = self.func.region(*r).insts.iter();
                insts.any(|inst| self.func.op(*inst).rules().waits_at_cluster_barrier())
            };
            let waiting: Vec<Region> = regions.iter().copied().filter(waits).collect();
            for &region in &regions {
                // Who never arrives is waited for until it exits.
                let exits = !self.has(region, |op| op.rules().arrives_at_cluster_barrier());
                let is_waited_for = exits && waiting.iter().any(|other| *other != region);
                self.end(region, arrives || is_waited_for);
            }
            return !waiting.is_empty();
        }
        let mut all = !regions.is_empty();
        for region in regions {
            all &= self.end(region, arrives);
        }
        // The body of a loop may not run at all.
        all && !flow::is_loop(op)
    }

    /// Does the region, or one inside it, have such an op?
    fn has(&self, region: Region, is: fn(&Op) -> bool) -> bool {
        let mut insts = Vec::new();
        self.func.walk_region(region, &mut insts);
        insts.into_iter().any(|inst| is(self.func.op(inst)))
    }

    fn report(&self, found: &mut Diagnostics) {
        if let Some(inst) = self.early_barrier {
            let message = "another CTA's mbarrier is accessed before a cluster barrier: that CTA may not have initialized it";
            found.push(self.before(inst, message));
        }
        if let Some(inst) = self.early {
            let message = "another CTA's shared memory is accessed before a cluster barrier: that CTA may not have begun";
            found.push(self.before(inst, message));
        }
        if let Some(inst) = self.late {
            let message =
                "nothing proves that this access ends before the CTA that owns the memory exits";
            found.push(self.race(inst, message).help(
                "put a `cluster_barrier()` after this, in this partition or after all of them, or `cluster_barrier_relaxed()` where no data is passed",
            ));
        }
    }

    fn before(&self, inst: Inst, message: &str) -> Diagnostic {
        self.race(inst, message).help(
            "put a `cluster_barrier()` before this, or `cluster_barrier_relaxed()` where no data is passed",
        )
    }

    fn race(&self, inst: Inst, message: &str) -> Diagnostic {
        Diagnostic::error(Code::Race, self.func.place(inst), message)
    }
}

/// Do the threads themselves access memory of another CTA?
fn is_synchronous(func: &Func, inst: Inst) -> bool {
    let accesses = func.op(inst).rules().shared_accesses();
    accesses
        .iter()
        .any(|(_, a)| matches!(a, SharedAccess::RemoteRead | SharedAccess::RemoteWrite))
}

fn is_remote(func: &Func, inst: Inst) -> bool {
    let accesses = func.op(inst).rules().shared_accesses();
    accesses.iter().any(|(_, access)| {
        matches!(
            access,
            SharedAccess::RemoteRead | SharedAccess::RemoteWrite | SharedAccess::AsyncRemoteWrite
        )
    })
}
