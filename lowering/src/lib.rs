//! From the tile IR to PTX: resolve layouts, optimise, plan shared memory and barriers, emit.
//!
//! [`PIPELINE`] is the one list of passes. [`compile`] runs all of it and emits; [`run_to`] stops after a given pass, for
//! looking at what a pass leaves.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod costs;
pub mod emit;
pub mod opt;
pub mod plan;
pub mod resolve;
pub mod trace;

mod compile;
mod launch;
#[cfg(test)]
mod limits;
mod options;
mod pipeline;
mod tensor_element;
#[cfg(test)]
mod test;
#[cfg(test)]
mod tests;

pub use compile::{Compiled, compile};
pub use launch::{LaunchInfo, ParamInfo};
pub use options::{Options, Source};
pub use pipeline::{Lowered, PIPELINE, Pass, PassTime, StopAt, planned, run_to};
pub use tensor_element::tensor_element;
