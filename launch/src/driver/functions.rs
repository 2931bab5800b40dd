//! The functions of the driver's library, looked up once.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::{CStr, OsString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::sync::OnceLock;

use libloading::Library;

use super::{Handle, LaunchConfig};
use crate::error::Error;

/// The environment variable that names another library than `libcuda.so.1`.
pub const LIBRARY_VARIABLE: &str = "TILEKIT_LIBCUDA";

/// The lowest driver that is supported, in the driver's own numbering: CUDA 12.8.
pub const LOWEST_VERSION: i32 = 12_080;

/// One call of the driver that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The driver function that was called.
    pub call: &'static str,
    /// The `CUresult` that it returned.
    pub code: u32,
    /// The code's name, such as `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub name: String,
    /// What the driver says about the code.
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.call, self.text, self.name)
    }
}

impl std::error::Error for Failure {}

macro_rules! driver_functions {
    ($($field:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// The driver's functions that this crate calls, under the names of `cuda.h`.
        ///
        /// A result is a `u32` and no Rust `enum`, for which a code of a newer driver would be undefined behaviour.
        #[allow(non_snake_case, reason = "the names of cuda.h")]
        pub struct Driver {
            $(
                #[doc = concat!("`", $symbol, "`")]
                pub $field: unsafe extern "C" fn($($argument),*) -> u32,
            )*
        }

        impl Driver {
            /// Looks up every function, or names the first that is missing.
            fn of_library(library: &Library) -> Result<Driver, Error> {
                Ok(Driver {
                    $($field: {
                        // SAFETY: the signature is that of `cuda.h` for this versioned symbol, with `CUresult` and
                        // enumerations as the unsigned integers that they are in C. The library is never unloaded.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) -> u32>($symbol.as_bytes())
                        };
                        *found.map_err(|_| missing($symbol))?
                    },)*
                })
            }
        }
    };
}

driver_functions! {
    cuInit = "cuInit" (c_uint);
    cuDriverGetVersion = "cuDriverGetVersion" (*mut c_int);
    cuGetErrorName = "cuGetErrorName" (u32, *mut *const c_char);
    cuGetErrorString = "cuGetErrorString" (u32, *mut *const c_char);
    cuDeviceGetCount = "cuDeviceGetCount" (*mut c_int);
    cuDeviceGet = "cuDeviceGet" (*mut c_int, c_int);
    cuDeviceGetName = "cuDeviceGetName" (*mut c_char, c_int, c_int);
    cuDeviceGetAttribute = "cuDeviceGetAttribute" (*mut c_int, u32, c_int);
    cuDevicePrimaryCtxRetain = "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
    cuCtxGetCurrent = "cuCtxGetCurrent" (*mut Handle);
    cuCtxSetCurrent = "cuCtxSetCurrent" (Handle);
    cuCtxGetDevice = "cuCtxGetDevice" (*mut c_int);
    cuCtxGetId = "cuCtxGetId" (Handle, *mut u64);
    cuStreamIsCapturing = "cuStreamIsCapturing" (Handle, *mut c_uint);
    cuModuleLoadData = "cuModuleLoadData" (*mut Handle, *const c_void);
    cuModuleGetFunction = "cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    cuFuncSetAttribute = "cuFuncSetAttribute" (Handle, u32, c_int);
    cuOccupancyMaxActiveBlocks = "cuOccupancyMaxActiveBlocksPerMultiprocessor" (*mut c_int, Handle, c_int, usize);
    cuOccupancyMaxActiveClusters = "cuOccupancyMaxActiveClusters" (*mut c_int, Handle, *const LaunchConfig);
    cuTensorMapEncodeTiled = "cuTensorMapEncodeTiled" (
        *mut c_void, u32, u32, *mut c_void, *const u64, *const u64, *const u32, *const u32, u32, u32, u32, u32
    );
    cuLaunchKernelEx = "cuLaunchKernelEx" (*const LaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void);
}

impl Driver {
    /// The driver of this machine, loaded, initialised and found new enough; the answer is kept for the process.
    ///
    /// # Errors
    /// That there is none, or which part of it is missing or too old.
    pub fn get() -> Result<&'static Driver, Error> {
        static DRIVER: OnceLock<Result<Driver, Error>> = OnceLock::new();
        let driver = DRIVER.get_or_init(Driver::open);
        driver.as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Driver, Error> {
        let named = std::env::var_os(LIBRARY_VARIABLE).filter(|name| !name.is_empty());
        let name = named.unwrap_or_else(|| OsString::from("libcuda.so.1"));
        // SAFETY: loading the NVIDIA driver runs its initialisers, which is what loading it is for.
        let library = unsafe { Library::new(&name) };
        let library = library.map_err(|error| no_driver(&name.to_string_lossy(), &error))?;
        let driver = Driver::of_library(&library);
        // Streams, contexts and functions may outlive everything of ours.
        std::mem::forget(library);
        let driver = driver?;
        // The version may be asked before cuInit, and an old driver must be named even where cuInit fails.
        let found = driver
            .version()
            .map_err(|failure| Error::of_driver("the NVIDIA driver", failure))?;
        if found < LOWEST_VERSION {
            return Err(Error::of_runtime(format!(
                "the NVIDIA driver supports CUDA {}, and 12.8 or later is needed; update the driver",
                version_text(found)
            )));
        }
        // SAFETY: no preconditions; the flags must be 0.
        let code = unsafe { (driver.cuInit)(0) };
        driver
            .check("cuInit", code)
            .map_err(|failure| match failure.code {
                // CUDA_ERROR_NO_DEVICE
                100 => {
                    Error::of_runtime("the NVIDIA driver sees no GPU; check CUDA_VISIBLE_DEVICES")
                }
                _ => Error::of_driver("the NVIDIA driver", failure),
            })?;
        Ok(driver)
    }

    fn version(&self) -> Result<i32, Failure> {
        let mut version = 0;
        // SAFETY: writes one int.
        let code = unsafe { (self.cuDriverGetVersion)(&raw mut version) };
        self.check("cuDriverGetVersion", code)?;
        Ok(version)
    }

    /// `Ok` for success, else what the driver says about `code`.
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
            name: describe(self.cuGetErrorName).unwrap_or_else(|| format!("CUDA_ERROR_{code}")),
            text: describe(self.cuGetErrorString).unwrap_or_else(|| "unknown error".to_owned()),
        }
    }
}

fn no_driver(name: &str, error: &libloading::Error) -> Error {
    Error::of_runtime(format!(
        "no NVIDIA driver: {name} could not be loaded ({error}); install the driver, or run the kernel on TileKit's \
         emulator, which needs none"
    ))
}

fn missing(symbol: &str) -> Error {
    Error::of_runtime(format!(
        "the NVIDIA driver library has no `{symbol}`; reinstall the driver (CUDA 12.8 or later)"
    ))
}

/// `12080` as `12.8`.
fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}
