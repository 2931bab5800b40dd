//! The functions of the driver library, looked up once.
//!
//! cudarc has the types, finds the library and loads it. Its own call wrappers are not used: they panic on a missing
//! symbol, and they return a Rust `enum`, for which a code of a newer driver would be undefined behaviour. Here a
//! missing symbol is an error, and a result is a `u32`.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys;

use super::CudaFailure;
use crate::Error;
use crate::error::LOWEST_DRIVER;

/// A handle that the driver gave out.
///
/// The type parameter keeps streams, events and modules apart.
#[derive(Debug)]
pub struct Handle<T>(pub *mut T);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

// SAFETY: the driver's interface is thread-safe, and its handles are names of driver objects that any thread may use;
// nothing in Rust reads through the pointer.
unsafe impl<T> Send for Handle<T> {}

// SAFETY: as for `Send`.
unsafe impl<T> Sync for Handle<T> {}

macro_rules! driver_functions {
    ($($field:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// The driver's functions that this crate calls, under the names of `cuda.h`.
        #[allow(non_snake_case, reason = "the names of cuda.h")]
        pub struct Driver {
            $(
                #[doc = concat!("`", $symbol, "`")]
                pub $field: unsafe extern "C" fn($($argument),*) -> u32,
            )*
        }

        impl Driver {
            /// Looks up every function, or names the first that is missing.
            fn load() -> Result<Driver, Error> {
                // SAFETY: loading the NVIDIA driver runs its initialisers, which is what loading it is for.
                if !unsafe { sys::is_culib_present() } {
                    return Err(Error::NoDriver);
                }
                // SAFETY: as above; the library is known to be there, so this does not panic.
                let library = unsafe { sys::culib() };
                Ok(Driver {
                    $($field: {
                        // SAFETY: the signature is that of `cuda.h` for this versioned symbol, with `CUresult` as the
                        // unsigned integer that it is in C. The library is never unloaded.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) -> u32>($symbol.as_bytes())
                        };
                        *found.map_err(|_| Error::DriverIncomplete { symbol: $symbol })?
                    },)*
                })
            }
        }
    };
}

