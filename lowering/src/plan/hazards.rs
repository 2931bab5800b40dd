//! What is pending in shared memory: done by some thread, and not yet known to be done by the others.

use std::collections::BTreeMap;

use ir::Func;
use ir::entity::{Inst, Region};
use ir::ops::SharedAccess;
use ir::ops::atomic::AtomicOp;
use smallvec::SmallVec;

use super::bytes::Bytes;
use crate::analysis::scratch::{BarrierScope, Scratches};
use crate::analysis::shared::Views;

/// One thing that an instruction does to shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Touches bytes.
    Touch(SharedAccess, Bytes),
    /// Each warp writes and reads bytes of its own, the same ones whenever this instruction runs.
    ByWarps(Inst, Bytes),
    /// All threads meet.
    Meet,
    /// Another partition is told to go on.
    HandOver,
    /// Generic writes so far become visible to engines.
    Fence,
    /// All threads know of the barriers that were made; nothing else is ordered.
    BarriersKnown,
    /// Engines have read what they were asked to read.
    WaitForReads,
    /// Each thread's copies are complete, but for so many groups.
    WaitForCopies(u32),
    /// A barrier learns of each thread's copies when they are complete.
    CopiesTold,
}

/// What must stand before an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// All threads must meet.
    pub barrier: bool,
    /// Generic writes must become visible to engines, before the threads meet.
    pub fence: bool,
}

/// What was done to shared memory since all threads met last, and what engines have not seen or not done yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    read: Bytes,
    written: Bytes,
    /// Made barriers of, by the one thread that makes all of them.
    initialised: Bytes,
    /// Changed by atomic steps, which need no order among themselves.
    stepped: Bytes,
    /// Combined with values by atomic steps.
    combined: Bytes,
    /// How, if all of it was combined in one way.
    way: Option<AtomicOp>,
    /// Written by threads with no fence since: engines may see what was there before.
    unfenced: Bytes,
    /// Asked of engines, with no wait since.
    async_read: Bytes,
    /// Copied by threads at moments of their own, with no wait for all of it since.
    copied: Bytes,
    /// Of these, what a barrier learns of: who waits for it fences.
    told: Bytes,
    /// Copied by threads of another partition, as a barrier said, with no fence since.
    foreign: Bytes,
    /// Written and read within warps, by instruction.
    by_warps: BTreeMap<Inst, Bytes>,
}

impl Pending {
    /// What holds if either does.
    pub(super) fn add(&mut self, other: &Pending) {
        self.read.add(&other.read);
        self.written.add(&other.written);
        self.initialised.add(&other.initialised);
        self.stepped.add(&other.stepped);
        self.combine(&other.combined, other.way);
        self.unfenced.add(&other.unfenced);
        self.async_read.add(&other.async_read);
        self.copied.add(&other.copied);
        self.told.add(&other.told);
        self.foreign.add(&other.foreign);
        for (&inst, bytes) in &other.by_warps {
            self.by_warps.entry(inst).or_default().add(bytes);
        }
    }

    fn combine(&mut self, bytes: &Bytes, way: Option<AtomicOp>) {
        if bytes.is_empty() {
            return;
        }
        let is_same = self.combined.is_empty() || self.way == way;
        self.way = way.filter(|_| is_same);
        self.combined.add(bytes);
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Pending::default()
    }

    /// What must stand before an instruction that begins with this event.
    pub(super) fn wants(&self, event: &Event) -> Wanted {
        let (bytes, own) = match event {
            Event::Touch(_, bytes) => (bytes, None),
            Event::ByWarps(inst, bytes) => (bytes, Some(*inst)),
            _ => return Wanted::default(),
        };
        let by_others = |(inst, theirs): (&Inst, &Bytes)| Some(*inst) != own && theirs.meets(bytes);
        let by_warps = self.by_warps.iter().any(by_others);
        // The thread that makes barriers makes one after the other, without a meeting.
        let is_initialised = !matches!(event, Event::Touch(SharedAccess::Initialise, _))
            && self.initialised.meets(bytes);
        let (read, written, stepped) = (
            self.read.meets(bytes),
            self.written.meets(bytes) || by_warps || is_initialised,
            self.stepped.meets(bytes),
        );
        let combined = self.combined.meets(bytes);
        let Event::Touch(access, _) = event else {
            return Wanted {
                barrier: read || written || stepped || combined,
                fence: false,
            };
        };
        let barrier = match access {
            SharedAccess::Read | SharedAccess::RemoteRead | SharedAccess::AsyncRead => {
                written || stepped || combined
            }
            SharedAccess::Write
            | SharedAccess::RemoteWrite
            | SharedAccess::Initialise
            | SharedAccess::Copy
            | SharedAccess::AsyncWrite
            | SharedAccess::AsyncRemoteWrite => read || written || stepped || combined,
            SharedAccess::Atomic | SharedAccess::Poll => read || written || combined,
            SharedAccess::Combine(way) => {
                let has_order = *way == AtomicOp::Exchange || self.way != Some(*way);
                read || written || stepped || combined && has_order
            }
            SharedAccess::AsyncAtomic => written,
        };
        let fence = access.is_asynchronous() && self.unfenced.meets(bytes);
        // Each thread fences its own writes; that all have done so is known once they met.
        Wanted {
            barrier: barrier || fence,
            fence,
        }
    }

