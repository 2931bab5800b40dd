//! TileKit for a kernel author: devices, buffers, launchers, cases and their harness.
//!
//! [`prelude`] is what kernels and their cases import. An application compiles a kernel, loads it and launches it; a GPU
//! and the emulator are used alike:
//!
//! ```
//! use tilekit::prelude::*;
//!
//! /// `out[i] = 2 · x[i]` for `i < n`.
//! #[kernel(warps = 4)]
//! fn double(x: Ptr<f32>, out: Ptr<f32>, n: i32) {
//!     let at = program_id(0) * 256 + arange(0..256, Coalesced);
//!     let inside = at < n;
//!     out.at(at).mask(inside).store(x.at(at).mask(inside).load() * 2.0);
//! }
//!
//! # fn main() -> tilekit::Result<()> {
//! let device = Device::emulator(); // or Device::cuda(0)?, or Device::auto()
//! let stream = Stream::new(&device)?;
//! let x = Buffer::from_slice(&device, &[1.0f32, 2.0, 3.0])?;
//! let out = Buffer::<f32>::zeros(&device, 3)?;
//! let kernel = double.compile(&Compiler::default())?.load(&device)?;
//! kernel.launch(&stream, grid(1), (&x, &out, 3))?;
//! stream.synchronize()?;
//! assert_eq!(out.to_vec()?, [2.0, 4.0, 6.0]);
//! # Ok(())
//! # }
//! ```
//!
//! Arguments that do not fit the kernel do not compile. A buffer of another element type:
//!
//! ```compile_fail,E0277
//! # use tilekit::prelude::*;
//! # #[kernel(warps = 4)]
//! # fn double(x: Ptr<f32>, out: Ptr<f32>, n: i32) {
//! #     let at = arange(0..128, Coalesced);
//! #     out.at(at).mask(at < n).store(x.at(at).mask(at < n).load());
//! # }
//! # fn launch(device: &Device, stream: &Stream, x: &Buffer<f32>) -> tilekit::Result<()> {
//! let out = Buffer::<f64>::zeros(device, 3)?;
//! double.compile(&Compiler::default())?.load(device)?.launch(stream, grid(1), (x, &out, 3))
//! # }
//! ```
//!
//! A number of another type:
//!
//! ```compile_fail,E0277
//! # use tilekit::prelude::*;
//! # #[kernel(warps = 4)]
//! # fn double(x: Ptr<f32>, out: Ptr<f32>, n: i32) {
//! #     let at = arange(0..128, Coalesced);
//! #     out.at(at).mask(at < n).store(x.at(at).mask(at < n).load());
//! # }
//! # fn launch(device: &Device, stream: &Stream, x: &Buffer<f32>) -> tilekit::Result<()> {
//! double.compile(&Compiler::default())?.load(device)?.launch(stream, grid(1), (x, x, 3u64))
//! # }
//! ```
//!
//! One argument too few:
//!
//! ```compile_fail,E0277
//! # use tilekit::prelude::*;
//! # #[kernel(warps = 4)]
//! # fn double(x: Ptr<f32>, out: Ptr<f32>, n: i32) {
//! #     let at = arange(0..128, Coalesced);
//! #     out.at(at).mask(at < n).store(x.at(at).mask(at < n).load());
//! # }
//! # fn launch(device: &Device, stream: &Stream, x: &Buffer<f32>) -> tilekit::Result<()> {
//! double.compile(&Compiler::default())?.load(device)?.launch(stream, grid(1), (x, x))
//! # }
//! ```
//!
//! - [`Device`], [`Buffer`], [`Stream`], [`Event`], [`Graph`]: memory, queues and recorded work, on a GPU or on the emulator.
//! - [`Kernel`], [`Compiler`], [`LoadedKernel`]: from a kernel function to a launch; [`TensorView`] is what a tensor map is
//!   made of.
//! - [`sparse`]: matrices compressed for the sparse products of the tensor cores.
//! - [`Toolchain`], [`ptxas`], [`cache`]: from PTX to code that a GPU loads.
//! - [`library`]: pipelines, tile schedulers and epilogues, written in the language.
//! - [`case`]: what `cargo tilekit run`, `test` and `bench` do with a kernel; [`Peer`] and [`Gemm`]: what `bench` times beside it.
//! - [`World`], [`Symmetric`]: several devices of one host, whose kernels access each other's memory.
//! - [`nvtx`]: names that profilers show beside launches.
//! - [`Error`]: everything that can go wrong, each with a help.

