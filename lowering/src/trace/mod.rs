//! Traced builds: what they record, and what the ids in their records mean.
//!
//! A traced kernel has one parameter more, a buffer in global memory. One thread of each recorder (the kernel's own warps, and each worker of
//! `warp_specialize`) writes there, for CTA `c` and recorder `r` from byte `(c * recorders + r) * stride` on:
//!
//! ```text
//!  0  u32 smid, u32 CTA, u32 recorder, u32 HEADER_MARK
//! 16  u64 globaltimer, u64 clock64    when it began; the first word is 0 but for recorder 0
//! 32  u64 globaltimer, u64 clock64    when it ended; the same
//! 48  u32 bytes of all records it made, u32 0, u32 HEADER_MARK once it has ended, u32 0
//! 64  records of 8 bytes: u32 (id << 20 | phase << 18 | payload), u32 clock
//! ```
//!
//! A ring keeps the first or the last records; those made beyond are counted. The payload of 18 bits is the address of an mbarrier in shared
//! memory (a multiple of 8, below 256 KiB), with the parity waited for in its lowest bit, or what the author gave to a mark.
//!
//! Matches on ops: marks are what a build that is not traced leaves out.

mod events;

use std::sync::Arc;

use diag::Place;
use ir::Func;
use ir::ops::{Op, flow};

pub use events::Levels;
pub(crate) use events::event;

/// How much is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceLevel {
    /// Partitions, waits for the launch before, and the author's marks.
    Partitions,
    /// Also loops over steps, each as a whole, and what stands outside of them: epilogues, the prologue.
    Tiles,
    /// Also what happens in each step.
    Steps,
}

/// Which records a full ring keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keep {
    /// The first.
    First,
    /// The last.
    Last,
}

/// What a traced build records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceOptions {
    /// How much.
    pub level: TraceLevel,
    /// Which records are kept where there are more than fit.
    pub keep: Keep,
    /// Records that a recorder keeps in each CTA: a power of two from [`LEAST_RECORDS`] to [`MOST_RECORDS`].
    pub records: u32,
}

/// The smallest ring.
pub const LEAST_RECORDS: u32 = 8;
/// The largest ring: 8 MiB.
pub const MOST_RECORDS: u32 = 1 << 20;

/// Bytes in front of the records of a recorder.
pub const HEADER_BYTES: u32 = 64;
/// Bytes of a record.
pub const RECORD_BYTES: u32 = 8;
/// What shows that a header was written.
pub const HEADER_MARK: u32 = 0x7ace_0001;
/// Bits of the payload, below the phase.
pub const PAYLOAD_BITS: u32 = 18;
/// Bits of payload and phase, below the id.
pub const ID_SHIFT: u32 = 20;
/// More places than ids cannot be told apart.
pub const MOST_EVENTS: usize = 1 << (32 - ID_SHIFT);

/// The phase of a record: something begins, ends, or happens at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Begins.
    Begin = 0,
    /// Ends.
    End = 1,
    /// Happens at once.
    Instant = 2,
}

/// What happens at a place of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Waits for a phase of an mbarrier.
    Wait,
    /// A copy into shared memory is issued, which an mbarrier counts.
    Copy,
    /// Copies out of shared memory are issued, as a group.
    StoreIssue,
    /// Waits for groups of copies out of shared memory.
    StoreWait,
    /// Products of a warpgroup are committed.
    Products,
    /// Waits for products.
    ProductsWait,
    /// Waits at a barrier of the CTA or at a named one.
    Barrier,
    /// Arrives at a named barrier without waiting.
    BarrierArrive,
    /// Waits at the barrier of the cluster.
    ClusterBarrier,
    /// Waits for groups of `cp.async`.
    ThreadCopyWait,
    /// Stores to global memory.
    Store,
    /// Waits for the launch before.
    LaunchWait,
    /// Lets the next launch begin.
    LaunchDependents,
    /// A loop over steps.
    Loop,
    /// A mark of the author's.
    Mark,
    /// A range of the author's.
    Range,
}

