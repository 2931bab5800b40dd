//! `place-barriers`: all threads meet where one could otherwise write shared memory that another still reads, or read
//! what another has not written yet; and generic writes are fenced where an engine will touch them.
//!
//! The walk keeps what is pending in shared memory (`Pending`). An instruction that clashes with it gets a barrier
//! before it, and no other does. Loops are walked until what is pending at their start settles, so that the end of one
//! iteration is held against the beginning of the next; a barrier that only the first iteration wants stands before the
//! loop. Warps that part meet among themselves only: what goes from one partition to another is ordered by the
//! author's barriers in shared memory, and a fence that is missing there is reported.
//!
//! Where CTAs of a cluster exchange data, the barriers of the exchanges are made first of all, and the cluster meets
//! before anybody sends.

use cranelift_entity::SecondaryMap;
use diag::{Code, Diagnostic, Diagnostics};
use ir::Func;
use ir::entity::{Inst, Region};
use ir::ops::sync::Barrier;
use ir::ops::wgmma::FenceAsyncShared;
use ir::ops::{Op, SharedAccess, Types, flow};

use super::bytes::Bytes;
use super::hazards::{Event, Memory, Pending, Wanted, events, told_copies, touched_by_engines};
use super::{clusters, expectations, lifetimes};
use crate::analysis::scratch::Scratches;
use crate::analysis::shared::Views;

/// Puts a `barrier`, and before it a `fence_async_shared` where engines are concerned, before what needs one.
pub fn run(func: &mut Func, found: &mut Diagnostics) {
    if func.shared_bytes == 0 {
        return;
    }
    let (views, scratches) = (Views::of(func), Scratches::of(func));
    expectations::check(func, &views, found);
    clusters::check(func, &scratches, found);
    if func.has_cluster() {
        lifetimes::check(func, found);
    }
    let memory = Memory {
        func,
        views: &views,
        scratches: &scratches,
    };
    let wanted = wanted(memory, found);
    insert(func, func.body, &wanted);
    clusters::open_exchanges(func, &scratches);
}

/// What must stand before each instruction, beside the barriers and fences that the kernel has.
pub(super) fn wanted(memory: Memory<'_>, found: &mut Diagnostics) -> SecondaryMap<Inst, Wanted> {
    let func = memory.func;
    let mut walk = BarrierPlacement {
        func,
        memory,
        wanted: SecondaryMap::new(),
        engines: Bytes::default(),
        others: Bytes::default(),
        copied_by_others: Default::default(),
        found,
    };
    walk.engines = walk.engines_of(func.body);
    walk.region(func.body, Pending::default());
    walk.wanted
}

struct BarrierPlacement<'f, 'd> {
    func: &'f Func,
    memory: Memory<'f>,
    wanted: SecondaryMap<Inst, Wanted>,
    /// Bytes that engines touch anywhere.
    engines: Bytes,
    /// Bytes that engines touch on behalf of other partitions than the one walked.
    others: Bytes,
    /// What threads of other partitions copy, and the barriers that learn of it.
    copied_by_others: (Bytes, Bytes),
    found: &'d mut Diagnostics,
}

impl BarrierPlacement<'_, '_> {
    /// What is pending at the end of a region that is entered with `pending`.
    fn region(&mut self, region: Region, mut pending: Pending) -> Pending {
        let func = self.func;
        for &inst in &func.region(region).insts {
            let wanted = self.wanted[inst];
            pending.satisfy(wanted);
            for event in events(self.memory, inst) {
                let mut more = pending.wants(&event);
                // Where the threads meet anyway, a fence saves them another meeting before the engine comes.
                more.fence |= more.barrier && pending.hides_from_engines(&self.engines);
                if more != Wanted::default() {
                    self.want(inst, more);
                    pending.satisfy(more);
                }
                self.check_hand_over(inst, &event, &pending);
                self.check_taking_over(inst, &event, &mut pending);
                pending.after(&event);
            }
            if !func.op(inst).regions().is_empty() {
                pending = self.inner(inst, pending);
            }
        }
        pending
    }

    fn want(&mut self, inst: Inst, more: Wanted) {
        let wanted = &mut self.wanted[inst];
        wanted.barrier |= more.barrier;
        wanted.fence |= more.fence;
    }

    /// What is pending after the regions of an instruction that has some.
    fn inner(&mut self, inst: Inst, pending: Pending) -> Pending {
        let op = self.func.op(inst);
        if flow::is_parallel(op) {
            return self.partitions(inst, pending);
        }
        if flow::is_loop(op) {
            return self.repeated(inst, pending);
        }
        let mut after = Pending::default();
        for region in op.regions() {
            after.add(&self.region(region, pending.clone()));
        }
        after
    }

    /// A loop: first as if nothing were pending before it. If what is pending wants more, it is settled before the loop.
    fn repeated(&mut self, inst: Inst, pending: Pending) -> Pending {
        let alone = self.settled(inst, Pending::default());
        if pending.is_empty() {
            return alone;
        }
        let without = self.wanted.clone();
        let after = self.settled(inst, pending.clone());
        if self.wanted == without {
            return after;
        }
        self.wanted = without;
        let wanted = Wanted {
            barrier: true,
            fence: pending.hides_from_engines(&self.engines),
        };
        self.want(inst, wanted);
        let mut pending = pending;
        pending.satisfy(wanted);
        self.settled(inst, pending)
    }

