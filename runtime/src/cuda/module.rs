//! Modules and their entries.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::CString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::launch::driver::JitLog;
use machine::driver::{Driver, FunctionHandle, ModuleHandle};

use super::{Context, CudaFailure};
use crate::device::EntryFacts;
use crate::error::Error;
use crate::kept::Kept;

// Of `CUfunction_attribute`, without `CU_FUNC_ATTRIBUTE_`.
const MAX_THREADS_PER_BLOCK: u32 = 0;
const SHARED_SIZE_BYTES: u32 = 1;
const LOCAL_SIZE_BYTES: u32 = 3;
const NUM_REGS: u32 = 4;

/// Code on the GPU.
pub(crate) struct Module {
    context: Arc<Context>,
    raw: ModuleHandle,
    log: Vec<String>,
    load_time: Duration,
}

impl Module {
    /// Loads a cubin, or PTX text, which the driver then compiles.
    pub(crate) fn load(context: &Arc<Context>, image: &[u8]) -> Result<Arc<Module>, Error> {
        context.bind()?;
        // PTX text must end with a null; behind a cubin one more byte does no harm.
        let mut image = image.to_vec();
        image.push(0);
        let started = Instant::now();
        let mut log = JitLog::new();
        // SAFETY: `image` is a cubin or text that ends with a null; an allocation of this size is aligned to 16 bytes; the
        // context is current.
        let loaded = unsafe { context.driver.launcher.load_module(&image, Some(&mut log)) };
        let raw = loaded.map_err(|failure| Error::Jit {
            failure,
            log: log.errors(),
        })?;
        Ok(Arc::new(Module {
            context: Arc::clone(context),
            raw,
            log: log.notes(),
            load_time: started.elapsed(),
        }))
    }

    /// What the driver's compiler noted, one message a line; empty for a cubin.
    pub(crate) fn log(&self) -> &[String] {
        &self.log
    }

    /// How long loading took, compilation by the driver included.
    pub(crate) fn load_time(&self) -> Duration {
        self.load_time
    }

    /// The entry `name`, made ready to be launched with `shared_bytes` of dynamic shared memory per CTA.
    pub(crate) fn entry(
        self: &Arc<Module>,
        name: &str,
        shared_bytes: u32,
        parameters: Option<usize>,
    ) -> Result<Function, Error> {
        let no_such_entry = || Error::NoSuchEntry {
            name: name.to_string(),
        };
        let symbol = CString::new(name).map_err(|_| no_such_entry())?;
        self.context.bind()?;
        let driver = self.context.driver;
        // SAFETY: the module lives, and its context is current.
        let found = unsafe { driver.launcher.function(self.raw, &symbol) };
        let raw = found.map_err(|failure| match failure.code {
            // CUDA_ERROR_NOT_FOUND
            500 => no_such_entry(),
            _ => Error::Cuda(failure),
        })?;
        let function = Function {
            module: Arc::clone(self),
            raw,
            parameter_bytes: parameter_sizes(driver, raw, parameters)?,
            name: Arc::from(name),
            shared_bytes,
        };
        function.allow_shared_memory()?;
        Ok(function)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if !self.context.is_abandoned() && self.context.bind().is_ok() {
            // SAFETY: loaded once, unloaded once; functions hold an `Arc` of the module.
            let _ = unsafe { (self.context.driver.cuModuleUnload)(self.raw) };
        }
    }
}

/// Asks for one parameter after the other, `known` of them at most: past the last the driver answers `CUDA_ERROR_INVALID_VALUE`, and
/// compute-sanitizer reports the call.
///
/// The offsets that it tells are those of the constant bank, which differ from PTX's where a parameter is aligned to
/// more than 16 bytes; so they are of no use here.
fn parameter_sizes(
    driver: &Driver,
    function: FunctionHandle,
    known: Option<usize>,
) -> Result<Box<[u32]>, CudaFailure> {
    let mut sizes = Vec::new();
    while known.is_none_or(|known| sizes.len() < known) {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: writes two integers; the function lives.
        let code = unsafe {
            (driver.cuFuncGetParamInfo)(function, sizes.len(), &raw mut offset, &raw mut bytes)
        };
        if code == 1 {
            break;
        }
        driver.check("cuFuncGetParamInfo", code)?;
        sizes.push(bytes as u32);
    }
    Ok(sizes.into_boxed_slice())
}

/// An entry of a module, ready to be launched.
#[derive(Clone)]
pub(crate) struct Function {
    module: Arc<Module>,
    pub(super) raw: FunctionHandle,
    pub(super) name: Arc<str>,
    parameter_bytes: Box<[u32]>,
    pub(super) shared_bytes: u32,
}

impl Function {
    /// The code that it is part of, which who uses it keeps loaded.
    pub(crate) fn code(&self) -> Kept {
        Arc::clone(&self.module) as Kept
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.module.context
    }

    /// Size of each parameter that the loaded code has, bytes.
    pub(crate) fn parameter_bytes(&self) -> &[u32] {
        &self.parameter_bytes
    }

    /// Registers, local and shared memory, as the driver has them for the loaded code.
    pub(crate) fn facts(&self) -> Result<EntryFacts, CudaFailure> {
        Ok(EntryFacts {
            registers: self.attribute(NUM_REGS)?,
            local_bytes: self.attribute(LOCAL_SIZE_BYTES)?,
            static_shared_bytes: self.attribute(SHARED_SIZE_BYTES)?,
            max_threads: self.attribute(MAX_THREADS_PER_BLOCK)?,
        })
    }

    fn attribute(&self, attribute: u32) -> Result<u32, CudaFailure> {
        self.context().bind()?;
        let driver = self.context().driver;
        let mut value = 0;
        // SAFETY: writes one int; the function lives.
        let code = unsafe { (driver.cuFuncGetAttribute)(&raw mut value, attribute, self.raw) };
        driver.check("cuFuncGetAttribute", code)?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Raises the entry's limit of dynamic shared memory, which large launches and questions about occupancy need.
    fn allow_shared_memory(&self) -> Result<(), Error> {
        let limit_bytes = self.context().facts().shared_bytes_per_cta;
        if self.shared_bytes > limit_bytes {
            return Err(Error::TooMuchSharedMemory {
                kernel: self.name.to_string(),
                asked_bytes: self.shared_bytes,
                limit_bytes,
            });
        }
        self.context().bind()?;
        let launcher = self.context().driver.launcher;
        // SAFETY: the function lives, and its context is current.
        Ok(unsafe { launcher.allow_shared_bytes(self.raw, self.shared_bytes) }?)
    }
}
