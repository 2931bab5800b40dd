//! Matrix products on the tensor cores: tilings, pipelines, schedules, types and epilogues.

mod product;

pub mod matmul_block_scaled;
pub mod matmul_block_sparse;
pub mod matmul_cluster;
pub mod matmul_cluster_grid;
pub mod matmul_decode;
pub mod matmul_fused_epilogue;
pub mod matmul_grouped;
pub mod matmul_int4;
pub mod matmul_microscaled;
pub mod matmul_naive;
pub mod matmul_persistent;
pub mod matmul_ping_pong;
pub mod matmul_pipelined;
pub mod matmul_small;
pub mod matmul_softmax;
pub mod matmul_sparse;
pub mod matmul_stream_k;
pub mod matmul_tf32x3;
pub mod matmul_three_warpgroups;
pub mod matmul_tiled;
pub mod matmul_tma;
pub mod matmul_types;
pub mod matmul_warp_specialized;
pub mod matmul_wgmma;
pub mod matmul_widths;
pub mod mma_v2;
pub mod tile_orders;
pub mod wgmma_sparse_tile;
pub mod wgmma_tile;
