//! Warpgroup matrix multiply (PTX ISA, `wgmma`): asynchronous, its accumulators in registers.
//!
//! What `wgmma` gives is in flight: the tensor cores still write it, and nothing but another `wgmma` and `wgmma_wait` may
//! take it. That is a type of its own, so that it cannot be read too early.

mod accumulator;
mod product;
mod types;
mod wait;

pub use accumulator::AccumulatorBegin;
pub use product::WgmmaStart;
pub use types::InputPrecision;
pub(super) use types::describe;
pub use wait::{FenceAsyncGlobal, FenceAsyncShared, WgmmaWait};
