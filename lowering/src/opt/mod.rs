//! Passes that make the kernel cheaper and change nothing that it computes.

pub mod fold;
pub mod unused;
