//! TileKit for a kernel author: devices, buffers, launchers, cases and their harness.

mod buffer;
pub mod cache;
pub mod case;
mod code;
mod cuda;
mod device;
mod element;
mod error;
pub mod harness;
mod launch;
mod number;
pub mod ptxas;
pub mod report;
mod stream;
mod toolchain;

pub use buffer::Buffer;
pub use code::{Code, Entry, EntryShape};
pub use cuda::{CudaFailure, HANG_EXIT_CODE, Watchdog};
pub use device::{Device, DeviceFacts, EntryFacts, ParameterPlace};
pub use element::Element;
pub use error::{Error, Result};
pub use gluon_lang::diag;
pub use gluon_lang::layout;
pub use launch::{Grid, ParameterBlock, PreparedLaunch, grid};
pub use number::{Number, Reference, Rounding};
pub use stream::{Event, Graph, Stream};
pub use toolchain::{Image, Toolchain};
