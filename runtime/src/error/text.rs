//! What each error says: one clear line, with the help at its end where there is one.

use std::fmt;

use super::{Error, MissingSignals, RankFailure};
use crate::cuda::CudaFailure;

/// Of each rank what it ended with.
fn write_failures(f: &mut fmt::Formatter<'_>, failed: &[RankFailure]) -> fmt::Result {
    for (at, failure) in failed.iter().enumerate() {
        let RankFailure { rank, error, .. } = failure;
        write!(f, "{}rank {rank}: ", if at == 0 { "" } else { "; " })?;
        if let Some(MissingSignals { slot, count }) = failure.missing {
            write!(
                f,
                "slot {slot} was waited for in vain, {count} of the signals did not come within the limit of the wait: "
            )?;
        }
        write!(f, "{error}")?;
    }
    Ok(())
}

/// The text: what `unwrap` and a `main` that returns an error print is read by an author.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory { .. }
            | Self::Cuda(..)
            | Self::Launch { .. }
            | Self::KernelFailed { .. }
            | Self::Jit { .. }
            | Self::NoSuchEntry { .. }
            | Self::DeviceMismatch { .. }
            | Self::LengthMismatch { .. }
            | Self::Machine(..) => self.write_of_device(f),
            Self::BadGrid { .. }
            | Self::TooMuchSharedMemory { .. }
            | Self::ClusterGrid { .. }
            | Self::ClusterTooLarge { .. }
            | Self::GridNotResident { .. }
            | Self::DoesNotFit { .. } => self.write_of_size(f),
            Self::ParameterMismatch { .. }
            | Self::TensorMap(..)
            | Self::TensorArgument { .. }
            | Self::Misaligned { .. }
            | Self::NotMultiple { .. }
            | Self::ReadonlyOverlap { .. }
            | Self::ReadonlyWrittenBefore { .. } => self.write_of_argument(f),
            Self::Ranks { .. }
            | Self::TooFewGpus { .. }
            | Self::NoPeerAccess { .. }
            | Self::RanksFailed(..)
            | Self::RanksLate { .. } => self.write_of_ranks(f),
            Self::NeverWaits { .. }
            | Self::NotEmulated { .. }
            | Self::Capturing { .. }
            | Self::BufferGone { .. }
            | Self::NotUnified
            | Self::OutsideOfMapped { .. }
            | Self::NeverSet { .. }
            | Self::EventNotRecorded => self.write_of_use(f),
            Self::UnknownSize { .. }
            | Self::UnevenSizes { .. }
            | Self::CaseTooLarge { .. }
            | Self::WrittenOutside { .. }
            | Self::NoInstance { .. }
            | Self::NothingExpected { .. }
            | Self::BadSpace { .. }
            | Self::BadRecord { .. }
            | Self::CasePanicked { .. }
            | Self::WrongResult(..)
            | Self::Peer { .. }
            | Self::PeerDisagrees { .. } => self.write_of_case(f),
            Self::Kernel(..)
            | Self::PtxText(..)
            | Self::Emulator(..)
            | Self::Fault(..)
            | Self::Spills { .. } => self.write_of_code(f),
        }
    }
}

impl Error {
    /// Errors of memory, the driver and its compiler.
    fn write_of_device(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory {
                asked_bytes,
                free_bytes,
                total_bytes,
            } => write!(
                f,
                "out of device memory: {asked_bytes} bytes asked, {free_bytes} free of {total_bytes}; use smaller sizes or free buffers"
            ),
            Self::Cuda(failure) => write!(f, "{failure}"),
            Self::Launch { kernel, failure } => write!(f, "launch of `{kernel}`: {failure}"),
            Self::KernelFailed { kernel, failure } => {
                write_kernel_failed(f, kernel.as_deref(), failure)
            }
            Self::Jit { failure, log } => {
                write!(f, "the driver's compiler rejected the PTX: {failure}")?;
                log.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            Self::NoSuchEntry { name } => write!(f, "the module has no entry `{name}`"),
            Self::DeviceMismatch {
                what,
                belongs_to,
                used_on,
            } if belongs_to == used_on => write!(
                f,
                "{what} belongs to another {belongs_to} than the one that it was used on; use one `Device`, cloned, for objects that are used together"
            ),
            Self::DeviceMismatch {
                what,
                belongs_to,
                used_on,
            } => write!(
                f,
                "{what} belongs to {belongs_to} and was used on {used_on}; make it on the device that uses it"
            ),
            Self::LengthMismatch { buffer, host } => write!(
                f,
                "the buffer holds {buffer} elements and the host side {host}; a copy needs equal lengths"
            ),
            Self::Machine(error) => write!(f, "{error}"),
            _ => unreachable!("{self:?} is written by another function"),
        }
    }