    /// Walks a loop until what is pending at its start does not grow.
    fn settled(&mut self, inst: Inst, pending: Pending) -> Pending {
        let regions = self.func.op(inst).regions();
        let mut start = pending;
        loop {
            let mut left = start.clone();
            let mut end = start.clone();
            for (at, &region) in regions.iter().enumerate() {
                end = self.region(region, end);
                // A loop is left after its first region: the test of a `while`, the body of a `for`.
                if at == 0 {
                    left.add(&end);
                }
            }
            let mut around = start.clone();
            around.add(&end);
            if around == start {
                return left;
            }
            start = around;
        }
    }

    /// Warps part: all of them met, and from here each partition is on its own.
    fn partitions(&mut self, inst: Inst, mut pending: Pending) -> Pending {
        let func = self.func;
        let engines = touched_by_engines(self.memory, inst);
        if pending.hides_from_engines(&engines) {
            self.want(
                inst,
                Wanted {
                    barrier: false,
                    fence: true,
                },
            );
            pending.after(&Event::Fence);
        }
        pending.after(&Event::Meet);
        let regions = func.op(inst).regions();
        let of_region: Vec<Bytes> = regions
            .iter()
            .map(|region| self.engines_of(*region))
            .collect();
        let mut after = Pending::default();
        let copies: Vec<(Bytes, Bytes)> = regions
            .iter()
            .map(|region| told_copies(self.memory, *region))
            .collect();
        for (at, &region) in regions.iter().enumerate() {
            self.others = union_but(at, of_region.iter());
            let copied = union_but(at, copies.iter().map(|(copied, _)| copied));
            let barriers = union_but(at, copies.iter().map(|(_, barriers)| barriers));
            self.copied_by_others = (copied, barriers);
            after.add(&self.region(region, pending.clone()));
        }
        self.copied_by_others = Default::default();
        self.others = Bytes::default();
        after
    }

    fn engines_of(&self, region: Region) -> Bytes {
        let mut all = Bytes::default();
        for &inst in &self.func.region(region).insts {
            all.add(&touched_by_engines(self.memory, inst));
        }
        all
    }

    /// A thread tells another partition that it may go on: what it wrote for that partition's engines must be fenced.
    fn check_hand_over(&mut self, inst: Inst, event: &Event, pending: &Pending) {
        let (Event::Touch(SharedAccess::Atomic, _) | Event::HandOver) = event else {
            return;
        };
        if pending.hides_when_handed_over(&self.others) {
            self.lacks_fence(
                inst,
                "another partition is told to go on before what was written here is fenced for its engines",
                "write `fence_async_shared()` after the stores and before this",
            );
        }
    }

    /// A thread lets engines read what threads of another partition copied: who was told that copies are complete fences
    /// them, for those who copied knew no moment to do so.
    fn check_taking_over(&mut self, inst: Inst, event: &Event, pending: &mut Pending) {
        let (copied, barriers) = &self.copied_by_others;
        match event {
            Event::Touch(SharedAccess::Poll, barrier) if barrier.meets(barriers) => {
                pending.learn_of(copied);
            }
            Event::Touch(SharedAccess::AsyncRead, bytes) if pending.hides_foreign(bytes) => {
                self.lacks_fence(
                    inst,
                    "an engine reads what threads of another partition copied, and nothing fences it",
                    "write `fence_async_shared()` after the wait for the copies and before this",
                );
            }
            _ => {}
        }
    }

    fn lacks_fence(&mut self, inst: Inst, message: &str, help: &str) {
        let place = self.func.place(inst);
        if self
            .found
            .0
            .iter()
            .any(|d| d.code == Code::MissingFence && d.primary.at == place)
        {
            return;
        }
        let d = Diagnostic::error(Code::MissingFence, place, message);
        self.found.push(
            d.note("ordinary stores and the copy engine or tensor cores see shared memory through different proxies")
                .help(help),
        );
    }
}

/// All bytes but those of one partition.
fn union_but<'b>(own: usize, all: impl Iterator<Item = &'b Bytes>) -> Bytes {
    let others = all.enumerate().filter(|(at, _)| *at != own);
    others.fold(Bytes::default(), |mut union, (_, bytes)| {
        union.add(bytes);
        union
    })
}

fn insert(func: &mut Func, region: Region, wanted: &SecondaryMap<Inst, Wanted>) {
    let old = func.region(region).insts.clone();
    let mut new = Vec::with_capacity(old.len() + 1);
    for &inst in &old {
        let loc = func.loc(inst);
        if wanted[inst].fence {
            new.push(func.make_inst(Op::from(FenceAsyncShared {}), Types::new(), loc));
        }
        if wanted[inst].barrier {
            new.push(func.make_inst(Op::from(Barrier {}), Types::new(), loc));
        }
        new.push(inst);
        for inner in func.op(inst).regions() {
            insert(func, inner, wanted);
        }
    }
    if new.len() != old.len() {
        func.set_insts(region, new);
    }
}
