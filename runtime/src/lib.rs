//! TileKit for a kernel author: devices, buffers, launchers, cases and their harness.

mod buffer;
pub mod cache;
pub mod case;
mod code;
mod cuda;
mod device;
mod element;
mod emulated;
mod error;
pub mod harness;
mod kernel;
mod launch;
mod number;
pub mod prelude;
pub mod ptxas;
pub mod report;
mod stream;
mod toolchain;

pub use buffer::Buffer;
pub use code::{Code, Entry, EntryShape};
pub use cuda::{CudaFailure, HANG_EXIT_CODE, Watchdog};
pub use device::{Device, DeviceFacts, EntryFacts, ParameterPlace};
pub use element::DeviceElement;
pub use error::{Error, Result};
pub use gluon_lang::diag;
pub use gluon_lang::layout;
/// What the macros expand to.
#[doc(hidden)]
pub use gluon_lang::rt;
pub use kernel::{
    Argument, Arguments, Compiled, CompiledKernel, Compiler, Instance, Kernel, LoadedKernel,
    StepTime,
};
pub use launch::{Grid, ParameterBlock, PreparedLaunch, grid};
pub use number::{Number, Reference, Rounding};
pub use stream::{Event, Graph, Stream};
pub use toolchain::{Image, Toolchain};
