//! The CUDA driver, made safe.
//!
//! `tilekit-launch` loads the driver, code and tensor maps, and launches; [`machine::driver`] opens a GPU; this folder has memory,
//! streams, events and graphs. They hold every call of the driver; above them everything is safe Rust. The library is loaded when a device is first opened, so a
//! program that never does needs no driver, and a missing library or symbol is an [`Error`](crate::Error), never a panic.
//!
//! Two rules of the driver shape the interface:
//!
//! - A non-blocking stream does not order itself after the default stream. Copies and fills that the host asks for
//!   therefore wait for everything on the device first, and are complete when they return.
//! - A kernel's failure is noticed by a later call and poisons the context. A stream remembers what was launched
//!   last, so that the error names it.

mod backend;
mod event;
mod graph;
mod host_memory;
mod launch;
mod memory;
mod module;
mod shared_memory;
mod stream;
mod tensor_map;
mod watchdog;

pub(crate) use event::Event;
pub(crate) use graph::Graph;
pub(crate) use host_memory::HostMemory;
pub(crate) use machine::driver::Context;
pub use machine::driver::CudaFailure;
pub(crate) use memory::DeviceMemory;
pub(crate) use module::{Function, Module};
pub(crate) use shared_memory::SharedMemory;
pub(crate) use stream::Stream;
pub(crate) use watchdog::leave_saying;
pub use watchdog::{HANG_EXIT_CODE, Watchdog};

#[cfg(test)]
mod tests;
