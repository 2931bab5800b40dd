//! A machine that executes PTX on the CPU, for `sm_90a`: every instruction that crate `ptx` knows.
//!
//! - Warps of 32 lanes execute decoded steps, all lanes of a register in one loop. Lanes part at branches and meet
//!   again at the immediate postdominator; `bar.warp.sync` and the exchanges also bring paths together.
//! - CTAs run on all cores, the CTAs of a cluster together. Within a cluster everything happens in an order that
//!   [`Launch::seed`] chooses: which warp runs for how long, and when asynchronous copies and products complete.
//! - It is strict. What the PTX ISA forbids or leaves undefined is a [`Fault`] that names the author's line: accesses
//!   out of bounds, misaligned, uninitialised or unordered, barriers that part of a warp misses, mbarriers that
//!   are misused, matrix products read in flight, a missing `fence.proxy.async`, and for a hang who waits for what.
//! - Shared memory is watched by vector clocks, whatever the order in which warps run: barriers, mbarriers, waits and
//!   fences carry what a warp knows, and an access must know of those before it that it excludes. Global memory is not
//!   watched in this way.
//!
//! Results are those of IEEE arithmetic with the rounding that an instruction names. Approximate functions are
//! computed more exactly than the hardware does; products of matrices are exact before each addition to f32.
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

pub use fault::{CallSite, Fault, FaultKind, Memory, Place, Related};
pub use global::{GlobalMemory, MemoryError};
pub use machine::{Checks, Emulator, Launch, Stats};
pub use program::{LoadError, Program};
pub use tensor_map::{TensorAccess, TensorElement, TensorMap, TensorMapError};
