//! Contexts and streams that somebody else made.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::{CStr, c_int};
use std::sync::Mutex;

use crate::driver::numbers::{CAPABILITY_MAJOR, CAPABILITY_MINOR, MULTIPROCESSOR_COUNT};
use crate::driver::{Driver, Failure, Handle};
use crate::error::Error;

/// A context of a GPU, borrowed: it is never destroyed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The handle as a number, so that contexts go from thread to thread: nothing reads through it.
    raw: usize,
    /// The driver's name for it, which no later context gets.
    pub(crate) id: u64,
    device: i32,
    multiprocessors: u32,
    capability: (u32, u32),
    process: u32,
}

/// A stream of a context, borrowed, and how launches are put on it.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    context: Context,
    stream: usize,
    overlaps_previous: bool,
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
        let device = find_device(driver, ordinal)?;
        let about =
            |failure| Error::of_driver(&format!("the primary context of GPU {ordinal}"), failure);
        let mut raw: Handle = std::ptr::null_mut();
        // SAFETY: writes one handle; `device` came from cuDeviceGet.
        let code = unsafe { (driver.cuDevicePrimaryCtxRetain)(&raw mut raw, device) };
        driver
            .check("cuDevicePrimaryCtxRetain", code)
            .map_err(about)?;
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
        let raw =
            current(driver).map_err(|failure| Error::of_driver("the current context", failure))?;
        if raw.is_null() {
            return Ok(None);
        }
        // SAFETY: it is current.
        unsafe { Context::borrowed(raw) }.map(Some)
    }

    /// A context by its handle, a `CUcontext`.
    ///
    /// # Errors
    /// No driver, or what the driver refuses.
    ///
    /// # Safety
    /// As for [`current`](Context::current), and `raw` is the handle of a context.
    pub unsafe fn borrowed(raw: Handle) -> Result<Context, Error> {
        let driver = Driver::get()?;
        let about = |failure| Error::of_driver("a borrowed context", failure);
        let _entered = Entered::enter(driver, raw as usize).map_err(about)?;
        let mut device = 0;
        // SAFETY: writes one int; the context is current.
        let code = unsafe { (driver.cuCtxGetDevice)(&raw mut device) };
        driver.check("cuCtxGetDevice", code).map_err(about)?;
        Context::of_raw(driver, raw, device).map_err(about)
    }

    fn of_raw(driver: &Driver, raw: Handle, device: c_int) -> Result<Context, Failure> {
        let attribute = |attribute| -> Result<u32, Failure> {
            let mut value = 0;
            // SAFETY: writes one int; the device is one of the driver's.
            let code = unsafe { (driver.cuDeviceGetAttribute)(&raw mut value, attribute, device) };
            driver.check("cuDeviceGetAttribute", code)?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let mut id = 0;
        // SAFETY: writes one integer; the context lives.
        let code = unsafe { (driver.cuCtxGetId)(raw, &raw mut id) };
        driver.check("cuCtxGetId", code)?;
        Ok(Context {
            raw: raw as usize,
            id,
            device,
            multiprocessors: attribute(MULTIPROCESSOR_COUNT)?,
            capability: (attribute(CAPABILITY_MAJOR)?, attribute(CAPABILITY_MINOR)?),
            process: std::process::id(),
        })
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
        let mut buffer = [0; 128];
        // SAFETY: writes at most 128 bytes, the last of them a null.
        let code = unsafe {
            (driver.cuDeviceGetName)(buffer.as_mut_ptr(), buffer.len() as c_int, self.device)
        };
        if code != 0 {
            return format!("GPU {}", self.device);
        }
        // SAFETY: the driver ended the name with a null inside of the buffer.
        let name = unsafe { CStr::from_ptr(buffer.as_ptr()) };
        name.to_string_lossy().into_owned()
    }

    /// A context does not survive `fork`: calls in the child would fail or hang.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        let process = std::process::id();
        if self.process == process {
            return Ok(());
        }
        Err(Error::of_runtime(format!(
            "the CUDA context was made in process {} and is used in process {process}, which was forked from it; start \
             the process anew (`spawn`), or use CUDA in the child only",
            self.process
        )))
    }

    /// Makes it the calling thread's while the value lives.
    pub(crate) fn enter<'d>(&self, driver: &'d Driver) -> Result<Entered<'d>, Failure> {
        Entered::enter(driver, self.raw)
    }
}

