//! Matrix products `C[M, N] = A[M, K] · B[N, K]ᵀ` of every shape, bf16 in and out.
//!
//! [`many_tiles`] has a persistent kernel for results of many tiles, [`few_tiles`] one whose clusters share the steps along K of a tile.
//! [`plan::Plan::best`] chooses an instance of them and its grid by a model of its time.

mod cases;
pub mod few_tiles;
pub mod many_tiles;
pub mod plan;
