//! Copies through registers, through shared memory and by TMA: access widths, layouts, pipelines.

pub mod async_copy_pipeline;
pub mod bulk_ring;
pub mod cache_hints;
pub mod copy_1d;
pub mod copy_2d;
pub mod tma_add;
pub mod tma_copy;
pub mod tma_groups;
pub mod tma_im2col;
pub mod transpose;
