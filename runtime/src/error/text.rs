//! What each error says: one clear line, with the help at its end where there is one.

use std::fmt;

use super::Error;
use crate::cuda::CudaFailure;

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
                "launch of `{kernel}`: {count} CTAs along {axis}; there can be 1 to {limit}: let each CTA work on several tiles, in a loop \
                 of the kernel, or spread them over two axes"
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
                "launch of `{kernel}`: {count} CTAs along {axis} cannot be cut into clusters of {cluster}; round the grid up to a multiple, and mask the CTAs past the end"
            ),
            Error::ClusterTooLarge {
                kernel,
                cluster: [x, y, z],
                target,
            } => write!(
                f,
                "`{kernel}` has clusters of {x}×{y}×{z} CTAs, and there can be {} in one, {} on every {} GPU; use smaller \
                 clusters",
                target.cluster.ctas, target.cluster.portable_ctas, target.code_name
            ),
            Error::GridNotResident {
                kernel,
                ctas,
                resident,
            } => write!(
                f,
                "launch of `{kernel}`: its {ctas} CTAs wait for one another, and this GPU holds {resident} of them at a time; launch at most that many (`kernel.resident()`), each of which loops over several tiles"
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
                "`{kernel}` cannot overlap the launch before it, because it never waits for it; call `launch_wait()` before the first access to its results, or launch it without overlap"
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
            Error::OutsideOfMapped { range, len } => write!(
                f,
                "elements {} to {} of a mapped buffer, which has {len}; access a range of those",
                range.start, range.end
            ),
            Error::NeverSet { index, seen } => write!(
                f,
                "the host waits for flag {index} of a mapped buffer, which holds {seen}, and all work of the stream is over; look for the                  path on which the kernel ends without setting it"
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
            } if belongs_to == used_on => write!(
                f,
                "{what} belongs to another {belongs_to} than the one that it was used on; use one `Device`, cloned, for objects that are used together"
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
                    "case `{case}`: the i-th values of all sizes make one run: give lists of one length, or single values; there are {}",
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
                "case `{case}` at {sizes} has {bytes} bytes of tensors, and {limit_bytes} is the most here; choose smaller sizes with -s, or a machine with more memory"
            ),
            Error::WrittenOutside { output, index } => write!(
                f,
                "`{output}` was written at {index:?}, outside of the part that the case expects; mask the store"
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
                place,
                message,
            } => write!(f, "case `{case}` panicked at {place}: {message}"),
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
                 `{written}` is stored to; pass separate buffers, or remove #[readonly]"
            ),
            Error::ReadonlyWrittenBefore { kernel, argument } => write!(
                f,
                "a launch in flight may write the buffer of argument {argument} of `{kernel}`, which is #[readonly]; \
                 launch it without overlap, or remove #[readonly]"
            ),
            Error::NotMultiple {
                kernel,
                parameter,
                value,
                divisor,
            } => write!(
                f,
                "argument `{parameter}` of `{kernel}` is {value}, which {divisor} does not divide; the kernel promises it by #[multiple_of({divisor})]: pass a multiple, or remove the promise"
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
