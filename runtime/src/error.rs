//! Everything that can go wrong between a compiled kernel and its result.
//!
//! Each variant is one fact, its text is one clear line, and where there is a way out the line ends with it.

use std::fmt;

use gluon_lang::diag::Diagnostics;
use machine::Error as MachineError;

use crate::case::Mismatch;
use crate::cuda::CudaFailure;

/// The result of everything in this crate that talks to a device or to a tool.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as data: every field that the text shows can be matched on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// What this machine lacks: a driver, a GPU, ptxas; or what its tools have against the code.
    Machine(MachineError),
    /// An allocation did not fit.
    OutOfMemory {
        /// Bytes asked for.
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
        /// The name asked for.
        name: String,
    },
    /// A grid that no GPU can launch.
    BadGrid {
        /// The entry's name.
        kernel: String,
        /// `x`, `y` or `z`.
        axis: &'static str,
        /// CTAs asked for along it.
        count: u32,
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
        /// Dynamic shared memory asked for, bytes per CTA.
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
    /// Overlap with the launch before was asked for a kernel that never waits for it.
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
    /// Something that only a GPU can do was asked of the emulator.
    NotEmulated {
        /// What was asked for.
        what: &'static str,
    },
    /// Something was asked of a stream that is being captured, which has done nothing yet.
    Capturing {
        /// What was done to it.
        what: &'static str,
    },
    /// A graph was replayed whose buffer had been freed.
    BufferGone {
        /// Where the buffer was.
        address: u64,
    },
    /// Time was asked of an event that was never recorded.
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
        /// What was asked for.
        wanted: usize,
        /// The largest there is.
        largest: usize,
    },
    /// A case that compares nothing.
    NothingExpected {
        /// The case.
        case: String,
    },
    /// A case function panicked.
    CasePanicked {
        /// The case.
        case: String,
        /// Its file.
        file: String,
        /// The line of its name.
        line: u32,
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::OutOfMemory {
                asked_bytes,
                free_bytes,
                total_bytes,
            } => write!(
                f,
                "out of device memory: {asked_bytes} bytes asked, {free_bytes} free of {total_bytes}; use smaller sizes or free buffers"
            ),
            Error::Cuda(failure) => write!(f, "{failure}"),
            Error::Launch { kernel, failure } => write!(f, "launch of `{kernel}`: {failure}"),
            Error::KernelFailed { kernel, failure } => {
                write_kernel_failed(f, kernel.as_deref(), failure)
            }
            Error::Jit { failure, log } => {
                write!(f, "the driver's compiler rejected the PTX: {failure}")?;
                log.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            Error::NoSuchEntry { name } => write!(f, "the module has no entry `{name}`"),
            Error::BadGrid {
                kernel,
                axis,
                count,
                limit,
            } => write!(
                f,
                "launch of `{kernel}`: {count} CTAs along {axis}; there can be 1 to {limit}"
            ),
            Error::ParameterMismatch {
                kernel,
                wanted,
                given,
            } => write!(
                f,
                "launch of `{kernel}`: the arguments have {given:?} bytes, and its parameters {wanted:?}"
            ),
            Error::TooMuchSharedMemory {
                kernel,
                asked_bytes,
                limit_bytes,
            } => write!(
                f,
                "`{kernel}` wants {asked_bytes} bytes of shared memory per CTA, and this GPU allows {limit_bytes}; use smaller tiles or fewer stages"
            ),
            Error::ClusterGrid {
                kernel,
                axis,
                count,
                cluster,
            } => write!(
                f,
                "launch of `{kernel}`: {count} CTAs along {axis} cannot be cut into clusters of {cluster}; round the grid up to \
                 a multiple, and let the CTAs past the end do nothing"
            ),
            Error::ClusterTooLarge {
                kernel,
                cluster: [x, y, z],
            } => write!(
                f,
                "`{kernel}` has clusters of {x}×{y}×{z} CTAs, and there can be 16 in one, 8 on every Hopper GPU; use smaller \
                 clusters"
            ),
            Error::DoesNotFit {
                kernel,
                cluster: [x, y, z],
                threads,
                registers,
                shared_bytes,
            } => write!(
                f,
                "`{kernel}` cannot run: this GPU has no room for a cluster of {x}×{y}×{z} CTAs with {threads} threads of \
                 {registers} registers and {shared_bytes} bytes of shared memory each; use smaller clusters, smaller tiles \
                 or fewer warps"
            ),
            Error::NeverWaits { kernel } => write!(
                f,
                "`{kernel}` cannot overlap the launch before it, because it never waits for that one's results; call \
                 `launch_wait()` in it before the first access to them, or launch it without overlap"
            ),
            Error::Fault(fault) => write!(f, "{fault}"),
            Error::Emulator(error) => write!(f, "{error}"),
            Error::TensorMap(rule) => write!(f, "the tensor map cannot be made: {rule}"),
            Error::TensorArgument {
                kernel,
                parameter,
                rule,
            } => write!(
                f,
                "argument `{parameter}` of `{kernel}`: no tensor map can be made of it: {rule}"
            ),
            Error::PtxText(error) => write!(f, "the PTX could not be read: {error}"),
            Error::NotEmulated { what } => {
                write!(f, "the emulator does not run {what}; use a GPU for it")
            }
            Error::Capturing { what } => write!(
                f,
                "a stream was {what} while it is captured into a graph; do it before or after `Stream::capture`"
            ),
            Error::BufferGone { address } => write!(
                f,
                "a graph uses a buffer at {address:#x} that was freed; keep buffers as long as graphs that use them are replayed"
            ),
            Error::EventNotRecorded => {
                write!(f, "an event has no time before it is recorded on a stream")
            }
            Error::LengthMismatch { buffer, host } => write!(
                f,
                "the buffer holds {buffer} elements and the host side {host}; a copy needs equal lengths"
            ),
            Error::DeviceMismatch {
                what,
                belongs_to,
                used_on,
            } => write!(
                f,
                "{what} belongs to {belongs_to} and was used on {used_on}; make it on the device that uses it"
            ),
            Error::UnknownSize { case, name, known } => {
                write!(
                    f,
                    "case `{case}` has no size `{name}`; it has {}",
                    known.join(", ")
                )
            }
            Error::UnevenSizes { case, lengths } => {
                let lengths: Vec<String> = lengths
                    .iter()
                    .map(|(name, count)| format!("{count} of {name}"))
                    .collect();
                write!(
                    f,
                    "case `{case}`: the i-th values of all sizes go together, so lists must be of one length or a \
                     single value; there are {}",
                    lengths.join(", ")
                )
            }
            Error::CaseTooLarge {
                case,
                sizes,
                bytes,
                limit_bytes,
            } => write!(
                f,
                "case `{case}` at {sizes} has {bytes} bytes of tensors, and {limit_bytes} is the most here; choose \
                 smaller sizes with -s, or a larger machine"
            ),
            Error::WrittenOutside { output, index } => write!(
                f,
                "`{output}` was written at {index:?}, which the kernel must leave alone; mask the store"
            ),
            Error::NoInstance { wanted, largest } => write!(
                f,
                "a size of {wanted} is more than the largest instance of the kernel, {largest}; choose a smaller size with \
                 -s, or add an instance to the case"
            ),
            Error::NothingExpected { case } => write!(
                f,
                "case `{case}` compares nothing, so it cannot fail; call `case.expect(..)` for every output"
            ),
            Error::CasePanicked {
                case,
                file,
                line,
                message,
            } => write!(f, "case `{case}` ({file}:{line}) panicked: {message}"),
            Error::Misaligned {
                kernel,
                parameter,
                address,
                divisor,
            } => write!(
                f,
                "argument `{parameter}` of `{kernel}` is at address {address:#x}, which {divisor} does not divide; pass \
                 an aligned pointer, or promise less with #[multiple_of] on the parameter"
            ),
            Error::ReadonlyOverlap {
                kernel,
                readonly,
                written,
            } => write!(
                f,
                "the buffers of `{readonly}` and `{written}` of `{kernel}` overlap, but `{readonly}` is #[readonly] and \
                 `{written}` is stored to; pass separate buffers, or take #[readonly] away"
            ),
            Error::ReadonlyWrittenBefore { kernel, argument } => write!(
                f,
                "a launch that still runs may write the buffer of argument {argument} of `{kernel}`, which is #[readonly]; \
                 launch it without overlap, or take #[readonly] away"
            ),
            Error::NotMultiple {
                kernel,
                parameter,
                value,
                divisor,
            } => write!(
                f,
                "argument `{parameter}` of `{kernel}` is {value}, which {divisor} does not divide; the kernel promises \
                 it by #[multiple_of({divisor})]: pass a multiple, or take the promise back"
            ),
            Error::Spills {
                kernel,
                store_bytes,
                load_bytes,
            } => write!(
                f,
                "`{kernel}` spills {store_bytes} bytes of stores and {load_bytes} of loads per thread, which it \
                 denies; use smaller tiles or more warps"
            ),
            Error::Kernel(diagnostics) => write!(f, "{diagnostics}"),
            Error::WrongResult(mismatch) => write!(f, "{mismatch}"),
            Error::Peer { peer, reason } => write!(f, "{peer}: {reason}"),
            Error::PeerDisagrees { peer, mismatch } => write!(
                f,
                "{peer} and the kernel do not agree; check the kernel by `cargo tilekit run`, and the shapes given to the \
                 peer: {mismatch}"
            ),
            Error::Machine(error) => write!(f, "{error}"),
        }
    }
}

/// A failed kernel poisons its context, so the line names the kernel and the way to find the access.
fn write_kernel_failed(
    f: &mut fmt::Formatter<'_>,
    kernel: Option<&str>,
    failure: &CudaFailure,
) -> fmt::Result {
    match kernel {
        Some(kernel) => write!(f, "`{kernel}` failed on the GPU: {failure}")?,
        None => write!(f, "work on the GPU failed: {failure}")?,
    }
    write!(
        f,
        "; every later call in this process fails too; run it on the emulator, which names the access and its line"
    )
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
            _ => None,
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
