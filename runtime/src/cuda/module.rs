//! Modules and their entries.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::{CString, c_int, c_uint, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{
    self, CUfunction_attribute_enum as FunctionAttribute, CUjit_option_enum as JitOption,
};

use super::{Context, CudaFailure};
use crate::device::EntryFacts;
use crate::error::Error;
use machine::driver::{Driver, Handle};

/// Bytes of each log that the driver's compiler may fill.
const LOG_BYTES: usize = 16 << 10;

/// Code on the GPU.
pub(crate) struct Module {
    context: Arc<Context>,
    raw: Handle<sys::CUmod_st>,
    log: Vec<String>,
    load_time: Duration,
}

impl Module {
    /// Loads a cubin, or PTX text, which the driver then compiles.
    ///
    /// The link functions (`cuLink*`) are never used: they compile relocatable code, for which `setmaxnreg` is ignored
    /// (C7504) and `wgmma` kernels spill.
    pub(crate) fn load(context: &Arc<Context>, image: &[u8]) -> Result<Arc<Module>, Error> {
        context.bind()?;
        // PTX text must end with a null; behind a cubin one more byte does no harm.
        let mut image = image.to_vec();
        image.push(0);
        let started = Instant::now();
        let mut logs = JitLogs::new();
        let mut raw = std::ptr::null_mut();
        let (count, options, values) = logs.options();
        // SAFETY: `image` is a cubin or null-terminated text; `options` and `values` have `count` entries, whose buffers
        // live in `logs` until after the call; writes one handle.
        let code = unsafe {
            (context.driver.cuModuleLoadDataEx)(
                &raw mut raw,
                image.as_ptr().cast(),
                count,
                options,
                values,
            )
        };
        context
            .driver
            .check("cuModuleLoadDataEx", code)
            .map_err(|failure| Error::Jit {
                failure,
                log: lines(&logs.errors),
            })?;
        Ok(Arc::new(Module {
            context: Arc::clone(context),
            raw: Handle(raw),
            log: lines(&logs.notes),
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
    ) -> Result<Function, Error> {
        let no_such_entry = || Error::NoSuchEntry {
            name: name.to_string(),
        };
        let symbol = CString::new(name).map_err(|_| no_such_entry())?;
        self.context.bind()?;
        let driver = self.context.driver;
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one handle; the module lives and `symbol` ends with a null.
        let code =
            unsafe { (driver.cuModuleGetFunction)(&raw mut raw, self.raw.0, symbol.as_ptr()) };
        driver
            .check("cuModuleGetFunction", code)
            .map_err(|failure| match failure.code {
                // CUDA_ERROR_NOT_FOUND
                500 => no_such_entry(),
                _ => Error::Cuda(failure),
            })?;
        let function = Function {
            module: Arc::clone(self),
            raw: Handle(raw),
            parameter_bytes: parameter_sizes(driver, raw)?,
            name: Arc::from(name),
            shared_bytes,
        };
        function.allow_shared_memory()?;
        Ok(function)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: loaded once, unloaded once; functions hold an `Arc` of the module.
            let _ = unsafe { (self.context.driver.cuModuleUnload)(self.raw.0) };
        }
    }
}

/// The buffers that the driver's compiler writes its messages to.
struct JitLogs {
    notes: Vec<u8>,
    errors: Vec<u8>,
    options: [sys::CUjit_option; 5],
    values: [*mut c_void; 5],
}

impl JitLogs {
    fn new() -> JitLogs {
        JitLogs {
            notes: vec![0; LOG_BYTES],
            errors: vec![0; LOG_BYTES],
            options: [
                JitOption::CU_JIT_INFO_LOG_BUFFER,
                JitOption::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                JitOption::CU_JIT_ERROR_LOG_BUFFER,
                JitOption::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                JitOption::CU_JIT_LOG_VERBOSE,
            ],
            values: [std::ptr::null_mut(); 5],
        }
    }

    /// The option list in the driver's form: sizes and flags travel as pointer-sized integers.
    fn options(&mut self) -> (c_uint, *mut sys::CUjit_option, *mut *mut c_void) {
        self.values = [
            self.notes.as_mut_ptr().cast(),
            std::ptr::without_provenance_mut(LOG_BYTES),
            self.errors.as_mut_ptr().cast(),
            std::ptr::without_provenance_mut(LOG_BYTES),
            std::ptr::without_provenance_mut(1),
        ];
        (
            self.options.len() as c_uint,
            self.options.as_mut_ptr(),
            self.values.as_mut_ptr(),
        )
    }
}

/// Asks for one parameter after the other; past the last the driver answers `CUDA_ERROR_INVALID_VALUE`.
///
/// The offsets that it tells are those of the constant bank, which differ from PTX's where a parameter is aligned to
/// more than 16 bytes; so they are of no use here.
fn parameter_sizes(driver: &Driver, function: sys::CUfunction) -> Result<Box<[u32]>, CudaFailure> {
    let mut sizes = Vec::new();
    loop {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: writes two integers; the function lives.
        let code = unsafe {
            (driver.cuFuncGetParamInfo)(function, sizes.len(), &raw mut offset, &raw mut bytes)
        };
        if code == 1 {
            return Ok(sizes.into_boxed_slice());
        }
        driver.check("cuFuncGetParamInfo", code)?;
        sizes.push(bytes as u32);
    }
}

fn lines(log: &[u8]) -> Vec<String> {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end])
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_string)
        .collect()
}

