//! GPUs by the driver's numbers, and which context is current.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::{CStr, c_int};

use super::numbers::{
    CAPABILITY_MAJOR, CAPABILITY_MINOR, MULTIPROCESSOR_COUNT, POINTER_DEVICE_ORDINAL,
};
use super::{ContextHandle, Driver, Failure, Unavailable};

impl Driver {
    /// The handle, a `CUdevice`, of GPU number `ordinal`.
    ///
    /// # Errors
    /// That there is no such GPU, or what the driver refuses.
    pub fn device(&self, ordinal: usize) -> Result<c_int, Unavailable> {
        let mut count = 0;
        // SAFETY: writes one int.
        let code = unsafe { (self.functions.cuDeviceGetCount)(&raw mut count) };
        self.check("cuDeviceGetCount", code)?;
        let count = usize::try_from(count).unwrap_or(0);
        if count == 0 {
            return Err(Unavailable::NoDevice);
        }
        if ordinal >= count {
            return Err(Unavailable::NoSuchDevice { ordinal, count });
        }
        let mut device = 0;
        // SAFETY: writes one int; the ordinal is in range.
        let code = unsafe { (self.functions.cuDeviceGet)(&raw mut device, ordinal as c_int) };
        self.check("cuDeviceGet", code)?;
        Ok(device)
    }

    /// A `CUdevice_attribute` of a GPU.
    ///
    /// # Errors
    /// What the driver refuses.
    pub fn device_attribute(&self, device: c_int, attribute: u32) -> Result<u32, Failure> {
        let mut value = 0;
        // SAFETY: writes one int; a number that is no GPU's is refused.
        let code =
            unsafe { (self.functions.cuDeviceGetAttribute)(&raw mut value, attribute, device) };
        self.check("cuDeviceGetAttribute", code)?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Compute capability of a GPU, major and minor.
    ///
    /// # Errors
    /// What the driver refuses.
    pub fn capability(&self, device: c_int) -> Result<(u32, u32), Failure> {
        Ok((
            self.device_attribute(device, CAPABILITY_MAJOR)?,
            self.device_attribute(device, CAPABILITY_MINOR)?,
        ))
    }

    /// Multiprocessors of a GPU.
    ///
    /// # Errors
    /// What the driver refuses.
    pub fn multiprocessors(&self, device: c_int) -> Result<u32, Failure> {
        self.device_attribute(device, MULTIPROCESSOR_COUNT)
    }

    /// The number of the GPU whose memory is at `address`.
    ///
    /// # Errors
    /// An address that the driver did not allocate, or what it refuses.
    pub fn device_of(&self, address: u64) -> Result<i32, Failure> {
        let mut ordinal: c_int = 0;
        // SAFETY: writes one int; any number may be asked about.
        let code = unsafe {
            (self.functions.cuPointerGetAttribute)(
                (&raw mut ordinal).cast(),
                POINTER_DEVICE_ORDINAL,
                address,
            )
        };
        self.check("cuPointerGetAttribute", code)?;
        Ok(ordinal)
    }

    /// What the driver calls a GPU, such as `NVIDIA H200`.
    ///
    /// # Errors
    /// What the driver refuses.
    pub fn device_name(&self, device: c_int) -> Result<String, Failure> {
        let mut buffer = [0; 128];
        // SAFETY: writes at most 128 bytes, the last of them a null.
        let code = unsafe {
            (self.functions.cuDeviceGetName)(buffer.as_mut_ptr(), buffer.len() as c_int, device)
        };
        self.check("cuDeviceGetName", code)?;
        // SAFETY: the driver ended the name with a null inside of the buffer.
        let name = unsafe { CStr::from_ptr(buffer.as_ptr()) };
        Ok(name.to_string_lossy().into_owned())
    }

    /// Retains the primary context of a GPU, which the CUDA runtime, torch, JAX, candle and cudarc share, so that pointers
    /// can be exchanged. Releasing it is the caller's.
    ///
    /// # Errors
    /// What the driver refuses.
    pub fn retain_primary(&self, device: c_int) -> Result<ContextHandle, Failure> {
        let mut context = ContextHandle::NULL;
        // SAFETY: writes one handle; a number that is no GPU's is refused.
        let code = unsafe { (self.functions.cuDevicePrimaryCtxRetain)(&raw mut context, device) };
        self.check("cuDevicePrimaryCtxRetain", code)?;
        Ok(context)
    }

    /// The context that is current in the calling thread; null for none.
    ///
    /// # Errors
    /// What the driver refuses.
    #[inline]
    pub fn current(&self) -> Result<ContextHandle, Failure> {
        let mut context = ContextHandle::NULL;
        // SAFETY: writes one handle.
        let code = unsafe { (self.functions.cuCtxGetCurrent)(&raw mut context) };
        self.check("cuCtxGetCurrent", code)?;
        Ok(context)
    }

    /// Makes a context the calling thread's, which most calls of the driver want.
    ///
    /// # Errors
    /// What the driver refuses.
    ///
    /// # Safety
    /// `context` lives, or is null, which is no context.
    #[inline]
    pub unsafe fn set_current(&self, context: ContextHandle) -> Result<(), Failure> {
        // SAFETY: the caller's word.
        let code = unsafe { (self.functions.cuCtxSetCurrent)(context) };
        self.check("cuCtxSetCurrent", code)
    }
}
