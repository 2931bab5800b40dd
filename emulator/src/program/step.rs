//! Steps: what a warp executes.

use super::operand::{Access, Atomic, File};
use crate::lanes::{Exec, Linear, Slots};
use crate::program::{copy, matrix, sync};
use ptx::Special;

/// One step of execution.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Slot of the predicate that lets lanes take part; slot zero is always true.
    pub(crate) guard: u32,
    /// All ones when the predicate is negated.
    pub(crate) flip: u32,
    /// Index into [`Code::watches`], or [`NONE`].
    pub(crate) watch: u32,
    /// Index into [`Code::fragments`], or [`NONE`].
    pub(crate) fragments: u32,
    pub(crate) op: Op,
}

/// What a step does.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Lane by lane, without side effects.
    Lanes(Exec, Slots),
    /// The same on integers that may be wrong in an address.
    Linear(Box<Linear>),
    /// Faults where the divisor is zero.
    CheckDivisor {
        file: File,
        slot: u32,
        bits: u32,
    },
    /// Faults where an index is too large.
    CheckBound(Box<IndexBound>),
    /// To `target` where the guard holds. Paths reconverge at step `join`.
    Branch {
        target: u32,
        join: u32,
    },
    Exit,
    Trap,
    /// Lets others run.
    Sleep,
    /// An instruction that only concerns caches or ordering that the machine has anyway.
    Nothing,
    ReadClock {
        file: File,
        slot: u32,
        special: Special,
    },
    Load(Box<Access>),
    Store(Box<Access>),
    Atomic(Box<Atomic>),
    Shuffle(Box<Shuffle>),
    Vote {
        kind: ptx::VoteOp,
        dst: u32,
        src: u32,
        flip: u32,
        members: u32,
    },
    Match {
        all: bool,
        file: File,
        dst: u32,
        second: u32,
        src: u32,
        members: u32,
    },
    Redux {
        op: ptx::ReduxOp,
        signed: bool,
        dst: u32,
        src: u32,
        members: u32,
    },
    Elect {
        dst: u32,
        predicate: u32,
        members: u32,
    },
    ActiveMask {
        dst: u32,
    },
    WarpSync {
        members: u32,
    },
    Barrier(Box<Barrier>),
    MoveMatrix(Box<matrix::MoveMatrix>),
    TransposeMatrix {
        dst: u32,
        src: u32,
    },
    Multiply(Box<matrix::Multiply>),
    GroupMultiply(Box<matrix::GroupMultiply>),
    GroupFence,
    GroupCommit,
    GroupWait(u32),
    Mbarrier(Box<sync::MbarrierOp>),
    ThreadCopy(Box<copy::ThreadCopy>),
    ThreadGroup(copy::GroupOp),
    CopiesArrive {
        spot: Box<copy::Spot>,
        noinc: bool,
    },
    BulkCopy(Box<copy::BulkCopy>),
    BulkGroup(copy::GroupOp),
    TensorPrefetch(Box<copy::TensorBox>),
    /// Where a run begins, and the slot of its bytes.
    BulkPrefetch(Box<copy::Spot>, u32),
    RemoteStore(Box<copy::RemoteStore>),
    ReplaceField(Box<copy::ReplaceField>),
    /// Copies a tensor map from shared to global memory: destination and source.
    /// A tensor map that is acquired; none where the warp releases what it wrote.
    MapFence(Option<Box<copy::Spot>>),
    PublishMap(Box<(copy::Spot, copy::Spot)>),
    ClusterArrive {
        releases: bool,
    },
    ClusterWait,
    /// `fence.proxy.async` for shared memory, for global memory or for both.
    FenceAsync {
        shared: bool,
        global: bool,
    },
    /// `fence.mbarrier_init.release.cluster`
    FenceMbarrierInit,
    /// A memory fence.
    Fence {
        scope: ptx::Scope,
        acquires: bool,
        releases: bool,
    },
    /// `griddepcontrol.wait`
    LaunchWait,
    /// `griddepcontrol.launch_dependents`
    LaunchDependents,
    SetMaxRegisters {
        count: u32,
        increases: bool,
    },
    Print(Box<Print>),
    Assert(Box<AssertFail>),
}

/// An index that must be small enough.
#[derive(Clone, Debug)]
pub(crate) struct IndexBound {
    /// Where the register is: among those of 32 or of 64 bits.
    pub(crate) file: File,
    pub(crate) slot: u32,
    /// What is added to it.
    pub(crate) plus: i32,
    /// The number of values that are allowed.
    pub(crate) limit: u32,
    /// What it is an index of.
    pub(crate) what: String,
}

/// `shfl.sync`
#[derive(Clone, Debug)]
pub(crate) struct Shuffle {
    pub(crate) mode: ptx::ShflMode,
    pub(crate) dst: u32,
    /// Slot of the predicate that says whether the source lane was in range, or [`NONE`].
    pub(crate) in_range: u32,
    pub(crate) src: u32,
    pub(crate) lane: u32,
    pub(crate) clamp: u32,
    pub(crate) members: u32,
}

/// What a CTA barrier does besides synchronizing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    Sync,
    Arrive,
    Popc,
    And,
    Or,
}

/// `bar`, `barrier` and `bar.red`
#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    pub(crate) kind: BarrierKind,
    /// All lanes of the warp must be here together.
    pub(crate) aligned: bool,
    pub(crate) id: u32,
    /// Slot of the thread count, or [`NONE`] for the whole CTA.
    pub(crate) threads: u32,
    /// The predicate of `bar.red`.
    pub(crate) src: u32,
    pub(crate) flip: u32,
    pub(crate) dst: u32,
}

/// `vprintf`; offsets of its operands in local memory.
#[derive(Clone, Debug)]
pub(crate) struct Print {
    /// Generic address of the format.
    pub(crate) format: u32,
    /// Generic address of the packed arguments.
    pub(crate) arguments: u32,
    /// Where the count goes.
    pub(crate) result: Option<u32>,
}

/// `__assertfail`; offsets of its operands in local memory.
#[derive(Clone, Debug)]
pub(crate) struct AssertFail {
    pub(crate) message: u32,
    pub(crate) file: u32,
    pub(crate) line: u32,
    pub(crate) function: u32,
}
