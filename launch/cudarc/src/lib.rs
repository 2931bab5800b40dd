//! Launches kernels that TileKit built ahead of time on memory and streams of cudarc.
//!
//! [`launch`] borrows a stream and slices of cudarc for one closure, which puts launches on the stream by the functions that
//! `cargo tilekit export --to rust` wrote:
//!
//! ```no_run
//! use cudarc::driver::{CudaSlice, CudaStream};
//! use tilekit_launch::{Argument, Program};
//!
//! fn double(
//!     kernel: &Program,
//!     stream: &CudaStream,
//!     x: &CudaSlice<f32>,
//!     out: &mut CudaSlice<f32>,
//! ) -> Result<(), tilekit_cudarc::Error> {
//!     let n = x.len();
//!     tilekit_cudarc::launch(stream, (x, out), |queue, (x, out)| {
//!         let (x, out) = (x.view([n]), out.view([n]));
//!         kernel.launch(queue, None, &[Argument::Tensor(x.tensor()), Argument::Tensor(out.tensor())])
//!     })
//! }
//! # use cudarc::driver::DeviceSlice;
//! ```
//!
//! cudarc has streams wait for what others do with a slice: it is told of the launch as of a kernel of its own. Nothing is waited for on the host.

mod element;
mod error;
mod memory;
mod queue;

pub use element::Held;
pub use error::Error;
pub use memory::{Memory, MemoryList};
pub use queue::launch;
