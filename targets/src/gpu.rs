//! GPUs by what they do at the most: the one that the emulator models.

/// A GPU of a target. Its limits are those of the [`Target`](crate::Target).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// As its driver names it.
    pub name: &'static str,
    /// Multiprocessors.
    pub sms: u32,
    /// The highest clock of its multiprocessors, kHz.
    pub clock_khz: u32,
    /// The highest clock of its memory, kHz; a pin transfers two bits in a cycle.
    pub memory_clock_khz: u32,
    /// Pins of its memory.
    pub memory_bus_bits: u32,
}

/// NVIDIA H200 SXM, as its driver (580.159.04) says by `cuDeviceGetAttribute`; the memory is HBM3e.
pub const H200: Gpu = Gpu {
    name: "NVIDIA H200",
    sms: 132,
    clock_khz: 1_980_000,
    memory_clock_khz: 3_201_000,
    memory_bus_bits: 6016,
};