mod advice;
mod backend;
mod buffer;
pub mod case;
mod code;
mod cuda;
mod device;
mod element;
mod emulated;
mod error;
mod graph;
pub mod harness;
mod in_flight;
mod kept;
mod kernel;
mod launch;
mod mapped;
mod markup;
mod number;
mod peer;
pub mod prelude;
pub mod reference;
pub mod report;
pub mod sparse;
mod stream;
mod tensor_map;
mod toolchain;
pub mod trace;
mod tuned;
mod unified;
mod world;

pub use ::diag;
pub use ::launch::nvtx;
pub use ::layout;
pub use ::library;
pub use ::target;
pub use advice::{Advice, Near};
pub use buffer::Buffer;
pub use code::{Code, Entry, PreparedLaunch};
pub use cuda::{CudaFailure, HANG_EXIT_CODE, Watchdog};
pub use device::{Device, DeviceFacts, EntryFacts};
pub use element::DeviceElement;
pub use emulated::{Bound, Checks, EmulatorOptions, Modelled};
pub use error::{Error, MissingSignals, RankFailure, Result};
/// What the macros expand to.
#[doc(hidden)]
pub use gluon_lang::rt;
pub use graph::Graph;
pub use kernel::{
    Argument, Arguments, BankConflicts, Coalescing, Compiled, CompiledKernel, Compiler, Instance,
    Kernel, LoadedKernel, Packing, StepTime,
};
pub use launch::{EntryShape, Grid, ParameterBlock, ParameterPlace, grid};
/// What a machine lacks, and what its tools refuse; see [`Error::Machine`].
pub use machine::Error as MachineError;
/// Why there is no GPU; see [`MachineError::Unavailable`].
pub use machine::driver::Unavailable;
pub use machine::{cache, ptxas};
pub use mapped::MappedBuffer;
pub use number::{Number, Reference, Rounding};
pub use peer::{Collective, CublasHandle, Gemm, LtProduct, Nccl, Peer};
pub use stream::{Event, Stream};
pub use tensor_map::{
    KeptMap, L2Promotion, SEQUENCE_END, TensorMapDescriptor, TensorPlace, TensorSource, TensorView,
    Tiling,
};
pub use toolchain::{Image, Toolchain};
pub use tuned::{Machine, Tuned};
pub use world::{Peers, Symmetric, World, WorldGraph, WorldKernel, WorldLaunch};
#[cfg(unix)]
pub use world::{ProcessPeers, ProcessSymmetric, ProcessWorld};

/// The book and the README, whose code is compiled and run by the documentation's tests.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../README.md")]
    mod readme {}

    macro_rules! pages {
        ($($page:ident)*) => {$(
            #[doc = include_str!(concat!("../../docs/src/", stringify!($page), ".md"))]
            mod $page {}
        )*};
    }
    pages!(
        first_kernel control_flow layouts masks math reductions shared_memory bulk_copies tensor_maps tensor_cores products partitions
        clusters library memory_model launches several_gpus exporting cases tuning inspecting slow debugging emulator mutation errors coming_from persistent choosing_layouts
        tutorial_intro tutorial_layouts tutorial_async_copy tutorial_tma tutorial_wgmma tutorial_warp_specialization
        tutorial_convolution tutorial_clusters
    );
}
