//! Streams: queues of work that run in order.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::sync::{Arc, Mutex, PoisonError};

use machine::driver::StreamHandle;

use super::{Context, CudaFailure, Event};
use crate::error::Error;

/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: u32 = 1;

/// A non-blocking stream: it does not wait for the default stream, nor the default stream for it.
pub(crate) struct Stream {
    owned: Arc<OwnedStream>,
    last_launched: Mutex<Option<Arc<str>>>,
}

/// The driver's stream, which memory that is freed in its order keeps.
pub(crate) struct OwnedStream {
    context: Arc<Context>,
    raw: StreamHandle,
}

impl OwnedStream {
    /// The driver's handle.
    pub(super) fn raw(&self) -> StreamHandle {
        self.raw
    }
}

impl Stream {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Stream, CudaFailure> {
        context.bind()?;
        let mut raw = StreamHandle::NULL;
        // SAFETY: writes one handle; a context is current.
        let code = unsafe { (context.driver.cuStreamCreate)(&raw mut raw, NON_BLOCKING) };
        context.driver.check("cuStreamCreate", code)?;
        let context = Arc::clone(context);
        Ok(Stream {
            owned: Arc::new(OwnedStream { context, raw }),
            last_launched: Mutex::new(None),
        })
    }

    /// The driver's handle.
    pub(crate) fn raw(&self) -> StreamHandle {
        self.owned.raw
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.owned.context
    }

    /// The driver's stream, to be kept.
    pub(super) fn owned(&self) -> &Arc<OwnedStream> {
        &self.owned
    }

    /// Whether a graph is captured from it now.
    pub(super) fn is_capturing(&self) -> Result<bool, CudaFailure> {
        self.context().bind()?;
        let (driver, mut status) = (self.context().driver, 0);
        let functions = driver.launcher.functions();
        // SAFETY: writes one integer; the stream lives.
        let code = unsafe { (functions.cuStreamIsCapturing)(self.raw(), &raw mut status) };
        driver.check("cuStreamIsCapturing", code)?;
        // 0 is `CU_STREAM_CAPTURE_STATUS_NONE`.
        Ok(status != 0)
    }

    /// Remembers what runs, for the message of a failure that is noticed later.
    #[inline]
    pub(super) fn remember(&self, kernel: &Arc<str>) {
        let mut last = self
            .last_launched
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !last.as_ref().is_some_and(|last| Arc::ptr_eq(last, kernel)) {
            *last = Some(Arc::clone(kernel));
        }
    }

    /// The kernel that was launched last.
    pub(crate) fn last_launched(&self) -> Option<Arc<str>> {
        let last = self.last_launched.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for everything that was put on the stream.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.context().bind()?;
        let driver = self.context().driver;
        // SAFETY: the stream lives.
        let code = unsafe { (driver.cuStreamSynchronize)(self.raw()) };
        driver
            .check("cuStreamSynchronize", code)
            .map_err(|failure| self.blame(failure))
    }

    /// Whether everything that was put on the stream has ended.
    pub(crate) fn is_done(&self) -> Result<bool, Error> {
        /// `CUDA_ERROR_NOT_READY`
        const NOT_READY: u32 = 600;
        self.context().bind()?;
        let driver = self.context().driver;
        // SAFETY: the stream lives.
        let code = unsafe { (driver.cuStreamQuery)(self.raw()) };
        if code == NOT_READY {
            return Ok(false);
        }
        let done = driver.check("cuStreamQuery", code);
        done.map(|()| true).map_err(|failure| self.blame(failure))
    }

    /// Makes later work of this stream wait for `event`.
    pub(crate) fn wait_for(&self, event: &Event) -> Result<(), CudaFailure> {
        self.context().bind()?;
        let driver = self.context().driver;
        // SAFETY: stream and event live; the flags must be 0.
        let code = unsafe { (driver.cuStreamWaitEvent)(self.raw(), event.raw(), 0) };
        driver.check("cuStreamWaitEvent", code)
    }

    /// Names the kernel in a failure that a kernel caused.
    pub(crate) fn blame(&self, failure: CudaFailure) -> Error {
        if !failure.is_kernel_fault() {
            return Error::Cuda(failure);
        }
        let last = self
            .last_launched
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Error::KernelFailed {
            kernel: last.as_deref().map(str::to_string),
            failure,
        }
    }
}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        if self.context.is_abandoned() {
            return;
        }
        // SAFETY: created once, destroyed once; work still queued runs to its end.
        let _ = unsafe { (self.context.driver.cuStreamDestroy)(self.raw) };
    }
}
