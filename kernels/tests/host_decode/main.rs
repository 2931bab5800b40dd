//! Attention to a cache as a program calls it, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

mod cached;
mod outside;
mod problem;
mod refused;
mod scales;
