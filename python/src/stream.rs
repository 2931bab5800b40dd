//! The stream that a launch is put on.

#![allow(
    unsafe_code,
    reason = "the handle of a stream is the word of who gives it"
)]

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyInt;
use tilekit_launch::{Error, Queue};

use crate::context;
use crate::refusal::Refusal;

/// The legacy default stream, `CU_STREAM_LEGACY`: what nobody names a stream for is ordered with all others there.
pub(crate) const LEGACY: usize = 1;

/// The handle of the stream that a caller names: a number, or a stream of torch (`cuda_stream`), of CUDA's own packages
/// (`__cuda_stream__`) or of CuPy (`ptr`).
pub(crate) fn named(stream: &Bound<'_, PyAny>) -> Result<usize, Refusal> {
    let py = stream.py();
    if let Ok(handle) = stream.extract::<usize>() {
        return Ok(handle);
    }
    if is_number(stream) {
        return Err(Refusal::Value(format!(
            "is {stream}; a stream's handle is 0 or more, of 64 bits"
        )));
    }
    for attribute in [intern!(py, "cuda_stream"), intern!(py, "ptr")] {
        if let Ok(handle) = stream
            .getattr(attribute)
            .and_then(|handle| handle.extract())
        {
            return Ok(handle);
        }
    }
    // A version of the protocol, and the handle.
    let pair = stream.call_method0(intern!(py, "__cuda_stream__"));
    match pair.and_then(|pair| pair.extract::<(i64, usize)>()) {
        Ok((_, handle)) => Ok(handle),
        Err(_) => Err(Refusal::Type(format!(
            "is of type {}; it must be a stream's handle as an int, or a stream of torch or CuPy",
            stream.get_type()
        ))),
    }
}

/// Whether a stream is named by its handle, which says nothing of its GPU.
pub(crate) fn is_number(stream: &Bound<'_, PyAny>) -> bool {
    stream.is_instance_of::<PyInt>()
}

/// The GPU of the stream that a caller names, where the stream says it: those of torch and CuPy do.
pub(crate) fn device(stream: &Bound<'_, PyAny>) -> Option<i32> {
    // A number says nothing, and asking it costs as much as a launch.
    if is_number(stream) {
        return None;
    }
    let py = stream.py();
    let names = [intern!(py, "device_index"), intern!(py, "device_id")];
    let mut numbers = names.into_iter().map(|name| stream.getattr_opt(name));
    numbers.find_map(|number| number.ok()??.extract().ok())
}

/// The stream on which a framework without the C exchange API works now: torch and CuPy say it; none of others.
pub(crate) fn of_framework(tensor: &Bound<'_, PyAny>, device: i32) -> PyResult<Option<usize>> {
    let py = tensor.py();
    let module = tensor.get_type().module()?;
    let module = module.to_cow()?;
    let framework = module.split('.').next().unwrap_or(&module);
    let handle = match framework {
        "torch" => py
            .import(intern!(py, "torch.cuda"))?
            .call_method1(intern!(py, "current_stream"), (device,))?
            .getattr(intern!(py, "cuda_stream"))?,
        "cupy" => py
            .import(intern!(py, "cupy.cuda"))?
            .call_method1(intern!(py, "get_current_stream"), (device,))?
            .getattr(intern!(py, "ptr"))?,
        _ => return Ok(None),
    };
    handle.extract().map(Some)
}

/// The stream with this handle in the primary context of GPU number `device`. `overlaps` as for [`Queue::overlapping`].
///
/// # Errors
/// No driver, no such GPU, or what the driver refuses.
///
/// # Safety
/// The handle is of a stream of that context, which lives as long as the value.
pub(crate) unsafe fn queue(
    device: i32,
    handle: usize,
    overlaps: bool,
) -> Result<Queue<'static>, Error> {
    let context = context::primary(device)?;
    // SAFETY: the stream is the caller's word; a primary context lives as long as the process.
    let queue = unsafe { Queue::new(context, std::ptr::without_provenance_mut(handle)) };
    Ok(if overlaps { queue.overlapping() } else { queue })
}
