//! Devices: a GPU or the emulator.

use std::fmt;
use std::sync::Arc;

use crate::buffer::Memory;
use crate::cuda;
use crate::error::{Result, version_text};

/// Something that runs kernels. Cloning it gives another name for the same device.
#[derive(Clone)]
pub struct Device(Arc<Backend>);

/// What stands behind a device.
pub(crate) enum Backend {
    /// A GPU, by its driver.
    Cuda(Arc<cuda::Context>),
}

impl Device {
    /// GPU number `ordinal`, counted from 0 among those that `CUDA_VISIBLE_DEVICES` shows.
    ///
    /// # Errors
    /// No driver, a driver that is too old, no such GPU, or one that is not of compute capability 9.0.
    pub fn cuda(ordinal: usize) -> Result<Device> {
        Ok(Device(Arc::new(Backend::Cuda(cuda::Context::open(
            ordinal,
        )?))))
    }

    /// What is known of it.
    pub fn facts(&self) -> &DeviceFacts {
        match &*self.0 {
            Backend::Cuda(context) => context.facts(),
        }
    }

    /// Waits for everything on the device, of all streams.
    ///
    /// # Errors
    /// What a kernel that ran since the last wait ended with.
    pub fn synchronize(&self) -> Result<()> {
        match &*self.0 {
            Backend::Cuda(context) => Ok(context.synchronize()?),
        }
    }

    /// Free and total memory, in bytes.
    pub fn memory_bytes(&self) -> Result<(usize, usize)> {
        match &*self.0 {
            Backend::Cuda(context) => Ok(context.memory_bytes()?),
        }
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.0
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<Memory> {
        match &*self.0 {
            Backend::Cuda(context) => {
                Ok(Memory::Cuda(cuda::DeviceMemory::allocate(context, bytes)?))
            }
        }
    }
}

/// Whether two names are of one device.
impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.facts().name)
    }
}

/// What is known of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Its name, such as `NVIDIA H200`.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// How many multiprocessors (SMs) it has.
    pub multiprocessors: u32,
    /// Device memory, bytes.
    pub memory_bytes: usize,
    /// L2 cache, bytes.
    pub l2_bytes: usize,
    /// The most shared memory that one CTA can ask for, bytes.
    pub shared_bytes_per_cta: u32,
    /// The highest SM clock, kHz.
    pub clock_khz: u32,
    /// The highest memory clock, kHz.
    pub memory_clock_khz: u32,
    /// The newest CUDA that the driver supports, as 1000 · major + 10 · minor; none for the emulator.
    pub driver_version: Option<i32>,
}

impl DeviceFacts {
    /// The driver's CUDA version as text, such as `13.0`.
    pub fn driver_text(&self) -> Option<String> {
        self.driver_version.map(version_text)
    }
}

/// Where an entry reads one of its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterPlace {
    /// From the start of the parameter block, bytes.
    pub offset: u32,
    /// Size, bytes.
    pub bytes: u32,
}

/// What the driver says of loaded code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryFacts {
    /// Registers per thread at entry.
    pub registers: u32,
    /// Local memory per thread, bytes; above 0 for spills.
    pub local_bytes: u32,
    /// Statically allocated shared memory per CTA, bytes.
    pub static_shared_bytes: u32,
    /// The most threads that a CTA of this code may have.
    pub max_threads: u32,
}
