//! The executable form of a module.

pub(crate) mod copy;
pub(crate) mod matrix;
pub(crate) mod sync;

use crate::fault::Place;
use crate::lanes::{Exec, Slots};
use ptx::{Directives, Module, Special};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// "No such thing" among indices.
pub(crate) const NONE: u32 = u32::MAX;

/// A module in executable form: every entry decoded once, for any number of launches.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) module: Arc<Module>,
    pub(crate) entries: Vec<Arc<Code>>,
    /// Identifies the program, so that an emulator keeps its `.global` variables.
    pub(crate) id: u64,
    pub(crate) globals: Vec<GlobalImage>,
}

/// A `.global` variable of the module with its contents at start.
#[derive(Clone, Debug)]
pub(crate) struct GlobalImage {
    pub(crate) bytes: u64,
    pub(crate) init: Option<Vec<u8>>,
}

/// Why a module cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The entry.
    pub entry: String,
    /// The instruction, when it is about one.
    pub ptx: String,
    /// Where the author wrote it.
    pub place: Option<Box<Place>>,
    /// What is wrong, in a sentence.
    pub message: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kernel {} cannot be emulated: {}",
            self.entry, self.message
        )?;
        if !self.ptx.is_empty() {
            write!(f, "\n  PTX: {}", self.ptx)?;
        }
        if let Some(place) = &self.place {
            write!(f, "\n  at {place}")?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {}

/// A kernel in executable form.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) name: String,
    pub(crate) directives: Directives,
    pub(crate) steps: Vec<Step>,
    /// Where each step comes from.
    pub(crate) sites: Vec<Site>,
    /// Calls through which inlined functions came to their place.
    pub(crate) calls: Vec<InlinedCall>,
    pub(crate) files: FileSizes,
    pub(crate) constants: Vec<(File, u32, Constant)>,
    /// Registers that some path may read before writing, and the steps that use them.
    pub(crate) watches: Vec<Watch>,
    pub(crate) watched_count: u32,
    /// Registers of asynchronous products that other instructions touch, by step.
    pub(crate) fragments: Vec<SmallVec<[u32; 4]>>,
    pub(crate) params: Vec<ParamSlot>,
    pub(crate) param_bytes: u32,
    pub(crate) static_shared_bytes: u32,
    /// The smallest access to shared memory has two to this power bytes, or is a word.
    pub(crate) shared_granule_bits: u32,
    /// Alignment of the dynamic shared memory, which follows the static one.
    pub(crate) dynamic_shared_align: u32,
    pub(crate) local_bytes: u32,
    pub(crate) const_image: Vec<u8>,
}

/// Number of registers of each file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileSizes {
    pub(crate) words: u32,
    pub(crate) doubles: u32,
    pub(crate) predicates: u32,
}

/// Register files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum File {
    Word,
    Double,
    Predicate,
}

/// A register that the machine fills in before a warp starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    Bits(u64),
    Special(Special),
    /// Address of a `.global` variable plus an offset.
    Global(u32, i64),
    /// Start of the dynamic shared memory plus an offset.
    DynamicShared(i64),
}

/// A parameter of an entry.
#[derive(Clone, Debug)]
pub(crate) struct ParamSlot {
    pub(crate) name: String,
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
}

/// Where a step comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    /// Index of the statement in its body.
    pub(crate) statement: u32,
    /// Index into [`Code::calls`], or [`NONE`] for the entry itself.
    pub(crate) call: u32,
    /// The step stands for the PTX instruction; others prepare or finish it.
    pub(crate) is_lead: bool,
}

/// A call whose function was put in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InlinedCall {
    /// Index of the function in the module.
    pub(crate) function: u32,
    /// Where the call stands.
    pub(crate) site: Site,
}

/// Registers of a step that need a look at run time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    pub(crate) reads: SmallVec<[Watched; 2]>,
    pub(crate) writes: SmallVec<[u32; 2]>,
}

/// A register whose first write is watched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    /// Number among the watched registers.
    pub(crate) index: u32,
    /// The PTX register, for messages.
    pub(crate) reg: ptx::Reg,
    /// Only lanes in which this predicate slot is true (or false) read it: the operands of `selp`.
    pub(crate) only_if: Option<(u32, bool)>,
    /// It is the guard, which lanes read that then do not take part.
    pub(crate) is_guard: bool,
}

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

/// An index that must be small enough.
#[derive(Clone, Debug)]
pub(crate) struct IndexBound {
    /// Slot of a 32-bit register.
    pub(crate) slot: u32,
    /// What is added to it.
    pub(crate) plus: i32,
    /// The number of values that are allowed.
    pub(crate) limit: u32,
    /// What it is an index of.
    pub(crate) what: String,
}

/// What a step does.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Lane by lane, without side effects.
    Lanes(Exec, Slots),
    /// Faults where the divisor is zero.
    CheckDivisor {
        file: File,
        slot: u32,
        bits: u32,
    },
    /// Faults where an index is too large.
    CheckBound(Box<IndexBound>),
    /// To `target` where the guard holds. Paths meet again at step `join`.
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
    /// A tensor map that is acquired; none where the warp releases what it made.
    MapFence(Option<Box<copy::Spot>>),
    PublishMap(Box<(copy::Spot, copy::Spot)>),
    ClusterArrive {
        releases: bool,
    },
    ClusterWait,
    /// `fence.proxy.async`
    FenceAsync,
    SetMaxRegisters {
        count: u32,
        increases: bool,
    },
    Print(Box<Print>),
    Assert(Box<AssertFail>),
}

/// State spaces as accesses see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AccessSpace {
    Generic,
    Global,
    Shared,
    SharedCluster,
    Local,
    Const,
    Param,
}

/// The register that an address starts from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressBase {
    pub(crate) file: File,
    pub(crate) slot: u32,
    pub(crate) offset: i64,
}

/// How an element of memory becomes a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extend {
    Zero,
    Sign,
}

/// A register as part of a memory access; a 128-bit one is two doubles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) file: File,
    pub(crate) slot: u32,
    /// Bits of the register that an extended value fills.
    pub(crate) bits: u32,
}

/// A load or a store.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) space: AccessSpace,
    pub(crate) base: AddressBase,
    /// Bytes of an element: 1, 2, 4 or 8 (16-byte elements are two of 8).
    pub(crate) element: u32,
    /// Bytes per lane.
    pub(crate) bytes: u32,
    /// The access orders itself (volatile, relaxed and stronger), so that it cannot race.
    pub(crate) is_strong: bool,
    pub(crate) extend: Extend,
    /// One per element.
    pub(crate) cells: SmallVec<[Cell; 4]>,
}

/// What an atomic does to its element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
    Exchange,
    CompareSwap,
}

/// An atomic read-modify-write, with or without a result.
#[derive(Clone, Debug)]
pub(crate) struct Atomic {
    pub(crate) space: AccessSpace,
    pub(crate) base: AddressBase,
    pub(crate) op: AtomicOp,
    pub(crate) ty: ptx::Type,
    pub(crate) dsts: SmallVec<[Option<Cell>; 4]>,
    pub(crate) sources: SmallVec<[Cell; 4]>,
    /// The new value of `cas`.
    pub(crate) swap: Option<Cell>,
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

/// What a CTA barrier does besides meeting.
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

impl Program {
    /// Names of the entries, in the order of the module.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|code| code.name.as_str())
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&Arc<Code>> {
        self.entries.iter().find(|code| code.name == name)
    }
}
