//! What a machine has for TileKit: the NVIDIA driver and its GPU, ptxas, a disassembler, cuBLAS, NCCL, CUPTI, and the cubins that are kept.
//!
//! Nothing here knows a kernel: `cargo tilekit doctor` looks at the same things as a launch, without the compiler.

pub mod cache;
pub mod cublas;
pub mod cupti;
pub mod driver;
mod error;
mod kept;
mod library;
pub mod nccl;
pub mod nvml;
pub mod process;
pub mod ptxas;

pub use error::Error;