    /// After an instruction has done this.
    pub(super) fn after(&mut self, event: &Event) {
        match event {
            Event::Meet => {
                self.read = Bytes::default();
                self.written = Bytes::default();
                self.initialised = Bytes::default();
                self.stepped = Bytes::default();
                self.by_warps.clear();
                self.combined = Bytes::default();
                self.way = None;
            }
            Event::ByWarps(inst, bytes) => {
                self.by_warps.entry(*inst).or_default().add(bytes);
                self.unfenced.add(bytes);
            }
            Event::Fence => {
                self.unfenced = Bytes::default();
                self.foreign = Bytes::default();
            }
            Event::CopiesTold => self.told.add(&self.copied.clone()),
            // That engines have read is known to the threads that waited, and to the others once they met.
            Event::WaitForReads => self.read.add(&std::mem::take(&mut self.async_read)),
            Event::Touch(SharedAccess::Read | SharedAccess::RemoteRead, bytes) => {
                self.read.add(bytes);
            }
            Event::Touch(SharedAccess::Write | SharedAccess::RemoteWrite, bytes) => {
                self.told = self.told.without(bytes);
                self.written.add(bytes);
                self.unfenced.add(bytes);
            }
            Event::WaitForCopies(pending) => {
                // Only now can a thread tell the others, and engines, that its copies are there.
                self.written.add(&self.copied);
                self.unfenced.add(&self.copied);
                if *pending == 0 {
                    self.copied = Bytes::default();
                }
            }
            Event::Touch(SharedAccess::Copy, bytes) => {
                self.copied.add(bytes);
                self.told = self.told.without(bytes);
                self.written.add(bytes);
                self.unfenced.add(bytes);
            }
            Event::BarriersKnown => self.initialised = Bytes::default(),
            Event::Touch(SharedAccess::Initialise, bytes) => self.initialised.add(bytes),
            Event::Touch(SharedAccess::Atomic | SharedAccess::Poll, bytes) => {
                self.stepped.add(bytes);
            }
            Event::Touch(SharedAccess::Combine(way), bytes) => {
                self.combine(bytes, Some(*way));
                self.unfenced.add(bytes);
            }
            Event::Touch(SharedAccess::AsyncRead, bytes) => self.async_read.add(bytes),
            // What an engine writes is known through the barrier that it completes on.
            Event::Touch(
                SharedAccess::AsyncWrite
                | SharedAccess::AsyncRemoteWrite
                | SharedAccess::AsyncAtomic,
                _,
            )
            | Event::HandOver => {}
        }
    }

    /// After what was wanted has been put in.
    pub(super) fn satisfy(&mut self, wanted: Wanted) {
        if wanted.fence {
            self.after(&Event::Fence);
        }
        if wanted.barrier {
            self.after(&Event::Meet);
        }
    }

    /// Does it hold writes that an engine touching these bytes would not see?
    pub(super) fn hides_from_engines(&self, bytes: &Bytes) -> bool {
        self.unfenced.meets(bytes)
    }

    /// The same of writes that whoever is told now takes for fenced: copies tell of themselves later.
    pub(super) fn hides_when_handed_over(&self, bytes: &Bytes) -> bool {
        self.unfenced.without(&self.told).meets(bytes)
    }

    /// Threads of another partition have copied these bytes, and this one knows it.
    pub(super) fn learn_of(&mut self, copied: &Bytes) {
        self.foreign.add(copied);
    }

    /// Does an engine that reads these bytes miss what another partition's threads copied?
    pub(super) fn hides_foreign(&self, bytes: &Bytes) -> bool {
        self.foreign.meets(bytes)
    }
}

