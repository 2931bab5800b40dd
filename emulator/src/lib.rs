//! A machine that executes PTX on the CPU: warps of 32 lanes, their divergence, shared memory, barriers, atomics.
//!
//! It is strict: what the PTX ISA forbids or leaves undefined is a [`Fault`] that names the author's line.
//!
//! ```text
//! let program = Program::load(&module)?;
//! let emulator = Emulator::new();
//! let x = emulator.memory().alloc(4096)?;
//! let stats = emulator.launch(&program, "kernel", &Launch::linear(8, 128), &params)?;
//! ```
#![forbid(unsafe_code)]
#![allow(
    clippy::bool_to_int_with_if,
    clippy::double_comparisons,
    clippy::float_cmp,
    clippy::nonminimal_bool,
    clippy::precedence,
    reason = "exact comparisons, unordered ones, and shifts of products are what an instruction set is made of"
)]
#![allow(
    clippy::inline_always,
    reason = "lane loops become vector code only when what they call is inlined"
)]
#![allow(
    clippy::unnecessary_box_returns,
    reason = "trouble is rare, and its results travel through hot code"
)]
#![allow(
    clippy::unused_self,
    reason = "methods of the decoder and the worker read alike"
)]
#![allow(
    clippy::unnecessary_wraps,
    reason = "every instruction decodes through the same signature"
)]
#![allow(
    clippy::needless_range_loop,
    reason = "loops over lanes index several arrays at once"
)]

mod decode;
mod fault;
mod global;
mod lanes;
mod machine;
mod numeric;
mod program;
mod tensor_map;

pub use fault::{CallSite, Fault, FaultKind, Memory, Place};
pub use global::{GlobalMemory, MemoryError};
pub use machine::{Checks, Emulator, Launch, Stats};
pub use program::{LoadError, Program};
pub use tensor_map::{TensorAccess, TensorElement, TensorMap, TensorMapError};
