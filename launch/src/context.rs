//! Contexts and streams that somebody else made.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::Mutex;

use crate::driver::{ContextHandle, Driver, Failure, StreamHandle};
use crate::error::Error;
use crate::process::Process;

/// A context of a GPU, borrowed: it is never destroyed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    raw: ContextHandle,
    /// The driver's name for it, which no later context gets.
    pub(crate) id: u64,
    device: i32,
    multiprocessors: u32,
    capability: (u32, u32),
    process: Process,
}

/// A stream of a context, borrowed for `'s`, and how launches are put on it.
#[derive(Clone, Copy, Debug)]
pub struct Queue<'s> {
    context: Context,
    stream: StreamHandle,
    overlaps_previous: bool,
    lives: PhantomData<&'s ()>,
}

impl Context {
    /// The primary context of GPU number `ordinal`, which the CUDA runtime, torch, JAX and cudarc share. It is
    /// retained once for the process.
    ///
    /// # Errors
    /// No driver, no such GPU, or what the driver refuses.
    pub fn primary(ordinal: usize) -> Result<Context, Error> {
        static RETAINED: Mutex<Vec<(usize, Context)>> = Mutex::new(Vec::new());
        let mut retained = RETAINED
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let known = retained.iter().find(|(known, _)| *known == ordinal);
        if let Some((_, context)) = known {
            context.check_process()?;
            return Ok(*context);
        }
        let driver = Driver::get()?;
        let device = driver
            .device(ordinal)
            .map_err(|lack| Error::of_unavailable("the GPUs", lack))?;
        let about =
            |failure| Error::of_driver(&format!("the primary context of GPU {ordinal}"), failure);
        let raw = driver.retain_primary(device).map_err(about)?;
        let context = Context::of_raw(driver, raw, device).map_err(about)?;
        retained.push((ordinal, context));
        Ok(context)
    }

    /// The context that is current in this thread; none where there is none.
    ///
    /// # Errors
    /// No driver, or what the driver refuses.
    ///
    /// # Safety
    /// It lives as long as launches are put on streams of it by this value.
    pub unsafe fn current() -> Result<Option<Context>, Error> {
        let driver = Driver::get()?;
        let about = |failure| Error::of_driver("the current context", failure);
        let raw = driver.current().map_err(about)?;
        if raw.is_null() {
            return Ok(None);
        }
        Context::of_handle(driver, raw).map(Some)
    }

    /// A context by its handle, a `CUcontext`.
    ///
    /// # Errors
    /// No driver, or what the driver refuses.
    ///
    /// # Safety
    /// As for [`current`](Context::current), and `raw` is the handle of a context.
    pub unsafe fn borrowed(raw: *mut c_void) -> Result<Context, Error> {
        Context::of_handle(Driver::get()?, ContextHandle::of_raw(raw))
    }

    fn of_handle(driver: &Driver, raw: ContextHandle) -> Result<Context, Error> {
        let about = |failure| Error::of_driver("a borrowed context", failure);
        let _entered = Entered::enter(driver, raw).map_err(about)?;
        let mut device = 0;
        // SAFETY: writes one int; the context is current.
        let code = unsafe { (driver.functions().cuCtxGetDevice)(&raw mut device) };
        driver.check("cuCtxGetDevice", code).map_err(about)?;
        Context::of_raw(driver, raw, device).map_err(about)
    }

    fn of_raw(driver: &Driver, raw: ContextHandle, device: c_int) -> Result<Context, Failure> {
        let mut id = 0;
        // SAFETY: writes one integer; the context lives.
        let code = unsafe { (driver.functions().cuCtxGetId)(raw, &raw mut id) };
        driver.check("cuCtxGetId", code)?;
        Ok(Context {
            raw,
            id,
            device,
            multiprocessors: driver.multiprocessors(device)?,
            capability: driver.capability(device)?,
            process: Process::this(),
        })
    }

