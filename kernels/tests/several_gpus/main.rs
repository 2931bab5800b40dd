//! What runs on several GPUs, as a program calls it.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

mod collectives;
mod matrices;
mod parallel;
mod parallel_errors;
mod ranks;
mod ring_attention;
mod ring_gathered;
mod ring_tensors;
