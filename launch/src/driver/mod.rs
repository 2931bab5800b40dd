//! The NVIDIA driver: the functions that launching takes, without a CUDA toolkit and without bindings made from its headers.

mod functions;
mod launch;

pub use functions::{Driver, Failure, LIBRARY_VARIABLE, LOWEST_VERSION};
pub use launch::{LaunchAttribute, LaunchConfig, LaunchShape};

/// A handle of the driver's: of a context, a stream, a module or a function.
pub type Handle = *mut std::ffi::c_void;

/// Numbers of `cuda.h` that this crate passes.
pub mod numbers {
    /// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`
    pub const MULTIPROCESSOR_COUNT: u32 = 16;
    /// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`
    pub const CAPABILITY_MAJOR: u32 = 75;
    /// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`
    pub const CAPABILITY_MINOR: u32 = 76;
    /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
    pub const MAX_DYNAMIC_SHARED_BYTES: u32 = 8;
    /// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`
    pub const NON_PORTABLE_CLUSTER: u32 = 14;
    /// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`
    pub const COOPERATIVE: u32 = 2;
    /// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`
    pub const CLUSTER_DIMENSION: u32 = 4;
    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`
    pub const PROGRAMMATIC_STREAM_SERIALIZATION: u32 = 6;
    /// `CU_TENSOR_MAP_L2_PROMOTION_L2_256B`
    pub const PROMOTION_256_BYTES: u32 = 3;
    /// `CU_STREAM_CAPTURE_STATUS_NONE`
    pub const NOT_CAPTURING: u32 = 0;
}