/// An entry of a module, ready to be launched.
#[derive(Clone)]
pub(crate) struct Function {
    module: Arc<Module>,
    pub(super) raw: Handle<sys::CUfunc_st>,
    pub(super) name: Arc<str>,
    parameter_bytes: Box<[u32]>,
    pub(super) shared_bytes: u32,
}

impl Function {
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
            registers: self.attribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: self.attribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            static_shared_bytes: self
                .attribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            max_threads: self
                .attribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        })
    }

    /// How many CTAs of `threads` threads fit on one multiprocessor at a time.
    pub(crate) fn ctas_per_multiprocessor(&self, threads: u32) -> Result<u32, CudaFailure> {
        self.context().bind()?;
        let driver = self.context().driver;
        let mut ctas = 0;
        // SAFETY: writes one int; the function lives.
        let code = unsafe {
            (driver.cuOccupancyMaxActiveBlocks)(
                &raw mut ctas,
                self.raw.0,
                threads as c_int,
                self.shared_bytes as usize,
            )
        };
        driver.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", code)?;
        Ok(u32::try_from(ctas).unwrap_or(0))
    }

    fn attribute(&self, attribute: sys::CUfunction_attribute) -> Result<u32, CudaFailure> {
        self.context().bind()?;
        let driver = self.context().driver;
        let mut value = 0;
        // SAFETY: writes one int; the function lives.
        let code = unsafe { (driver.cuFuncGetAttribute)(&raw mut value, attribute, self.raw.0) };
        driver.check("cuFuncGetAttribute", code)?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Raises the entry's limit of dynamic shared memory, which launches and occupancy questions beyond
    /// [`static_shared_bytes`](target::CtaLimits::static_shared_bytes) need.
    fn allow_shared_memory(&self) -> Result<(), Error> {
        let limit_bytes = self.context().facts().shared_bytes_per_cta;
        if self.shared_bytes > limit_bytes {
            return Err(Error::TooMuchSharedMemory {
                kernel: self.name.to_string(),
                asked_bytes: self.shared_bytes,
                limit_bytes,
            });
        }
        if self.shared_bytes <= self.context().target().cta.static_shared_bytes {
            return Ok(());
        }
        let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        Ok(self.set_attribute(attribute, self.shared_bytes as c_int)?)
    }

    /// Allows clusters of more than 8 CTAs, which not every GPU with clusters can place.
    pub(super) fn allow_large_clusters(&self) -> Result<(), CudaFailure> {
        self.set_attribute(
            FunctionAttribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
            1,
        )
    }

    fn set_attribute(
        &self,
        attribute: sys::CUfunction_attribute,
        value: c_int,
    ) -> Result<(), CudaFailure> {
        self.context().bind()?;
        let driver = self.context().driver;
        // SAFETY: the function lives and a context is current.
        let code = unsafe { (driver.cuFuncSetAttribute)(self.raw.0, attribute, value) };
        driver.check("cuFuncSetAttribute", code)
    }
}
