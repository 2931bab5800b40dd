//! `place-barriers`: inserts a CTA barrier between conflicting accesses of different threads to shared memory, and a proxy
//! fence between generic writes and accesses through the async proxy.
//!
//! The walk keeps the accesses that are pending (`Pending`). An instruction that conflicts with them gets a barrier before it,
//! and no other does. A loop is walked to a fixed point, so that the end of one iteration is compared with the beginning of the
//! next; a barrier that only the first iteration needs stands before the loop. Barriers of a partition synchronize its own warps
//! only: data between partitions is ordered by the author's mbarriers, and a fence that is missing there is reported.
//!
//! Where CTAs of a cluster exchange data, the mbarriers of the exchanges are initialized at the beginning of the kernel, and a
//! cluster barrier stands before the first exchange.

use cranelift_entity::SecondaryMap;
use diag::{Code, Diagnostic, Diagnostics};
use ir::Func;
use ir::entity::{Inst, Region};
use ir::ops::sync::Barrier;
use ir::ops::wgmma::FenceAsyncShared;
use ir::ops::{Op, SharedAccess, Types, flow};

use super::bytes::Bytes;
use super::hazards::{
    Event, Events, Memory, Pending, Wanted, signalled_copies, touched_by_async_proxy,
};
use super::{clusters, expectations, lifetimes};
use crate::analysis::scratch::Scratches;
use crate::analysis::shared::Views;

/// Inserts a `barrier`, and before it a `fence_async_shared` for the async proxy, before each instruction that needs one.
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
    let events = Events::of_kernel(memory);
    let mut walk = BarrierPlacement {
        func,
        events: &events,
        wanted: SecondaryMap::new(),
        async_bytes: Bytes::default(),
        others: Bytes::default(),
        foreign_copies: Default::default(),
        found,
    };
    walk.async_bytes = walk.async_proxy_bytes(func.body);
    walk.region(func.body, Pending::default());
    walk.wanted
}

struct BarrierPlacement<'f, 'd> {
    func: &'f Func,
    events: &'f Events,
    wanted: SecondaryMap<Inst, Wanted>,
    /// Bytes that are accessed through the async proxy anywhere.
    async_bytes: Bytes,
    /// Bytes that other partitions than the one walked access through the async proxy.
    others: Bytes,
    /// What `cp.async` of other partitions writes, and the mbarriers that signal it.
    foreign_copies: (Bytes, Bytes),
    found: &'d mut Diagnostics,
}

impl BarrierPlacement<'_, '_> {
    /// What is pending at the end of a region that is entered with `pending`.
    fn region(&mut self, region: Region, mut pending: Pending) -> Pending {
        let func = self.func;
        for &inst in &func.region(region).insts {
            let wanted = self.wanted[inst];
            pending.satisfy(wanted);
            for event in self.events.of(inst) {
                let mut more = pending.wants(event);
                // Where a barrier stands anyway, a fence before it saves another barrier later.
                more.fence |= more.barrier && pending.hides_from_async_proxy(&self.async_bytes);
                if more != Wanted::default() {
                    self.want(inst, more);
                    pending.satisfy(more);
                }
                self.check_signal(inst, event, &pending);
                self.check_wait(inst, event, &mut pending);
                pending.after(event);
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
        if flow::has_partitions(op) {
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

    /// A loop: first as if nothing were pending before it. If pending accesses need more, a barrier stands before the loop.
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
            fence: pending.hides_from_async_proxy(&self.async_bytes),
        };
        self.want(inst, wanted);
        let mut pending = pending;
        pending.satisfy(wanted);
        self.settled(inst, pending)
    }

    /// Walks a loop until the pending accesses at its start are a fixed point.
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

    /// The partitions of `warp_specialize`: a CTA barrier stands before them, and from there each is walked by itself.
    fn partitions(&mut self, inst: Inst, mut pending: Pending) -> Pending {
        let func = self.func;
        let async_bytes = touched_by_async_proxy(self.func, self.events, inst);
        if pending.hides_from_async_proxy(&async_bytes) {
            self.want(
                inst,
                Wanted {
                    barrier: false,
                    fence: true,
                },
            );
            pending.after(&Event::Fence);
        }
        pending.after(&Event::CtaBarrier);
        let regions = func.op(inst).regions();
        let of_region: Vec<Bytes> = regions
            .iter()
            .map(|region| self.async_proxy_bytes(*region))
            .collect();
        let mut after = Pending::default();
        let copies: Vec<(Bytes, Bytes)> = regions
            .iter()
            .map(|region| signalled_copies(func, self.events, *region))
            .collect();
        for (at, &region) in regions.iter().enumerate() {
            self.others = union_but(at, of_region.iter());
            let copied = union_but(at, copies.iter().map(|(copied, _)| copied));
            let barriers = union_but(at, copies.iter().map(|(_, barriers)| barriers));
            self.foreign_copies = (copied, barriers);
            after.add(&self.region(region, pending.clone()));
        }
        self.foreign_copies = Default::default();
        self.others = Bytes::default();
        after
    }

    fn async_proxy_bytes(&self, region: Region) -> Bytes {
        let mut all = Bytes::default();
        for &inst in &self.func.region(region).insts {
            all.add(&touched_by_async_proxy(self.func, self.events, inst));
        }
        all
    }

    /// A signal to another partition: writes that the partition accesses through the async proxy must be fenced before it.
    fn check_signal(&mut self, inst: Inst, event: &Event, pending: &Pending) {
        let (Event::Touch(SharedAccess::Atomic, _) | Event::Signal) = event else {
            return;
        };
        if pending.hides_when_signalled(&self.others) {
            self.lacks_fence(
                inst,
                "this signals another partition before the writes here are fenced for its accesses through the async proxy",
                "write `fence_async_shared()` after the stores and before this",
            );
        }
    }

    /// A read through the async proxy of what `cp.async` of another partition wrote: the partition that waited for the copies
    /// fences them, since the copying threads do not know when they complete.
    fn check_wait(&mut self, inst: Inst, event: &Event, pending: &mut Pending) {
        let (copied, barriers) = &self.foreign_copies;
        match event {
            Event::Touch(SharedAccess::Poll, barrier) if barrier.overlaps(barriers) => {
                pending.observe(copied);
            }
            Event::Touch(SharedAccess::AsyncRead | SharedAccess::OperandRead, bytes)
                if pending.hides_foreign(bytes) =>
            {
                self.lacks_fence(
                    inst,
                    "the async proxy reads what `cp.async` of another partition copied, without a proxy fence",
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
            d.note("ordinary stores access shared memory through the generic proxy, TMA and the tensor cores through the async proxy")
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