/// What is known of the shared memory of a kernel.
#[derive(Clone, Copy)]
pub(super) struct Memory<'f> {
    /// The kernel.
    pub func: &'f Func,
    /// What its views are of.
    pub views: &'f Views,
    /// What its ops need.
    pub scratches: &'f Scratches,
}

/// What one instruction does to shared memory, in order; its regions not included.
pub(super) fn events(memory: Memory<'_>, inst: Inst) -> SmallVec<[Event; 3]> {
    let Memory { func, views, .. } = memory;
    let mut events = SmallVec::new();
    let rules = func.op(inst).rules();
    if rules.named_barrier().is_some() {
        events.push(Event::HandOver);
    }
    if rules.effects().is_barrier {
        events.push(Event::Meet);
        return events;
    }
    if rules.is_async_fence() {
        events.push(Event::Fence);
    }
    if rules.publishes_barriers() {
        events.push(Event::BarriersKnown);
    }
    if rules.waits_for_async_reads() {
        events.push(Event::WaitForReads);
    }
    if let Some(pending) = rules.waits_for_copies() {
        events.push(Event::WaitForCopies(pending));
    }
    if rules.signals_copies() {
        events.push(Event::CopiesTold);
    }
    if !views.is_empty() {
        events.extend(accesses(func, views, inst));
    }
    events.extend(exchange(memory, inst));
    events
}

/// What an instruction does to tiles: to those that it has views of, and to one that it makes with elements.
fn accesses(func: &Func, views: &Views, inst: Inst) -> SmallVec<[Event; 3]> {
    let rules = func.op(inst).rules();
    let ctas = rules.rank_of_views(func).map_or(u32::MAX, |rank| 1 << rank);
    let touch = |(view, access)| {
        let mut bytes = Bytes::default();
        for &allocation in views.allocations(view) {
            let planned = func.op(allocation).rules().allocation().unwrap_or_default();
            bytes.add(&Bytes::in_ctas(views.bytes_in(view, planned), ctas));
        }
        Event::Touch(access, bytes)
    };
    let touched = rules.shared_accesses().into_iter().map(touch);
    let is_initialised = !rules.effects().writes.is_none();
    let made = rules.allocation().filter(|_| is_initialised);
    let filled = made.map(|planned| Event::Touch(SharedAccess::Write, Bytes::of(planned)));
    touched.chain(filled).collect()
}

/// What an instruction does to bytes of its own, through which the threads exchange elements.
fn exchange(memory: Memory<'_>, inst: Inst) -> SmallVec<[Event; 4]> {
    let scratch = memory.func.op(inst).rules().scratch().unwrap_or_default();
    let mut events = SmallVec::new();
    if scratch.is_none() {
        return events;
    }
    let (bytes, scope) = (Bytes::of(scratch), memory.scratches.need(inst).scope);
    if scope == BarrierScope::Warp {
        events.push(Event::ByWarps(inst, bytes));
        return events;
    }
    events.push(Event::Touch(SharedAccess::Write, bytes.clone()));
    if scope >= BarrierScope::Cta {
        events.push(Event::Meet);
    }
    events.push(Event::Touch(SharedAccess::Read, bytes));
    if scope == BarrierScope::Cluster {
        events.push(Event::Meet);
    }
    events
}

/// The bytes that engines are asked to touch by an instruction and its regions.
pub(super) fn touched_by_engines(memory: Memory<'_>, inst: Inst) -> Bytes {
    let func = memory.func;
    let mut insts = vec![inst];
    for region in func.op(inst).regions() {
        func.walk_region(region, &mut insts);
    }
    let mut all = Bytes::default();
    for inst in insts {
        for event in events(memory, inst) {
            if let Event::Touch(access, bytes) = event
                && access.is_asynchronous()
            {
                all.add(&bytes);
            }
        }
    }
    all
}

/// What threads copy in a region whose copies barriers learn of, and those barriers.
pub(super) fn told_copies(memory: Memory<'_>, region: Region) -> (Bytes, Bytes) {
    let func = memory.func;
    let mut insts = Vec::new();
    func.walk_region(region, &mut insts);
    let (mut copied, mut barriers) = (Bytes::default(), Bytes::default());
    for inst in insts {
        let is_told = func.op(inst).rules().signals_copies();
        for event in events(memory, inst) {
            match event {
                Event::Touch(SharedAccess::Copy, bytes) => copied.add(&bytes),
                Event::Touch(_, bytes) if is_told => barriers.add(&bytes),
                _ => {}
            }
        }
    }
    (copied, barriers)
}
