//! Attention backward: gradients of Q, K and V. [`backward`] is the main loop, between the kernels of [`passes`], and [`backward_blocks`] that of block-sparse masks.

mod beside;
mod block;
mod call;
mod call_listed;
mod call_passes;
mod case_tensors;
#[cfg(not(test))]
mod cases;
pub(super) mod check;
mod consumer;
mod differentiate;
mod exchange;
pub mod kernel;
mod key_blocks;
pub(super) mod lines;
mod listed;
#[cfg(not(test))]
mod listed_cases;
pub mod listed_kernel;
pub(super) mod part;
pub mod passes;
#[cfg(test)]
mod python;
mod sections;
mod slices;
mod stagger;
mod step;
mod step_by_keys;
mod step_by_queries;
mod step_of_pair;
mod steps;
mod strips;
mod table;
mod terms;
mod turns;
mod walk;

pub use call::{Gradients, Upstream};
pub use kernel::backward;
pub use listed_kernel::backward_blocks;
