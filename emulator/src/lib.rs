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

mod decode;
mod fault;
mod global;
mod lanes;
mod machine;
mod numeric;
mod program;

pub use fault::{CallSite, Fault, FaultKind, Memory, Place};
pub use global::{GlobalMemory, MemoryError};
pub use machine::{Checks, Emulator, Launch, Stats};
pub use program::{LoadError, Program};