impl Queue {
    /// The stream `stream`, a `CUstream`, of `context`. 0 and 1 are the legacy default stream, 2 is that of the thread.
    ///
    /// # Safety
    /// Stream and context live until the launches that are put there have been put there.
    pub unsafe fn new(context: Context, stream: Handle) -> Queue {
        Queue {
            context,
            stream: stream as usize,
            overlaps_previous: false,
        }
    }

    /// The same, but a kernel may begin before the launch in front of it has ended (programmatic dependent launch), where
    /// it waits for that itself. The launch in front must not read what this one writes before it waits: nobody checks that
    /// on a borrowed stream.
    #[must_use]
    pub fn overlapping(mut self) -> Queue {
        self.overlaps_previous = true;
        self
    }

    /// The context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn stream(&self) -> Handle {
        std::ptr::without_provenance_mut(self.stream)
    }

    pub(crate) fn overlaps_previous(&self) -> bool {
        self.overlaps_previous
    }

    /// Whether a graph is captured from the stream now.
    pub(crate) fn is_capturing(&self, driver: &Driver) -> Result<bool, Failure> {
        let mut status = 0;
        // SAFETY: writes one integer; the stream is of the current context.
        let code = unsafe { (driver.cuStreamIsCapturing)(self.stream(), &raw mut status) };
        driver.check("cuStreamIsCapturing", code)?;
        Ok(status != crate::driver::numbers::NOT_CAPTURING)
    }
}

/// A context that is current while this lives; the one before is current again afterwards.
pub(crate) struct Entered<'d> {
    driver: &'d Driver,
    before: Option<Handle>,
}

impl<'d> Entered<'d> {
    fn enter(driver: &'d Driver, raw: usize) -> Result<Entered<'d>, Failure> {
        let before = current(driver)?;
        if before as usize == raw {
            return Ok(Entered {
                driver,
                before: None,
            });
        }
        // SAFETY: the context lives, by the word of who made the `Context`.
        let code = unsafe { (driver.cuCtxSetCurrent)(std::ptr::without_provenance_mut(raw)) };
        driver.check("cuCtxSetCurrent", code)?;
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
            let _ = unsafe { (self.driver.cuCtxSetCurrent)(before) };
        }
    }
}

fn current(driver: &Driver) -> Result<Handle, Failure> {
    let mut raw = std::ptr::null_mut();
    // SAFETY: writes one handle.
    let code = unsafe { (driver.cuCtxGetCurrent)(&raw mut raw) };
    driver.check("cuCtxGetCurrent", code)?;
    Ok(raw)
}

fn find_device(driver: &Driver, ordinal: usize) -> Result<c_int, Error> {
    let about = |failure| Error::of_driver("the GPUs", failure);
    let mut count = 0;
    // SAFETY: writes one int.
    let code = unsafe { (driver.cuDeviceGetCount)(&raw mut count) };
    driver.check("cuDeviceGetCount", code).map_err(about)?;
    if ordinal >= usize::try_from(count).unwrap_or(0) {
        return Err(Error::of_runtime(format!(
            "there is no GPU {ordinal}; the driver sees {count}, counted from 0"
        )));
    }
    let mut device = 0;
    // SAFETY: writes one int; the ordinal is in range.
    let code = unsafe { (driver.cuDeviceGet)(&raw mut device, ordinal as c_int) };
    driver.check("cuDeviceGet", code).map_err(about)?;
    Ok(device)
}
