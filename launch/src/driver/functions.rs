//! The functions that launching takes, and the driver that has them.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use super::failure::LOWEST_VERSION;
use super::{
    ContextHandle, Failure, FunctionHandle, LaunchConfig, Library, ModuleHandle, StreamHandle,
    Unavailable,
};

crate::driver_functions! {
    /// The driver's functions that launching takes.
    Functions:
    cuInit = "cuInit" (c_uint);
    cuDriverGetVersion = "cuDriverGetVersion" (*mut c_int);
    cuGetErrorName = "cuGetErrorName" (u32, *mut *const c_char);
    cuGetErrorString = "cuGetErrorString" (u32, *mut *const c_char);
    cuDeviceGetCount = "cuDeviceGetCount" (*mut c_int);
    cuDeviceGet = "cuDeviceGet" (*mut c_int, c_int);
    cuDeviceGetName = "cuDeviceGetName" (*mut c_char, c_int, c_int);
    cuDeviceGetAttribute = "cuDeviceGetAttribute" (*mut c_int, u32, c_int);
    cuDevicePrimaryCtxRetain = "cuDevicePrimaryCtxRetain" (*mut ContextHandle, c_int);
    cuCtxGetCurrent = "cuCtxGetCurrent" (*mut ContextHandle);
    cuCtxSetCurrent = "cuCtxSetCurrent" (ContextHandle);
    cuCtxGetDevice = "cuCtxGetDevice" (*mut c_int);
    cuCtxGetId = "cuCtxGetId" (ContextHandle, *mut u64);
    cuPointerGetAttribute = "cuPointerGetAttribute" (*mut c_void, u32, u64);
    cuStreamIsCapturing = "cuStreamIsCapturing" (StreamHandle, *mut c_uint);
    cuModuleLoadDataEx = "cuModuleLoadDataEx"
        (*mut ModuleHandle, *const c_void, c_uint, *mut u32, *mut *mut c_void);
    cuModuleGetFunction = "cuModuleGetFunction" (*mut FunctionHandle, ModuleHandle, *const c_char);
    cuFuncSetAttribute = "cuFuncSetAttribute" (FunctionHandle, u32, c_int);
    cuOccupancyMaxActiveBlocks = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        (*mut c_int, FunctionHandle, c_int, usize);
    cuOccupancyMaxActiveClusters = "cuOccupancyMaxActiveClusters" (*mut c_int, FunctionHandle, *const LaunchConfig);
    cuTensorMapEncodeTiled = "cuTensorMapEncodeTiled" (
        *mut c_void, u32, u32, *mut c_void, *const u64, *const u64, *const u32, *const u32, u32, u32, u32, u32
    );
    cuTensorMapEncodeIm2col = "cuTensorMapEncodeIm2col" (
        *mut c_void, u32, u32, *mut c_void, *const u64, *const u64, *const c_int, *const c_int, u32, u32, *const u32,
        u32, u32, u32, u32
    );
    cuLaunchKernelEx = "cuLaunchKernelEx"
        (*const LaunchConfig, FunctionHandle, *mut *mut c_void, *mut *mut c_void);
}

/// The driver of this machine.
pub struct Driver {
    /// For functions that somebody else calls.
    library: Library,
    pub(super) functions: Functions,
}

impl Driver {
    /// The driver of this machine, loaded, initialised and found new enough; the answer is kept for the process.
    ///
    /// # Errors
    /// That there is none, or which part of it is missing or too old.
    pub fn get() -> Result<&'static Driver, Unavailable> {
        static DRIVER: OnceLock<Result<Driver, Unavailable>> = OnceLock::new();
        let driver = DRIVER.get_or_init(Driver::open);
        driver.as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Driver, Unavailable> {
        let library = Library::open()?;
        let functions = Functions::of_library(&library)?;
        let driver = Driver { library, functions };
        // The version may be asked before cuInit, and an old driver must be named even where cuInit fails.
        let found = driver.version()?;
        if found < LOWEST_VERSION {
            return Err(Unavailable::TooOld { found });
        }
        // SAFETY: no preconditions; the flags must be 0.
        let code = unsafe { (driver.functions.cuInit)(0) };
        driver
            .check("cuInit", code)
            .map_err(|failure| match failure.code {
                // CUDA_ERROR_NO_DEVICE
                100 => Unavailable::NoDevice,
                _ => Unavailable::Refused(failure),
            })?;
        Ok(driver)
    }

    /// The library, for a table of further functions.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// The functions, for calls that have no method.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The newest CUDA that the driver supports, as 1000 · major + 10 · minor.
    ///
    /// # Errors
    /// What the driver refuses.
    pub fn version(&self) -> Result<i32, Failure> {
        let mut version = 0;
        // SAFETY: writes one int.
        let code = unsafe { (self.functions.cuDriverGetVersion)(&raw mut version) };
        self.check("cuDriverGetVersion", code)?;
        Ok(version)
    }

    /// `Ok` for success, else what the driver says about `code`.
    ///
    /// # Errors
    /// Any code but 0.
    #[inline]
    pub fn check(&self, call: &'static str, code: u32) -> Result<(), Failure> {
        if code == 0 {
            Ok(())
        } else {
            Err(self.failure(call, code))
        }
    }

    #[cold]
    fn failure(&self, call: &'static str, code: u32) -> Failure {
        let describe = |function: unsafe extern "C" fn(u32, *mut *const c_char) -> u32| {
            let mut text = std::ptr::null();
            // SAFETY: writes one pointer; an unknown code writes null and returns an error.
            let known = unsafe { function(code, &raw mut text) } == 0 && !text.is_null();
            known.then(|| {
                // SAFETY: the driver's texts are static and end with a null.
                let text = unsafe { CStr::from_ptr(text) };
                text.to_string_lossy().into_owned()
            })
        };
        Failure {
            call,
            code,
            name: describe(self.functions.cuGetErrorName)
                .unwrap_or_else(|| format!("CUDA_ERROR_{code}")),
            text: describe(self.functions.cuGetErrorString)
                .unwrap_or_else(|| "unknown error".to_owned()),
        }
    }
}
