//! Tuned kernels that a program calls, each with the cases that check and time it.
//!
//! [`attention::forward`] is the first: a persistent kernel whose CTAs draw their tiles, for depths 64, 128 and 256, with and without a
//! causal mask, grouped queries, and LSE.

pub mod attention;
