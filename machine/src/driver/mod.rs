//! The driver's library, its functions, and the context of one GPU.

mod context;
mod facts;
mod failure;
mod functions;

pub use context::Context;
pub use facts::{DeviceFacts, version_text};
pub use failure::CudaFailure;
pub use functions::{Driver, Handle};
