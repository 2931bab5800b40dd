//! Pending accesses to shared memory: done by some thread, and not yet ordered before those of the others.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;
use ir::Func;
use ir::entity::{Inst, Region};
use ir::ops::SharedAccess;
use ir::ops::atomic::AtomicOp;
use smallvec::SmallVec;

use super::bytes::Bytes;
use crate::analysis::scratch::{BarrierScope, Scratches};
use crate::analysis::shared::Views;

/// One effect of an instruction on shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Accesses bytes.
    Touch(SharedAccess, Bytes),
    /// Each warp writes and reads bytes of its own, the same ones whenever this instruction runs.
    ByWarps(Inst, Bytes),
    /// A CTA barrier.
    CtaBarrier,
    /// Another partition is signalled.
    Signal,
    /// A proxy fence: generic writes so far become visible to the async proxy.
    Fence,
    /// Initialized mbarriers are visible to all threads; nothing else is ordered.
    BarriersKnown,
    /// Reads by TMA, or those of operands by the tensor cores, are complete, but for so many groups.
    WaitForReads(SharedAccess, u32),
    /// Each thread's `cp.async` copies are complete, but for so many groups.
    WaitForCopies(u32),
    /// An mbarrier is signalled when each thread's copies are complete.
    CopiesSignalled,
}

/// What must stand before an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// A CTA barrier.
    pub barrier: bool,
    /// A proxy fence, before the barrier.
    pub fence: bool,
}

/// Accesses since the last CTA barrier, and what the async proxy has not observed or not completed yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    read: Bytes,
    written: Bytes,
    /// Initialized as mbarriers, by the one thread that initializes all of them.
    initialised: Bytes,
    /// Changed by atomics, which need no order among themselves.
    stepped: Bytes,
    /// Combined with values by atomics.
    combined: Bytes,
    /// By which operation, if by one.
    way: Option<AtomicOp>,
    /// Written through the generic proxy with no fence since: the async proxy may observe what was there before.
    unfenced: Bytes,
    /// Reads issued to TMA, with no wait for all groups since.
    async_read: Bytes,
    /// Reads issued to the tensor cores, with no wait for all groups since.
    operands: Bytes,
    /// Written by `cp.async`, with no wait for all groups since.
    copied: Bytes,
    /// Of these, what an mbarrier signals: its waiter fences.
    signalled: Bytes,
    /// Written by `cp.async` of another partition, as an mbarrier signalled, with no fence since.
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
        self.operands.add(&other.operands);
        self.copied.add(&other.copied);
        self.signalled.add(&other.signalled);
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
        let by_others =
            |(inst, theirs): (&Inst, &Bytes)| Some(*inst) != own && theirs.overlaps(bytes);
        let by_warps = self.by_warps.iter().any(by_others);
        // One thread initializes all mbarriers, one after the other, without a barrier between.
        let is_initialised = !matches!(event, Event::Touch(SharedAccess::Initialise, _))
            && self.initialised.overlaps(bytes);
        let (read, written, stepped) = (
            self.read.overlaps(bytes),
            self.written.overlaps(bytes) || by_warps || is_initialised,
            self.stepped.overlaps(bytes),
        );
        let combined = self.combined.overlaps(bytes);
        let Event::Touch(access, _) = event else {
            return Wanted {
                barrier: read || written || stepped || combined,
                fence: false,
            };
        };
        let barrier = match access {
            SharedAccess::Read
            | SharedAccess::RemoteRead
            | SharedAccess::AsyncRead
            | SharedAccess::OperandRead => written || stepped || combined,
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
        let fence = access.is_asynchronous() && self.unfenced.overlaps(bytes);
        // Each thread fences its own writes; a CTA barrier after it covers those of all.
        Wanted {
            barrier: barrier || fence,
            fence,
        }
    }

    /// After an instruction has done this.
    pub(super) fn after(&mut self, event: &Event) {
        match event {
            Event::CtaBarrier => {
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
            Event::CopiesSignalled => self.signalled.add(&self.copied.clone()),
            // The waiting threads observe that the reads are complete; the others, after a CTA barrier.
            Event::WaitForReads(reads, pending) => {
                let in_flight = match reads {
                    SharedAccess::OperandRead => &mut self.operands,
                    _ => &mut self.async_read,
                };
                self.read.add(in_flight);
                if *pending == 0 {
                    *in_flight = Bytes::default();
                }
            }
            Event::Touch(SharedAccess::Read | SharedAccess::RemoteRead, bytes) => {
                self.read.add(bytes);
            }
            Event::Touch(SharedAccess::Write | SharedAccess::RemoteWrite, bytes) => {
                self.signalled = self.signalled.without(bytes);
                self.written.add(bytes);
                self.unfenced.add(bytes);
            }
            Event::WaitForCopies(pending) => {
                // From here on the copies are writes of the waiting thread, to be ordered as such.
                self.written.add(&self.copied);
                self.unfenced.add(&self.copied);
                if *pending == 0 {
                    self.copied = Bytes::default();
                }
            }
            Event::Touch(SharedAccess::Copy, bytes) => {
                self.copied.add(bytes);
                self.signalled = self.signalled.without(bytes);
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
            Event::Touch(SharedAccess::OperandRead, bytes) => self.operands.add(bytes),
            // Writes by the async proxy are ordered by the mbarrier that they complete on.
            Event::Touch(
                SharedAccess::AsyncWrite
                | SharedAccess::AsyncRemoteWrite
                | SharedAccess::AsyncAtomic,
                _,
            )
            | Event::Signal => {}
        }
    }

    /// After the wanted barrier and fence are inserted.
    pub(super) fn satisfy(&mut self, wanted: Wanted) {
        if wanted.fence {
            self.after(&Event::Fence);
        }
        if wanted.barrier {
            self.after(&Event::CtaBarrier);
        }
    }

    /// Does it hold writes to these bytes that the async proxy would not observe?
    pub(super) fn hides_from_async_proxy(&self, bytes: &Bytes) -> bool {
        self.unfenced.overlaps(bytes)
    }

    /// The same of writes that a signal to another partition claims to be fenced; copies are signalled by themselves, later.
    pub(super) fn hides_when_signalled(&self, bytes: &Bytes) -> bool {
        self.unfenced.without(&self.signalled).overlaps(bytes)
    }

    /// A wait observes that `cp.async` of another partition wrote these bytes.
    pub(super) fn observe(&mut self, copied: &Bytes) {
        self.foreign.add(copied);
    }

    /// Would a read of these bytes by the async proxy miss copies of another partition?
    pub(super) fn hides_foreign(&self, bytes: &Bytes) -> bool {
        self.foreign.overlaps(bytes)
    }
}

/// Facts about the shared memory of a kernel.
#[derive(Clone, Copy)]
pub(super) struct Memory<'f> {
    /// The kernel.
    pub func: &'f Func,
    /// What its views are of.
    pub views: &'f Views,
    /// What its ops need.
    pub scratches: &'f Scratches,
}

