//! Attention of block-sparse masks: lists of the blocks of keys that each block of queries sees.

pub(super) mod call;
#[cfg(not(test))]
mod cases;
pub mod kernel;
mod listed;
pub(super) mod lists;
pub(super) mod mask;
pub(super) mod patterns;
pub(super) mod transposed;

pub use kernel::forward_blocks;
pub use lists::{BlockKind, BlockLists, BlockShape};
pub use mask::BlockMask;