impl EventKind {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::Wait => "wait",
            EventKind::Copy => "copy",
            EventKind::StoreIssue => "store-issue",
            EventKind::StoreWait => "store-wait",
            EventKind::Products => "products",
            EventKind::ProductsWait => "products-wait",
            EventKind::Barrier => "barrier",
            EventKind::BarrierArrive => "barrier-arrive",
            EventKind::ClusterBarrier => "cluster-barrier",
            EventKind::ThreadCopyWait => "cp-async-wait",
            EventKind::Store => "store",
            EventKind::LaunchWait => "launch-wait",
            EventKind::LaunchDependents => "launch-dependents",
            EventKind::Loop => "loop",
            EventKind::Mark => "mark",
            EventKind::Range => "range",
        }
    }

    /// Does the warp stand still meanwhile, for others?
    pub const fn is_wait(self) -> bool {
        matches!(
            self,
            EventKind::Wait
                | EventKind::StoreWait
                | EventKind::ProductsWait
                | EventKind::Barrier
                | EventKind::ClusterBarrier
                | EventKind::ThreadCopyWait
                | EventKind::LaunchWait
        )
    }
}

/// What an id of a record means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// What happens.
    pub kind: EventKind,
    /// The name that the kernel gives: of the tensor, of the barrier, of the mark.
    pub name: Option<Arc<str>>,
    /// Where what is named was made: an mbarrier, whose variable stands there.
    pub origin: Option<Place>,
    /// The author's place.
    pub place: Option<Place>,
    /// Bytes that a copy moves, as far as the kernel knows them; 0 otherwise.
    pub bytes: u64,
    /// Multiplications and additions of products; 0 otherwise.
    pub operations: u64,
    /// Groups that may stay in flight behind a wait.
    pub pending: u32,
}

/// Who records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorder {
    /// Its first warp in the CTA.
    pub first_warp: u32,
    /// Its warps.
    pub warps: u32,
    /// Where the partition was given; none for a kernel without partitions.
    pub place: Option<Place>,
}

/// What the records of a traced build mean: the table beside its PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceTable {
    /// What is recorded.
    pub options: TraceOptions,
    /// The recorders of a CTA.
    pub recorders: Vec<Recorder>,
    /// By id.
    pub events: Vec<TraceEvent>,
}

impl TraceTable {
    /// A table without events for a kernel.
    pub(crate) fn new(func: &Func, options: TraceOptions) -> TraceTable {
        TraceTable {
            options,
            recorders: recorders(func),
            events: Vec::new(),
        }
    }

    /// From one recorder to the next, bytes. The place behind the last record takes those that a ring of first records drops.
    pub fn stride_bytes(&self) -> u32 {
        HEADER_BYTES + (self.options.records + 2) * RECORD_BYTES
    }

    /// Bytes of the buffer of a launch.
    pub fn buffer_bytes(&self, ctas: u64) -> u64 {
        ctas * self.recorders.len() as u64 * u64::from(self.stride_bytes())
    }
}

fn recorders(func: &Func) -> Vec<Recorder> {
    let parting = func.region(func.body).insts.iter();
    let parting = parting
        .copied()
        .find_map(|inst| flow::partitions(func.op(inst)));
    let Some(op) = parting else {
        return vec![Recorder {
            first_warp: 0,
            warps: func.warps,
            place: None,
        }];
    };
    let partitions = op.partitions.0.iter().enumerate();
    partitions
        .map(|(at, &region)| Recorder {
            first_warp: op.first_warp(at),
            warps: op.warps[at],
            // The end of a partition stands where it was given.
            place: func
                .region(region)
                .insts
                .last()
                .and_then(|&end| func.place(end)),
        })
        .collect()
}

/// Takes the author's marks out of a kernel that is not traced.
pub(crate) fn remove_marks(func: &mut Func) {
    for inst in func.walk() {
        if matches!(func.op(inst), Op::Mark(_)) {
            func.remove(inst);
        }
    }
}
