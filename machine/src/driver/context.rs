//! A GPU, its facts, and the context in which everything else is made.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::{CStr, c_int};
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute_enum as Attribute};
use target::{TARGETS, Target};

use super::{CudaFailure, DeviceFacts, Driver, Handle};
use crate::Error;

/// The primary context of one GPU, retained while this lives.
///
/// The primary context is the one that the CUDA runtime, candle and cudarc share, so pointers can be exchanged.
pub struct Context {
    /// The driver's functions.
    pub driver: &'static Driver,
    ordinal: usize,
    device: sys::CUdevice,
    raw: Handle<sys::CUctx_st>,
    facts: DeviceFacts,
    target: &'static Target,
}

impl Context {
    /// Opens GPU number `ordinal`, which must have the compute capability of a [`Target`].
    pub fn open(ordinal: usize) -> Result<Arc<Context>, Error> {
        let driver = Driver::get()?;
        let device = find_device(driver, ordinal)?;
        let facts = read_facts(driver, device)?;
        let found = TARGETS
            .into_iter()
            .find(|target| target.compute_capability == facts.capability);
        let Some(target) = found else {
            return Err(Error::UnsupportedGpu {
                name: facts.name,
                capability: facts.capability,
            });
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one handle; `device` came from cuDeviceGet.
        let code = unsafe { (driver.cuDevicePrimaryCtxRetain)(&raw mut raw, device) };
        driver.check("cuDevicePrimaryCtxRetain", code)?;
        Ok(Arc::new(Context {
            ordinal,
            driver,
            device,
            raw: Handle(raw),
            facts,
            target,
        }))
    }

    /// Its number among the GPUs that the driver shows.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// The architecture, with its limits.
    pub fn target(&self) -> &'static Target {
        self.target
    }

    /// What the driver says about it.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Makes this context the calling thread's, which most driver calls want.
    ///
    /// It is set every time and not remembered, because another library may have set its own in between.
    #[inline]
    pub fn bind(&self) -> Result<(), CudaFailure> {
        // SAFETY: the context is retained while `self` lives.
        let code = unsafe { (self.driver.cuCtxSetCurrent)(self.raw.0) };
        self.driver.check("cuCtxSetCurrent", code)
    }

    /// Waits for everything on the device, of all streams.
    pub fn synchronize(&self) -> Result<(), CudaFailure> {
        self.bind()?;
        // SAFETY: a context is current.
        let code = unsafe { (self.driver.cuCtxSynchronize)() };
        self.driver.check("cuCtxSynchronize", code)
    }

    /// Free and total device memory, in bytes.
    pub fn memory_bytes(&self) -> Result<(usize, usize), CudaFailure> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two integers; a context is current.
        let code = unsafe { (self.driver.cuMemGetInfo)(&raw mut free, &raw mut total) };
        self.driver.check("cuMemGetInfo", code)?;
        Ok((free, total))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // A failure here would only say that the driver is shutting down.
        // SAFETY: retained once in `open`, released once here, after everything made in it (they hold an `Arc`).
        let _ = unsafe { (self.driver.cuDevicePrimaryCtxRelease)(self.device) };
    }
}

fn find_device(driver: &Driver, ordinal: usize) -> Result<sys::CUdevice, Error> {
    let mut count = 0;
    // SAFETY: writes one int.
    let code = unsafe { (driver.cuDeviceGetCount)(&raw mut count) };
    driver.check("cuDeviceGetCount", code)?;
    let count = usize::try_from(count).unwrap_or(0);
    if count == 0 {
        return Err(Error::NoDevice);
    }
    if ordinal >= count {
        return Err(Error::NoSuchDevice { ordinal, count });
    }
    let mut device = 0;
    // SAFETY: writes one handle; the ordinal is in range.
    let code = unsafe { (driver.cuDeviceGet)(&raw mut device, ordinal as c_int) };
    driver.check("cuDeviceGet", code)?;
    Ok(device)
}

fn read_facts(driver: &Driver, device: sys::CUdevice) -> Result<DeviceFacts, Error> {
    let attribute = |attribute| -> Result<u32, CudaFailure> {
        let mut value = 0;
        // SAFETY: writes one int; `device` came from cuDeviceGet.
        let code = unsafe { (driver.cuDeviceGetAttribute)(&raw mut value, attribute, device) };
        driver.check("cuDeviceGetAttribute", code)?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let mut total_bytes = 0;
    // SAFETY: writes one integer; `device` came from cuDeviceGet.
    let code = unsafe { (driver.cuDeviceTotalMem)(&raw mut total_bytes, device) };
    driver.check("cuDeviceTotalMem", code)?;
    Ok(DeviceFacts {
        name: device_name(driver, device)?,
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        memory_bytes: total_bytes,
        l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
        shared_bytes_per_cta: attribute(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        )?,
        clock_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
        memory_clock_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
        memory_bus_bits: attribute(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
        driver_version: Some(driver.version()?),
    })
}

fn device_name(driver: &Driver, device: sys::CUdevice) -> Result<String, CudaFailure> {
    let mut buffer = [0; 128];
    // SAFETY: writes at most 128 bytes, the last of them a null.
    let code =
        unsafe { (driver.cuDeviceGetName)(buffer.as_mut_ptr(), buffer.len() as c_int, device) };
    driver.check("cuDeviceGetName", code)?;
    // SAFETY: the driver ended the name with a null inside the buffer.
    Ok(unsafe { CStr::from_ptr(buffer.as_ptr()) }
        .to_string_lossy()
        .into_owned())
}
