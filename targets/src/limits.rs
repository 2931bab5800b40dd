//! The limits of a target, by what they limit.

/// What one CTA can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CtaLimits {
    /// Threads (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
    pub threads: u32,
    /// Threads along x, y and z (same place).
    pub block: [u32; 3],
    /// Shared memory, static and dynamic together, in bytes (same place).
    pub shared_bytes: u32,
    /// Shared memory that it can have as arrays of fixed size, or without the attribute that allows more, in bytes (same place).
    pub static_shared_bytes: u32,
    /// Barriers of `barrier.cta` and `bar`, counted from 0 (PTX ISA 9.7.13.1).
    pub barriers: u32,
    /// Parameters of an entry in bytes (PTX ISA 5.1.6).
    pub parameter_bytes: u32,
    /// The same from PTX ISA 8.1 on.
    pub long_parameter_bytes: u32,
}

impl CtaLimits {
    /// Warps, of 32 threads each.
    pub const fn warps(&self) -> u32 {
        self.threads / 32
    }
}

/// What an SM has, for all CTAs on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmLimits {
    /// Threads (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
    pub threads: u32,
    /// CTAs (same place).
    pub ctas: u32,
    /// Shared memory in bytes (same place).
    pub shared_bytes: u32,
    /// Bytes of it that the system takes for each CTA (CUDA C++ Programming Guide, "Shared Memory" of the compute capability).
    pub reserved_shared_bytes_per_cta: u32,
    /// The unit in bytes in which a CTA is given shared memory (CUDA occupancy calculator).
    pub shared_unit_bytes: u32,
    /// 32-bit registers; one CTA may have all of them (CUDA C++ Programming Guide, same table).
    pub registers: u32,
}

/// Registers of a thread. Each has 32 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterLimits {
    /// The most (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
    pub per_thread: u32,
    /// A thread is given a multiple of so many (CUDA occupancy calculator; PTX ISA 9.7.19.5).
    pub unit: u32,
    /// The lowest count of `setmaxnreg` (PTX ISA 9.7.19.5), and the lowest `.maxnreg` that ptxas follows.
    pub least_budget: u32,
    /// The highest count of `setmaxnreg` (PTX ISA 9.7.19.5).
    pub most_budget: u32,
}

/// CTAs of a cluster (CUDA C++ Programming Guide, "Thread Block Clusters").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterLimits {
    /// The most, where the launch allows a size that is not portable.
    pub ctas: u32,
    /// The most that each GPU of the architecture can run.
    pub portable_ctas: u32,
}

/// Loads and stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLimits {
    /// The widest access of one thread, in bytes (PTX ISA 9.7.9.8: `.v4.b32`, `.v2.b64`).
    pub widest_bytes: u32,
    /// Bytes that one `cp.async` copies, the most first (PTX ISA 9.7.9.25.3.1).
    pub async_bytes: [u32; 3],
    /// The sector in bytes, in which global memory is read and written (CUDA C++ Best Practices Guide, "Coalesced Access").
    pub sector_bytes: u32,
}

impl AccessLimits {
    /// What one `cp.async` may copy, as `4, 8 or 16`.
    pub fn async_bytes_in_words(&self) -> String {
        let [most, middle, least] = self.async_bytes;
        format!("{least}, {middle} or {most}")
    }
}

/// mbarriers (PTX ISA 9.7.13.15).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MbarrierLimits {
    /// Arrivals of one phase (PTX ISA 9.7.13.15.2).
    pub arrivals: u32,
    /// Bytes that one phase may expect of asynchronous copies (same place).
    pub transaction_bytes: u32,
}

/// Tensor maps (PTX ISA 5.5.8; CUDA driver API, `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`) and the TMA unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapLimits {
    /// Dimensions of a tensor.
    pub rank: u32,
    /// The fewest dimensions of an image in im2col mode.
    pub least_im2col_rank: u32,
    /// Elements of a tensor along one dimension.
    pub dim_elements: u64,
    /// What the address of a tensor, its strides, the innermost extent of a box and the size of a bulk copy are multiples of, in
    /// bytes (also PTX ISA 9.7.9.25.4).
    pub unit_bytes: u32,
    /// The stride of a dimension is below so many bytes.
    pub stride_bytes: u64,
    /// The step from one element that is copied to the next, in elements.
    pub element_stride: u32,
    /// Elements of a box along one dimension, those that steps skip included; also channels of an im2col copy.
    pub box_elements: u32,
    /// Pixels of an im2col copy.
    pub pixels: u32,
    /// The alignment of a box in shared memory, in bytes (PTX ISA 5.5.6, Table "Shared memory alignment").
    pub box_alignment_bytes: u32,
    /// Bytes over which 16-byte chunks are permuted in shared memory.
    pub swizzles: SwizzleSpans,
}

/// Bytes of the rows over which a tensor map swizzles; 0 is no swizzle (PTX ISA 5.5.6).
pub type SwizzleSpans = [u32; 4];

impl TensorMapLimits {
    /// Offsets that a corner of the bounding box of an image with `rank` dimensions may have, in elements; none where there is no
    /// such image (CUDA driver API, `cuTensorMapEncodeIm2col`).
    ///
    /// The corners share 32 bits, 16 for each of the two: the range is that of a signed number of 16 / (rank - 2) bits.
    pub fn corner_offsets(&self, rank: usize) -> Option<std::ops::RangeInclusive<i32>> {
        let spatial = (rank as u32).checked_sub(2)?;
        if rank as u32 > self.rank || (rank as u32) < self.least_im2col_rank {
            return None;
        }
        let most = 1 << (16 / spatial - 1);
        Some(-most..=most - 1)
    }
}

#[cfg(test)]
mod tests {
    use crate::SM_90A;

    #[test]
    fn corners_of_images_have_16_8_or_5_bits() {
        let offsets = |rank| SM_90A.tensor_map.corner_offsets(rank);
        assert_eq!(offsets(2), None);
        assert_eq!(offsets(3), Some(-32_768..=32_767));
        assert_eq!(offsets(4), Some(-128..=127));
        assert_eq!(offsets(5), Some(-16..=15));
        assert_eq!(offsets(6), None);
    }
}
