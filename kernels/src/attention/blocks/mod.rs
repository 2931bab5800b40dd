//! Attention of block-sparse masks: lists of the blocks of keys that each block of queries sees.

mod call;
mod cases;
pub mod kernel;
mod listed;
pub(super) mod mask;

pub use kernel::forward_blocks;
pub use mask::{BlockKind, BlockLists, BlockMask, BlockShape};