    /// Several devices.
    fn write_of_ranks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ranks { message } => f.write_str(message),
            Self::TooFewGpus { ranks, gpus } => write!(
                f,
                "{ranks} ranks are {ranks} GPUs, and the driver sees {gpus}; choose `--devices {gpus}`, or as many emulated devices as you like by `--device emulator`"
            ),
            Self::NoPeerAccess { from, to } => write!(
                f,
                "GPU {from} cannot access the memory of GPU {to}: they have no peer connection; choose GPUs that have one by `CUDA_VISIBLE_DEVICES` \
                 (`nvidia-smi topo -p2p r` shows which)"
            ),
            Self::RanksLate {
                kernel,
                late,
                ranks,
                limit,
                failed,
            } => {
                write!(
                    f,
                    "`{kernel}` did not end within {} s on {} of {ranks} ranks: {late:?}; ",
                    limit.as_secs_f64(),
                    late.len()
                )?;
                if failed.is_empty() {
                    f.write_str(
                        "each waits for a signal of another rank, or never ends; run it on as many emulated devices (`World::emulators`), which name the flag, \
                         its value and who wrote it",
                    )?;
                } else {
                    f.write_str("they may wait for what failed: ")?;
                    write_failures(f, failed)?;
                }
                f.write_str(". Only the end of this process gets the GPUs back")
            }
            Self::RanksFailed(failed) => write_failures(f, failed),
            _ => unreachable!("{self:?} is written by another function"),
        }
    }

    /// Launches that do not fit the GPU.
    fn write_of_size(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadGrid {
                kernel,
                axis,
                count,
                limit,
            } => {
                let help = if *count < 1 {
                    "where there is nothing to do, launch nothing; with a bound check in the kernel, one CTA does"
                } else {
                    "let each CTA work on several tiles, in a loop of the kernel, or spread them over two axes"
                };
                write!(
                    f,
                    "launch of `{kernel}`: {count} CTAs along {axis}; there can be 1 to {limit}: {help}"
                )
            }
            Self::TooMuchSharedMemory {
                kernel,
                asked_bytes,
                limit_bytes,
            } => write!(
                f,
                "`{kernel}` wants {asked_bytes} bytes of shared memory per CTA, and this GPU allows {limit_bytes}; use smaller tiles or fewer stages"
            ),
            Self::ClusterGrid {
                kernel,
                axis,
                count,
                cluster,
            } => write!(
                f,
                "launch of `{kernel}`: {count} CTAs along {axis} cannot be cut into clusters of {cluster}; round the grid up to a multiple, and mask the CTAs past the end"
            ),
            Self::ClusterTooLarge {
                kernel,
                cluster: [x, y, z],
                target,
            } => write!(
                f,
                "`{kernel}` has clusters of {x}×{y}×{z} CTAs, and there can be {} in one, {} on every {} GPU; use smaller \
                 clusters",
                target.cluster.ctas, target.cluster.portable_ctas, target.code_name
            ),
            Self::GridNotResident {
                kernel,
                ctas,
                resident,
            } => write!(
                f,
                "launch of `{kernel}`: its {ctas} CTAs wait for one another, and this GPU holds {resident} of them at a time; launch at most that many (`kernel.resident()`), each of which loops over several tiles"
            ),
            Self::DoesNotFit {
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
            _ => unreachable!("{self:?} is written by another function"),
        }
    }

    /// Arguments that a kernel does not take.
    fn write_of_argument(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ParameterMismatch {
                kernel,
                wanted,
                given,
            } => write!(
                f,
                "launch of `{kernel}`: the arguments have {given:?} bytes, and its parameters {wanted:?}"
            ),
            Self::TensorMap(rule) => write!(f, "the tensor map cannot be made: {rule}"),
            Self::TensorArgument {
                kernel,
                parameter,
                rule,
            } => write!(
                f,
                "argument `{parameter}` of `{kernel}`: no tensor map can be made of it: {rule}"
            ),
            Self::Misaligned {
                kernel,
                parameter,
                address,
                divisor,
            } => write!(
                f,
                "argument `{parameter}` of `{kernel}` is at address {address:#x}, which {divisor} does not divide; pass \
                 an aligned pointer, or promise less with #[multiple_of] on the parameter"
            ),
            Self::NotMultiple {
                kernel,
                parameter,
                value,
                divisor,
            } => write!(
                f,
                "argument `{parameter}` of `{kernel}` is {value}, which {divisor} does not divide; the kernel promises it by #[multiple_of({divisor})]: pass a multiple, or remove the promise"
            ),
            Self::ReadonlyOverlap {
                kernel,
                readonly,
                written,
            } => write!(
                f,
                "the buffers of `{readonly}` and `{written}` of `{kernel}` overlap, but `{readonly}` is #[readonly] and \
                 `{written}` is stored to; pass separate buffers, or remove #[readonly]"
            ),
            Self::ReadonlyWrittenBefore { kernel, argument } => write!(
                f,
                "a launch in flight may write the buffer of argument {argument} of `{kernel}`, which is #[readonly]; \
                 launch it without overlap, or remove #[readonly]"
            ),
            _ => unreachable!("{self:?} is written by another function"),
        }
    }

    /// Streams, graphs, events and mapped buffers that are used wrongly.
    fn write_of_use(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverWaits { kernel } => write!(
                f,
                "`{kernel}` cannot overlap the launch before it, because it never waits for it; call `launch_wait()` before the first access to its results, or launch it without overlap"
            ),
            Self::NotEmulated { what } => {
                write!(f, "the emulator does not run {what}; use a GPU for it")
            }
            Self::Capturing { what } => write!(
                f,
                "a stream was {what} while it is captured into a graph; do it before or after `Stream::capture`"
            ),
            Self::NotUnified => write!(
                f,
                "pages of a buffer are to be moved that stay on the device; make it by `Buffer::unified`"
            ),
            Self::BufferGone { address } => write!(
                f,
                "a graph uses a buffer at {address:#x} that was freed; keep buffers as long as graphs that use them are replayed"
            ),
            Self::OutsideOfMapped { range, len } => write!(
                f,
                "elements {} to {} of a mapped buffer, which has {len}; access a range of those",
                range.start, range.end
            ),
            Self::NeverSet { index, seen } => write!(
                f,
                "the host waits for flag {index} of a mapped buffer, which holds {seen}, and all work of the stream is over; look for the \
                 path on which the kernel ends without setting it"
            ),
            Self::EventNotRecorded => {
                write!(f, "an event has no time before it is recorded on a stream")
            }
            _ => unreachable!("{self:?} is written by another function"),
        }
    }

    /// Errors of cases.
    fn write_of_case(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownSize { case, name, known } => {
                write!(
                    f,
                    "case `{case}` has no size `{name}`; it has {}",
                    known.join(", ")
                )
            }
            Self::UnevenSizes {
                case,
                place,
                lengths,
            } => {
                let place = place
                    .as_ref()
                    .map_or_else(String::new, |at| format!(" at {at}"));
                let lengths: Vec<String> = lengths
                    .iter()
                    .map(|(name, count)| format!("{count} of {name}"))
                    .collect();
                write!(
                    f,
                    "case `{case}`{place}: the i-th values of all sizes make one run: give lists of one length, or single values; there are {}",
                    lengths.join(", ")
                )
            }
            Self::CaseTooLarge {
                case,
                sizes,
                bytes,
                limit_bytes,
            } => write!(
                f,
                "case `{case}` at {sizes} has {bytes} bytes of tensors, and {limit_bytes} is the most here; choose smaller sizes with -s, or a machine with more memory"
            ),
            Self::WrittenOutside { output, index } => write!(
                f,
                "`{output}` was written at {index:?}, outside of the part that the case expects; mask the store"
            ),
            Self::NoInstance { wanted, largest } => write!(
                f,
                "a size of {wanted} is more than the largest instance of the kernel, {largest}; choose a smaller size with \
                 -s, or add an instance to the case"
            ),
            Self::NothingExpected { case } => write!(
                f,
                "case `{case}` compares nothing, so it cannot fail; call `case.expect(..)` for every output"
            ),
            Self::BadRecord { line, why } => write!(
                f,
                "line {line} is no record of `cargo tilekit tune --export`: {why}"
            ),
            Self::BadSpace { case, why } => write!(f, "case `{case}`: {why}"),
            Self::CasePanicked {
                case,
                place,
                message,
            } => write!(f, "case `{case}` panicked at {place}: {message}"),
            Self::WrongResult(mismatch) => write!(f, "{mismatch}"),
            Self::Peer { peer, reason } => write!(f, "{peer}: {reason}"),
            Self::PeerDisagrees { peer, mismatch } => write!(
                f,
                "{peer} and the kernel do not agree; check the kernel by `cargo tilekit run`, and the shapes given to the \
                 peer: {mismatch}"
            ),
            _ => unreachable!("{self:?} is written by another function"),
        }
    }

    /// What is wrong with a kernel, its PTX or its machine code.
    fn write_of_code(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(diagnostics) => write!(f, "{diagnostics}"),
            Self::PtxText(error) => write!(f, "the PTX could not be read: {error}"),
            Self::Emulator(error) => write!(f, "{error}"),
            Self::Fault(fault) => write!(f, "{fault}"),
            Self::Spills {
                kernel,
                store_bytes,
                load_bytes,
            } => write!(
                f,
                "`{kernel}` spills {store_bytes} bytes of stores and {load_bytes} of loads per thread, which it \
                 denies; use smaller tiles or more warps"
            ),
            _ => unreachable!("{self:?} is written by another function"),
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
