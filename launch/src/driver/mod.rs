//! The NVIDIA driver: its library, and what launching asks of it, without a CUDA toolkit and without bindings made from its
//! headers. Everything of TileKit that calls the driver goes through here; other crates look up further functions in
//! [`Driver::library`], with the table that [`driver_functions!`](crate::driver_functions) makes.

mod code;
mod device;
mod failure;
mod functions;
mod handle;
mod launch;
mod library;
mod tensor_map;

pub use code::JitLog;
pub use failure::{Failure, LOWEST_VERSION, Unavailable, version_text};
pub use functions::{Driver, Functions};
pub use handle::{ContextHandle, FunctionHandle, Handle, ModuleHandle, StreamHandle, object};
pub use launch::{LaunchAttribute, LaunchConfig, LaunchShape};
pub use library::{LIBRARY_VARIABLE, Library};
pub use tensor_map::{Encoded, MapAccess, MapElement, MapShape, Promotion, RANK};

/// Numbers of `cuda.h` that this crate passes.
mod numbers {
    /// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`
    pub(super) const MULTIPROCESSOR_COUNT: u32 = 16;
    /// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`
    pub(super) const CAPABILITY_MAJOR: u32 = 75;
    /// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`
    pub(super) const CAPABILITY_MINOR: u32 = 76;
    /// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`
    pub(super) const POINTER_DEVICE_ORDINAL: u32 = 9;
    /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
    pub(super) const MAX_DYNAMIC_SHARED_BYTES: u32 = 8;
    /// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`
    pub(super) const NON_PORTABLE_CLUSTER: u32 = 14;
    /// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`
    pub(super) const COOPERATIVE: u32 = 2;
    /// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`
    pub(super) const CLUSTER_DIMENSION: u32 = 4;
    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`
    pub(super) const PROGRAMMATIC_STREAM_SERIALIZATION: u32 = 6;
    /// `CU_JIT_INFO_LOG_BUFFER`
    pub(super) const JIT_INFO_LOG: u32 = 3;
    /// `CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES`
    pub(super) const JIT_INFO_LOG_BYTES: u32 = 4;
    /// `CU_JIT_ERROR_LOG_BUFFER`
    pub(super) const JIT_ERROR_LOG: u32 = 5;
    /// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`
    pub(super) const JIT_ERROR_LOG_BYTES: u32 = 6;
    /// `CU_JIT_LOG_VERBOSE`
    pub(super) const JIT_LOG_VERBOSE: u32 = 12;
}
