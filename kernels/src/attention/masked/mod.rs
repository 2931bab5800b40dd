//! Attention forward of any shape: masks, sequences of several lengths, strides, and scores that a type changes.

#[cfg(not(test))]
mod cases;
pub mod kernel;
pub(super) mod lengths;
pub(super) mod spans;

pub use kernel::forward_masked;
