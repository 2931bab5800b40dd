//! Facts about a device.

use launch::driver::version_text;

/// Facts about a device.
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
    /// Width of the bus to device memory, bits.
    pub memory_bus_bits: u32,
    /// The newest CUDA that the driver supports, as 1000 · major + 10 · minor; none for the emulator.
    pub driver_version: Option<i32>,
}

impl DeviceFacts {
    /// The driver's CUDA version as text, such as `13.0`.
    pub fn driver_text(&self) -> Option<String> {
        self.driver_version.map(version_text)
    }
}
