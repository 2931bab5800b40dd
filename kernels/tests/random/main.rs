//! Calls with arguments drawn at random, compared with direct evaluation in f64: on the emulator, or on GPU 0 and of larger sizes with `TILEKIT_TEST_DEVICE=cuda`.
//!
//! `RANDOM_SEED` chooses other calls than those of every day, `RANDOM_COUNT` how many of a kind, and `RANDOM_SECONDS` after which none begins. A call that fails is shrunk, and the smallest that still fails is printed.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

mod attention;
mod broken;
mod caches;
mod calls;
mod convolution;
mod experts;
mod near;
mod numbers;
mod products;
mod tensor;