driver_functions! {
    cuGetErrorName = "cuGetErrorName" (u32, *mut *const c_char);
    cuGetErrorString = "cuGetErrorString" (u32, *mut *const c_char);
    cuInit = "cuInit" (c_uint);
    cuDriverGetVersion = "cuDriverGetVersion" (*mut c_int);
    cuDeviceGetCount = "cuDeviceGetCount" (*mut c_int);
    cuDeviceGet = "cuDeviceGet" (*mut sys::CUdevice, c_int);
    cuDeviceGetName = "cuDeviceGetName" (*mut c_char, c_int, sys::CUdevice);
    cuDeviceTotalMem = "cuDeviceTotalMem_v2" (*mut usize, sys::CUdevice);
    cuDeviceGetAttribute = "cuDeviceGetAttribute" (*mut c_int, sys::CUdevice_attribute, sys::CUdevice);
    cuDevicePrimaryCtxRetain = "cuDevicePrimaryCtxRetain" (*mut sys::CUcontext, sys::CUdevice);
    cuDevicePrimaryCtxRelease = "cuDevicePrimaryCtxRelease_v2" (sys::CUdevice);
    cuCtxSetCurrent = "cuCtxSetCurrent" (sys::CUcontext);
    cuCtxSynchronize = "cuCtxSynchronize" ();
    cuMemGetInfo = "cuMemGetInfo_v2" (*mut usize, *mut usize);
    cuMemAlloc = "cuMemAlloc_v2" (*mut sys::CUdeviceptr, usize);
    cuMemFree = "cuMemFree_v2" (sys::CUdeviceptr);
    cuMemHostAlloc = "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    cuMemHostGetDevicePointer = "cuMemHostGetDevicePointer_v2" (*mut sys::CUdeviceptr, *mut c_void, c_uint);
    cuMemFreeHost = "cuMemFreeHost" (*mut c_void);
    cuMemcpyHtoD = "cuMemcpyHtoD_v2" (sys::CUdeviceptr, *const c_void, usize);
    cuMemcpyDtoH = "cuMemcpyDtoH_v2" (*mut c_void, sys::CUdeviceptr, usize);
    cuMemcpyDtoDAsync = "cuMemcpyDtoDAsync_v2" (sys::CUdeviceptr, sys::CUdeviceptr, usize, sys::CUstream);
    cuMemsetD8Async = "cuMemsetD8Async" (sys::CUdeviceptr, u8, usize, sys::CUstream);
    cuStreamCreate = "cuStreamCreate" (*mut sys::CUstream, c_uint);
    cuStreamDestroy = "cuStreamDestroy_v2" (sys::CUstream);
    cuStreamSynchronize = "cuStreamSynchronize" (sys::CUstream);
    cuStreamQuery = "cuStreamQuery" (sys::CUstream);
    cuStreamWaitEvent = "cuStreamWaitEvent" (sys::CUstream, sys::CUevent, c_uint);
    cuStreamBeginCapture = "cuStreamBeginCapture_v2" (sys::CUstream, sys::CUstreamCaptureMode);
    cuStreamEndCapture = "cuStreamEndCapture" (sys::CUstream, *mut sys::CUgraph);
    cuEventCreate = "cuEventCreate" (*mut sys::CUevent, c_uint);
    cuEventDestroy = "cuEventDestroy_v2" (sys::CUevent);
    cuEventRecord = "cuEventRecord" (sys::CUevent, sys::CUstream);
    cuEventSynchronize = "cuEventSynchronize" (sys::CUevent);
    cuEventElapsedTime = "cuEventElapsedTime" (*mut f32, sys::CUevent, sys::CUevent);
    cuGraphInstantiate = "cuGraphInstantiateWithFlags" (*mut sys::CUgraphExec, sys::CUgraph, c_ulonglong);
    cuGraphLaunch = "cuGraphLaunch" (sys::CUgraphExec, sys::CUstream);
    cuGraphGetEdges = "cuGraphGetEdges_v2"
        (sys::CUgraph, *mut sys::CUgraphNode, *mut sys::CUgraphNode, *mut sys::CUgraphEdgeData, *mut usize);
    cuGraphDestroy = "cuGraphDestroy" (sys::CUgraph);
    cuGraphExecDestroy = "cuGraphExecDestroy" (sys::CUgraphExec);
    cuModuleLoadDataEx = "cuModuleLoadDataEx"
        (*mut sys::CUmodule, *const c_void, c_uint, *mut sys::CUjit_option, *mut *mut c_void);
    cuModuleUnload = "cuModuleUnload" (sys::CUmodule);
    cuModuleGetFunction = "cuModuleGetFunction" (*mut sys::CUfunction, sys::CUmodule, *const c_char);
    cuFuncGetAttribute = "cuFuncGetAttribute" (*mut c_int, sys::CUfunction_attribute, sys::CUfunction);
    cuFuncGetParamInfo = "cuFuncGetParamInfo" (sys::CUfunction, usize, *mut usize, *mut usize);
    cuFuncSetAttribute = "cuFuncSetAttribute" (sys::CUfunction, sys::CUfunction_attribute, c_int);
    cuTensorMapEncodeTiled = "cuTensorMapEncodeTiled" (
        *mut sys::CUtensorMap, sys::CUtensorMapDataType, u32, *mut c_void, *const u64, *const u64, *const u32,
        *const u32, sys::CUtensorMapInterleave, sys::CUtensorMapSwizzle, sys::CUtensorMapL2promotion,
        sys::CUtensorMapFloatOOBfill
    );
    cuTensorMapEncodeIm2col = "cuTensorMapEncodeIm2col" (
        *mut sys::CUtensorMap, sys::CUtensorMapDataType, u32, *mut c_void, *const u64, *const u64, *const c_int,
        *const c_int, u32, u32, *const u32, sys::CUtensorMapInterleave, sys::CUtensorMapSwizzle,
        sys::CUtensorMapL2promotion, sys::CUtensorMapFloatOOBfill
    );
    cuLaunchKernelEx = "cuLaunchKernelEx"
        (*const sys::CUlaunchConfig, sys::CUfunction, *mut *mut c_void, *mut *mut c_void);
    cuOccupancyMaxActiveBlocks = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        (*mut c_int, sys::CUfunction, c_int, usize);
    cuOccupancyMaxActiveClusters = "cuOccupancyMaxActiveClusters"
        (*mut c_int, sys::CUfunction, *const sys::CUlaunchConfig);
}

impl Driver {
    /// The driver of this machine, loaded, initialised and found new enough; the answer is kept for the process.
    pub fn get() -> Result<&'static Driver, Error> {
        static DRIVER: OnceLock<Result<Driver, Error>> = OnceLock::new();
        DRIVER
            .get_or_init(Driver::open)
            .as_ref()
            .map_err(Clone::clone)
    }

    fn open() -> Result<Driver, Error> {
        let driver = Driver::load()?;
        // The version may be asked before cuInit, and an old driver must be named even where cuInit fails.
        let found = driver.version()?;
        if found < LOWEST_DRIVER {
            return Err(Error::DriverTooOld { found });
        }
        // SAFETY: no preconditions; the flags must be 0.
        let code = unsafe { (driver.cuInit)(0) };
        driver
            .check("cuInit", code)
            .map_err(|failure| match failure.code {
                // CUDA_ERROR_NO_DEVICE
                100 => Error::NoDevice,
                _ => Error::Cuda(failure),
            })?;
        Ok(driver)
    }

    /// The newest CUDA that the driver supports, as 1000 · major + 10 · minor.
    pub fn version(&self) -> Result<i32, CudaFailure> {
        let mut version = 0;
        // SAFETY: writes one int.
        let code = unsafe { (self.cuDriverGetVersion)(&raw mut version) };
        self.check("cuDriverGetVersion", code)?;
        Ok(version)
    }

    /// `Ok` for success, else what the driver says about `code`.
    #[inline]
    pub fn check(&self, call: &'static str, code: u32) -> Result<(), CudaFailure> {
        if code == 0 {
            Ok(())
        } else {
            Err(self.failure(call, code))
        }
    }

    #[cold]
    fn failure(&self, call: &'static str, code: u32) -> CudaFailure {
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
        CudaFailure {
            call,
            code,
            name: describe(self.cuGetErrorName).unwrap_or_else(|| format!("CUDA_ERROR_{code}")),
            text: describe(self.cuGetErrorString).unwrap_or_else(|| "unknown error".to_string()),
        }
    }
}
