//! Attention as a program calls it, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

mod dense;
mod modified;
mod problem;
mod refused;