/// The effects of each instruction on shared memory. Loops are walked several times: they are found once.
pub(super) struct Events(SecondaryMap<Inst, Vec<Event>>);

impl Events {
    /// Those of a kernel.
    pub(super) fn of_kernel(memory: Memory<'_>) -> Events {
        let mut all = SecondaryMap::new();
        for inst in memory.func.walk() {
            let found = events(memory, inst);
            if !found.is_empty() {
                all[inst] = found.into_vec();
            }
        }
        Events(all)
    }

    /// Those of one instruction, in order; of its regions none.
    pub(super) fn of(&self, inst: Inst) -> &[Event] {
        &self.0[inst]
    }
}

fn events(memory: Memory<'_>, inst: Inst) -> SmallVec<[Event; 3]> {
    let Memory { func, views, .. } = memory;
    let mut events = SmallVec::new();
    let rules = func.op(inst).rules();
    if rules.named_barrier().is_some() {
        events.push(Event::Signal);
    }
    if rules.effects().is_barrier {
        events.push(Event::CtaBarrier);
        return events;
    }
    if rules.is_async_fence() {
        events.push(Event::Fence);
    }
    if rules.publishes_barriers() {
        events.push(Event::BarriersKnown);
    }
    if let Some((reads, pending)) = rules.waits_for_async_reads() {
        events.push(Event::WaitForReads(reads, pending));
    }
    if let Some(pending) = rules.waits_for_copies() {
        events.push(Event::WaitForCopies(pending));
    }
    if rules.signals_copies() {
        events.push(Event::CopiesSignalled);
    }
    if !views.is_empty() {
        events.extend(accesses(func, views, inst));
    }
    events.extend(exchange(memory, inst));
    events
}

/// Accesses of an instruction to tiles: through its views, and of a tile that it allocates with elements.
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

/// Accesses of an instruction to its scratch, through which threads exchange elements.
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
        events.push(Event::CtaBarrier);
    }
    events.push(Event::Touch(SharedAccess::Read, bytes));
    if scope == BarrierScope::Cluster {
        events.push(Event::CtaBarrier);
    }
    events
}

/// The bytes that an instruction and its regions access through the async proxy.
pub(super) fn touched_by_async_proxy(func: &Func, events: &Events, inst: Inst) -> Bytes {
    let mut insts = vec![inst];
    for region in func.op(inst).regions() {
        func.walk_region(region, &mut insts);
    }
    let mut all = Bytes::default();
    for inst in insts {
        for event in events.of(inst) {
            if let Event::Touch(access, bytes) = event
                && access.is_asynchronous()
            {
                all.add(bytes);
            }
        }
    }
    all
}

/// The bytes that `cp.async` of a region writes and mbarriers signal, and those mbarriers.
pub(super) fn signalled_copies(func: &Func, events: &Events, region: Region) -> (Bytes, Bytes) {
    let mut insts = Vec::new();
    func.walk_region(region, &mut insts);
    let (mut copied, mut barriers) = (Bytes::default(), Bytes::default());
    for inst in insts {
        let is_signalled = func.op(inst).rules().signals_copies();
        for event in events.of(inst) {
            match event {
                Event::Touch(SharedAccess::Copy, bytes) => copied.add(bytes),
                Event::Touch(_, bytes) if is_signalled => barriers.add(bytes),
                _ => {}
            }
        }
    }
    (copied, barriers)
}
