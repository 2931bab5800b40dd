//! New tokens for a cache as a program calls it, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

mod appended;
mod found;
mod inputs;
mod named;
