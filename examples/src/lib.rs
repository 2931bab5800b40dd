//! The kernels that TileKit ships, one idea a file, each with its case beside it.
//!
//! `cargo tilekit run` runs every case: its inputs, its launch, and what must come out.

mod instance;
pub mod order;
pub mod pipeline;
mod product;
mod rows;
mod tile;

pub mod async_copy_pipeline;
pub mod attention_forward;
pub mod bulk_ring;
pub mod cache_hints;
pub mod cluster_norm;
pub mod cluster_order;
pub mod cluster_sum;
pub mod column_sum;
pub mod copy_1d;
pub mod copy_2d;
pub mod cross_entropy;
pub mod cumsum_rows;
pub mod fused_l2norm;
pub mod gelu_bias;
pub mod histogram;
pub mod layernorm;
pub mod matmul_cluster;
pub mod matmul_fused_epilogue;
pub mod matmul_int4;
pub mod matmul_persistent;
pub mod matmul_ping_pong;
pub mod matmul_pipelined;
pub mod matmul_small;
pub mod matmul_softmax;
pub mod matmul_stream_k;
pub mod matmul_types;
pub mod matmul_warp_specialized;
pub mod mma_v2;
pub mod pdl_chain;
pub mod rmsnorm;
pub mod row_sum;
pub mod short_rows;
pub mod softmax;
pub mod softmax_bulk;
pub mod softmax_cluster;
pub mod softmax_cluster_persistent;
pub mod softmax_long;
pub mod special_registers;
pub mod sum_all;
pub mod tile_orders;
pub mod tma_add;
pub mod tma_copy;
pub mod tma_groups;
pub mod tma_im2col;
pub mod top_k;
pub mod transpose;
pub mod vector_add;
pub mod wgmma_tile;
