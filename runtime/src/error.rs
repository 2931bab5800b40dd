//! Everything that can go wrong between a compiled kernel and its result.
//!
//! Each variant is one fact; what it says stands in `text`.

mod text;

use std::time::Duration;

use diag::Diagnostics;
use machine::Error as MachineError;
use machine::cupti::Failure;
use target::Target;

use crate::case::Mismatch;
use crate::cuda::CudaFailure;

/// The result of everything in this crate that talks to a device or to a tool.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as data: every field that the text shows can be matched on.
#[derive(Clone)]
#[non_exhaustive]
pub enum Error {
    /// What this machine lacks: a driver, a GPU, ptxas; or what its tools have against the code.
    Machine(MachineError),
    /// An allocation did not fit.
    OutOfMemory {
        /// Bytes requested.
        asked_bytes: usize,
        /// Bytes that were free at that moment.
        free_bytes: usize,
        /// Bytes that the device has in all.
        total_bytes: usize,
    },
    /// Any other refusal by the driver.
    Cuda(CudaFailure),
    /// The driver refused a launch.
    Launch {
        /// The entry's name.
        kernel: String,
        /// The driver's answer.
        failure: CudaFailure,
    },
    /// A kernel that had been launched ended badly; it is noticed at the next synchronisation.
    KernelFailed {
        /// The last entry that was launched on the stream, if any was.
        kernel: Option<String>,
        /// The driver's answer.
        failure: CudaFailure,
    },
    /// The driver's own compiler rejected the PTX.
    Jit {
        /// The driver's answer.
        failure: CudaFailure,
        /// The compiler's log, one message a line.
        log: Vec<String>,
    },
    /// A module has no entry of this name.
    NoSuchEntry {
        /// The name requested.
        name: String,
    },
    /// A grid that no GPU can launch.
    BadGrid {
        /// The entry's name.
        kernel: String,
        /// `x`, `y` or `z`.
        axis: &'static str,
        /// CTAs requested along it.
        count: i64,
        /// The most that there can be.
        limit: u32,
    },
    /// Packed parameters that do not fit the entry.
    ParameterMismatch {
        /// The entry's name.
        kernel: String,
        /// Size of each parameter that the loaded code has, bytes.
        wanted: Vec<u32>,
        /// Size of each argument that was packed, bytes.
        given: Vec<u32>,
    },
    /// A kernel wants more shared memory than a CTA of this GPU can have.
    TooMuchSharedMemory {
        /// The entry's name.
        kernel: String,
        /// Dynamic shared memory requested, bytes per CTA.
        asked_bytes: u32,
        /// What the GPU allows, bytes per CTA.
        limit_bytes: u32,
    },
    /// A grid that cannot be cut into clusters.
    ClusterGrid {
        /// The kernel.
        kernel: String,
        /// The axis.
        axis: &'static str,
        /// CTAs along it.
        count: u32,
        /// CTAs of a cluster along it.
        cluster: u32,
    },
    /// A cluster of more CTAs than any GPC has room for.
    ClusterTooLarge {
        /// The kernel.
        kernel: String,
        /// CTAs of a cluster in x, y and z.
        cluster: [u32; 3],
        /// The machine whose limit it is.
        target: &'static Target,
    },
    /// A launch of a `#[kernel(cooperative)]` with more CTAs than the device holds at a time.
    GridNotResident {
        /// The kernel.
        kernel: String,
        /// CTAs of the grid.
        ctas: u64,
        /// CTAs that the device holds at a time.
        resident: u64,
    },
    /// A kernel that the device can hold nowhere: one CTA, or one cluster, asks for too much.
    DoesNotFit {
        /// The kernel.
        kernel: String,
        /// CTAs of a cluster in x, y and z.
        cluster: [u32; 3],
        /// Threads of a CTA.
        threads: u32,
        /// Registers of a thread.
        registers: u32,
        /// Shared memory of a CTA, bytes.
        shared_bytes: u32,
    },
    /// A number of devices that cannot run as one, or a launch that does not fit them.
    Ranks {
        /// What is wrong, and what can be.
        message: String,
    },
    /// A case for more ranks than there are GPUs.
    TooFewGpus {
        /// The ranks of the case.
        ranks: usize,
        /// The GPUs that the driver sees.
        gpus: usize,
    },
    /// Two GPUs of which one cannot access the memory of the other.
    NoPeerAccess {
        /// The rank that would access.
        from: usize,
        /// The rank whose memory it is.
        to: usize,
    },
    /// A launch on several GPUs that did not end in time: some rank waits for a signal that does not come.
    RanksLate {
        /// The kernel.
        kernel: String,
        /// The ranks on which it still runs.
        late: Vec<usize>,
        /// How many ranks there are.
        ranks: usize,
        /// The limit that it passed.
        limit: Duration,
        /// What ranks ended with that failed: the others may wait for them.
        failed: Vec<RankFailure>,
    },
    /// What the work of ranks ended with, at least one. That of the other ranks has ended well.
    RanksFailed(Vec<RankFailure>),
    /// Overlap with the launch before was requested a kernel that never waits for it.
    NeverWaits {
        /// The kernel.
        kernel: String,
    },
    /// A kernel did something on the emulator that PTX forbids or leaves undefined.
    Fault(Box<emulator::Fault>),
    /// A module that the emulator cannot execute.
    Emulator(Box<emulator::LoadError>),
    /// A tensor map that the hardware would refuse, with the rule that is broken.
    TensorMap(String),
    /// An argument of which the tensor map that the kernel wants cannot be made, with the rule that is broken.
    TensorArgument {
        /// The kernel.
        kernel: String,
        /// The parameter's name.
        parameter: String,
        /// What is wrong.
        rule: String,
    },
    /// PTX text that could not be read.
    PtxText(Box<ptx::ParseError>),
    /// Something that only a GPU can do was requested of the emulator.
    NotEmulated {
        /// What was requested.
        what: &'static str,
    },
    /// Something was requested of a stream that is being captured, which has done nothing yet.
    Capturing {
        /// What was done to it.
        what: &'static str,
    },
    /// Pages were to be moved of a buffer that is not unified.
    NotUnified,
    /// A graph was replayed whose buffer had been freed.
    BufferGone {
        /// Where the buffer was.
        address: u64,
    },
    /// Time was requested of an event that was never recorded.
    EventNotRecorded,
    /// A copy between host and device of different lengths.
    LengthMismatch {
        /// Elements in the device buffer.
        buffer: usize,
        /// Elements on the host side.
        host: usize,
    },
    /// A buffer, stream or kernel of one device was used on another.
    DeviceMismatch {
        /// What was used.
        what: &'static str,
        /// The device it belongs to.
        belongs_to: String,
        /// The device it was used on.
        used_on: String,
    },
    /// An override of a size that a case does not have.
    UnknownSize {
        /// The case.
        case: String,
        /// The name that was given.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// Lists of sizes that cannot go together.
    UnevenSizes {
        /// The case.
        case: String,
        /// File and line where it is declared, if they are known.
        place: Option<String>,
        /// Name and number of values of each list.
        lengths: Vec<(String, usize)>,
    },
    /// A case with more bytes of tensors than its device is to be given.
    CaseTooLarge {
        /// The case.
        case: String,
        /// The sizes of this run.
        sizes: String,
        /// Bytes of all tensors together.
        bytes: usize,
        /// The most that is allowed.
        limit_bytes: usize,
    },
    /// A kernel wrote an element that it must leave alone.
    WrittenOutside {
        /// The output's name.
        output: String,
        /// Where it was written.
        index: Vec<usize>,
    },
    /// A size for which a case has no instance of its kernel.
    NoInstance {
        /// What was requested.
        wanted: usize,
        /// The largest there is.
        largest: usize,
    },
    /// A case that compares nothing.
    NothingExpected {
        /// The case.
        case: String,
    },
    /// The space of a case has no candidate to choose, or they cannot be told apart.
    BadSpace {
        /// The case.
        case: String,
        /// What is wrong, and what to write.
        why: String,
    },
    /// A line of what `cargo tilekit tune` wrote cannot be read.
    BadRecord {
        /// Which, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A case function panicked.
    CasePanicked {
        /// The case.
        case: String,
        /// Where, as `file:line:column`.
        place: String,
        /// What it said.
        message: String,
    },
    /// A pointer argument that is less aligned than the kernel was compiled for.
    Misaligned {
        /// The kernel.
        kernel: String,
        /// The parameter's name.
        parameter: String,
        /// The address passed.
        address: u64,
        /// What must divide it, bytes.
        divisor: u32,
    },
    /// A buffer that the kernel only reads, by its `#[readonly]`, overlaps one that it stores to.
    ReadonlyOverlap {
        /// The kernel.
        kernel: String,
        /// The parameter that is only read.
        readonly: String,
        /// The parameter that is stored through.
        written: String,
    },
    /// A launch that overlaps earlier ones (programmatic dependent launch), one of which writes a buffer that the kernel
    /// only reads by its `#[readonly]`.
    ReadonlyWrittenBefore {
        /// The kernel.
        kernel: String,
        /// The number of the argument, from 1.
        argument: usize,
    },
    /// Elements that a mapped buffer does not have.
    OutsideOfMapped {
        /// The elements.
        range: std::ops::Range<usize>,
        /// How many it has.
        len: usize,
    },
    /// A wait of the host for a flag in mapped memory that no kernel is left to set.
    NeverSet {
        /// The flag's element.
        index: usize,
        /// What it holds.
        seen: i32,
    },
    /// An integer argument that is not divisible as the kernel was promised by `#[multiple_of]`.
    NotMultiple {
        /// The kernel.
        kernel: String,
        /// The parameter's name.
        parameter: String,
        /// The value passed.
        value: i128,
        /// What must divide it.
        divisor: u32,
    },
    /// Registers were spilled by a kernel that forbids it with `#[kernel(deny(spills))]`.
    Spills {
        /// The kernel.
        kernel: String,
        /// Bytes stored per thread.
        store_bytes: u32,
        /// Bytes loaded per thread.
        load_bytes: u32,
    },
    /// What is wrong with a kernel's source.
    Kernel(Diagnostics),
    /// A kernel's result does not agree with its reference.
    WrongResult(Box<Mismatch>),
    /// A library that a kernel is timed beside failed.
    Peer {
        /// The library's function.
        peer: &'static str,
        /// What it said.
        reason: String,
    },
    /// A peer's results are not those of the kernel: one of the two is wrong.
    PeerDisagrees {
        /// The peer.
        peer: String,
        /// Where they differ; what is wanted is the kernel's.
        mismatch: Box<Mismatch>,
    },
}

/// What the work of one rank ended with.
#[derive(Clone, Debug)]
pub struct RankFailure {
    /// The rank.
    pub rank: usize,
    /// What it is.
    pub error: Box<Error>,
    /// What it waited for in vain, if its kernel ended by the limit of a wait ([`SignalsWithin`](library::SignalsWithin)) and said so in [`World::late`](crate::World::late).
    pub missing: Option<MissingSignals>,
}

/// Signals that have not come within the limit of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingSignals {
    /// The slot that was waited for.
    pub slot: u32,
    /// How many signals were missing.
    pub count: u32,
}

impl MissingSignals {
    /// What a wait stored; none for 0.
    pub(crate) fn of_word(word: i64) -> Option<MissingSignals> {
        (word != 0).then_some(MissingSignals {
            slot: (word >> 32) as u32,
            count: word as u32,
        })
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Cuda(failure)
            | Error::Launch { failure, .. }
            | Error::KernelFailed { failure, .. }
            | Error::Jit { failure, .. } => Some(failure),
            Error::Machine(error) => error.source(),
            Error::WrongResult(mismatch) => Some(mismatch.as_ref()),
            Error::RanksFailed(failed) => failed.first()?.error.source(),
            _ => None,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        Error::Machine(failure.into())
    }
}

impl From<emulator::WorldError> for Error {
    fn from(error: emulator::WorldError) -> Error {
        Error::Ranks {
            message: error.to_string(),
        }
    }
}

impl From<Box<emulator::Fault>> for Error {
    fn from(fault: Box<emulator::Fault>) -> Error {
        Error::Fault(fault)
    }
}

impl From<emulator::LoadError> for Error {
    fn from(error: emulator::LoadError) -> Error {
        Error::Emulator(Box::new(error))
    }
}

impl From<ptx::ParseError> for Error {
    fn from(error: ptx::ParseError) -> Error {
        Error::PtxText(Box::new(error))
    }
}

impl From<Diagnostics> for Error {
    fn from(diagnostics: Diagnostics) -> Error {
        Error::Kernel(diagnostics)
    }
}

impl From<Box<Mismatch>> for Error {
    fn from(mismatch: Box<Mismatch>) -> Error {
        Error::WrongResult(mismatch)
    }
}

impl From<CudaFailure> for Error {
    fn from(failure: CudaFailure) -> Error {
        Error::Cuda(failure)
    }
}

impl From<MachineError> for Error {
    fn from(error: MachineError) -> Error {
        match error {
            // One way to say it, whoever called the driver.
            MachineError::Cuda(failure) => Error::Cuda(failure),
            other => Error::Machine(other),
        }
    }
}
