//! The driver's functions beyond those of launching, and the context of one GPU.

mod context;
mod facts;
mod functions;

pub use context::Context;
pub use facts::DeviceFacts;
pub use functions::{
    Access, DeviceAddress, Driver, EventHandle, Functions, GraphEdge, GraphExecHandle, GraphHandle,
    GraphNodeHandle, Location, SharedHandle, SharedProperties, object,
};
pub use launch::driver::{
    Failure as CudaFailure, FunctionHandle, ModuleHandle, StreamHandle, Unavailable,
};
