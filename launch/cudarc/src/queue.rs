//! A launch on a stream of cudarc.

#![allow(
    unsafe_code,
    reason = "the handle of cudarc's stream is given to the launcher"
)]

use cudarc::driver::{CudaContext, CudaStream};
use tilekit_launch::{Context, Queue};

use crate::error::Error;
use crate::memory::MemoryList;

/// Has `launch` put launches on `stream` that read and write `memory`: a tuple of slices and views of the stream's context, borrowed mutably where a launch
/// writes. The launches wait for what other streams do with it, and what other streams do with it later waits for them. Nothing is waited for on the host.
///
/// # Errors
/// A stream or a slice of another context than the GPU's primary one, no driver, and what `launch` gives.
pub fn launch<'s, M: MemoryList<'s>, R>(
    stream: &'s CudaStream,
    memory: M,
    launch: impl for<'m> FnOnce(&Queue<'m>, M::Lent<'m>) -> Result<R, tilekit_launch::Error>,
) -> Result<R, Error> {
    let context = primary(stream.context())?;
    // The guards are dropped behind the launches, on whose end other streams then wait.
    let (lent, _guards) = memory.lend(stream)?;
    // SAFETY: cudarc destroys a stream when its value is dropped, which is borrowed for longer than the queue, whose lifetime `launch` cannot choose.
    let queue = unsafe { Queue::new(context, stream.cu_stream().cast()) };
    launch(&queue, lent).map_err(Error::Launch)
}

/// The primary context of the GPU, if that is cudarc's.
fn primary(context: &CudaContext) -> Result<Context, Error> {
    let ordinal = context.ordinal();
    let primary = Context::primary(ordinal)?;
    if primary.as_raw() != context.cu_ctx().cast() {
        return Err(Error::NotPrimary { ordinal });
    }
    Ok(primary)
}
