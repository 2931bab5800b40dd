//! Attention of shards whose keys are gathered first: masks, changes of scores and depths that the fused kernel does not have, and gradients.
//!
//! Each rank stores its K and V into memory of all ranks that see them, in the order of the whole sequence ([`gather_shards`]), and attends to a part of that with the kernels of one device
//! ([`Attention`](crate::attention::Attention)), whose last query has the last key's position. Gradients of K and V are computed for all keys that a rank sees, in memory that the other ranks read: each adds up
//! those of its own tokens ([`sum_shards`]).
//!
//! Nothing is sent while something is multiplied; that is the price beside the fused kernel (`bench/results/several_gpus.md`: 4 to 20 % of a full mask).

mod backward;
mod call;
mod kernels;
mod span;

pub use backward::ShardGradients;
pub use kernels::{gather_shards, move_rows, sum_shards};
