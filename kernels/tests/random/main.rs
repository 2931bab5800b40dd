//! Calls with arguments drawn at random, compared with direct evaluation in f64: on the emulator, or on GPU 0 and of larger sizes with `TILEKIT_TEST_DEVICE=cuda`.
//!
//! `RANDOM_SEED` chooses other calls than those of every day, `RANDOM_COUNT` how many of a kind. A call that fails is shrunk, and the smallest that still fails is printed.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

mod attention;
mod calls;
mod numbers;
mod options;
mod products;
mod tensor;