    /// Its handle, a `CUcontext`, for another library.
    pub fn as_raw(&self) -> *mut c_void {
        self.raw.as_raw()
    }

    /// The number of its GPU.
    pub fn device(&self) -> i32 {
        self.device
    }

    /// Compute capability of its GPU, major and minor.
    pub fn capability(&self) -> (u32, u32) {
        self.capability
    }

    /// Multiprocessors of its GPU.
    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// What the driver calls its GPU.
    pub(crate) fn device_name(&self, driver: &Driver) -> String {
        let name = driver.device_name(self.device);
        name.unwrap_or_else(|_| format!("GPU {}", self.device))
    }

    /// A context does not survive `fork`: calls in the child would fail or hang.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.process.is_this() {
            return Ok(());
        }
        Err(Error::of_runtime(format!(
            "the CUDA context was made in process {} and is used in process {}, which was forked from it; start \
             the process anew (`spawn`), or use CUDA in the child only",
            self.process.id(),
            std::process::id()
        )))
    }

    /// Makes it the calling thread's while the value lives.
    pub(crate) fn enter<'d>(&self, driver: &'d Driver) -> Result<Entered<'d>, Failure> {
        Entered::enter(driver, self.raw)
    }
}

impl Queue<'_> {
    /// The stream `stream`, a `CUstream`, of `context`. 0 and 1 are the legacy default stream, 2 is that of the thread.
    ///
    /// # Safety
    /// Stream and context live as long as the value.
    pub unsafe fn new(context: Context, stream: *mut c_void) -> Self {
        Queue {
            context,
            stream: StreamHandle::of_raw(stream),
            overlaps_previous: false,
            lives: PhantomData,
        }
    }

    /// The same, but a kernel may begin before the launch in front of it has ended (programmatic dependent launch), where
    /// it waits for that itself. The launch in front must not read what this one writes before it waits: nobody checks that
    /// on a borrowed stream.
    #[must_use]
    pub fn overlapping(mut self) -> Self {
        self.overlaps_previous = true;
        self
    }

    /// The context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn stream(&self) -> StreamHandle {
        self.stream
    }

    pub(crate) fn overlaps_previous(&self) -> bool {
        self.overlaps_previous
    }

    /// Whether a graph is captured from the stream now.
    pub(crate) fn is_capturing(&self, driver: &Driver) -> Result<bool, Failure> {
        let mut status = 0;
        // SAFETY: writes one integer; the stream is of the current context.
        let code =
            unsafe { (driver.functions().cuStreamIsCapturing)(self.stream, &raw mut status) };
        driver.check("cuStreamIsCapturing", code)?;
        Ok(status != NOT_CAPTURING)
    }
}

/// `CU_STREAM_CAPTURE_STATUS_NONE`
const NOT_CAPTURING: u32 = 0;

/// A context that is current while this lives; the one before is current again afterwards.
pub(crate) struct Entered<'d> {
    driver: &'d Driver,
    before: Option<ContextHandle>,
}

impl<'d> Entered<'d> {
    fn enter(driver: &'d Driver, raw: ContextHandle) -> Result<Entered<'d>, Failure> {
        let before = driver.current()?;
        if before == raw {
            return Ok(Entered {
                driver,
                before: None,
            });
        }
        // SAFETY: the context lives, by the word of who made the `Context`.
        unsafe { driver.set_current(raw) }?;
        Ok(Entered {
            driver,
            before: Some(before),
        })
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // A failure would only say that the driver is shutting down.
            // SAFETY: it was current, or null, which is no context.
            let _ = unsafe { self.driver.set_current(before) };
        }
    }
}

/// The number of the GPU whose memory is at this address.
///
/// # Errors
/// No driver, or an address that it did not allocate.
pub fn device_of(address: u64) -> Result<i32, Error> {
    let about = |failure| Error::of_driver(&format!("the memory at {address:#x}"), failure);
    Driver::get()?.device_of(address).map_err(about)
}
