//! Gradients as a program calls them, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

mod apart;
mod dense;
mod dropout;
mod fixed_order;
mod lengths;
mod many_heads;
mod modified;
mod problem;
mod refused;
