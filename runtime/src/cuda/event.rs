//! Events: moments on a stream that can be waited for and timed.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::sync::Arc;

use machine::driver::EventHandle;

use super::{Context, CudaFailure, Stream};
use crate::error::Error;

/// A moment on a stream.
pub(crate) struct Event {
    context: Arc<Context>,
    raw: EventHandle,
}

impl Event {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Event, CudaFailure> {
        context.bind()?;
        let mut raw = EventHandle::NULL;
        // SAFETY: writes one handle; a context is current. Flag 0 is an event that keeps its time.
        let code = unsafe { (context.driver.cuEventCreate)(&raw mut raw, 0) };
        context.driver.check("cuEventCreate", code)?;
        Ok(Event {
            context: Arc::clone(context),
            raw,
        })
    }

    pub(super) fn raw(&self) -> EventHandle {
        self.raw
    }

    /// Puts the event behind everything that is on the stream now.
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), CudaFailure> {
        self.context.bind()?;
        let driver = self.context.driver;
        // SAFETY: event and stream live and belong to one context.
        let code = unsafe { (driver.cuEventRecord)(self.raw, stream.raw()) };
        driver.check("cuEventRecord", code)
    }

    /// Milliseconds from `start` to this event; waits for this one.
    pub(crate) fn milliseconds_since(&self, start: &Event) -> Result<f32, Error> {
        self.context.bind()?;
        let driver = self.context.driver;
        // SAFETY: the event lives.
        let code = unsafe { (driver.cuEventSynchronize)(self.raw) };
        driver.check("cuEventSynchronize", code)?;
        let mut milliseconds = 0.0;
        // SAFETY: writes one float; both events live.
        let code =
            unsafe { (driver.cuEventElapsedTime)(&raw mut milliseconds, start.raw, self.raw) };
        driver.check("cuEventElapsedTime", code)?;
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; the driver keeps what is still in use.
        let _ = unsafe { (self.context.driver.cuEventDestroy)(self.raw) };
    }
}
