//! Attention backward: gradients of Q, K and V. [`backward`] is the main loop, between the kernels of [`passes`].

mod block;
mod call;
mod cases;
mod check;
pub mod kernel;
mod key_blocks;
pub(super) mod part;
pub mod passes;
mod step;
mod table;

pub use call::{Gradients, Upstream};
pub use kernel::backward;
