//! Matrix products of every shape, bf16 or f16 in and out.
//!
//! [`Products`] is what a program calls: it checks matrices of any strides, has [`plan::Plan::best`] choose an instance and its grid by a model of its
//! time, and launches it. Below it are the kernels, which compute `C[M, N] = A[M, K] · B[N, K]ᵀ`: [`many_tiles`] has a persistent one for
//! results of many tiles, [`few_tiles`] one whose clusters share the steps along K of a tile.

mod call;
mod cases;
mod error;
pub mod few_tiles;
mod instances;
pub mod many_tiles;
mod matrix;
pub mod plan;
pub mod repack;

pub use call::{CallPlan, Operand, Products};
pub use error::{Error, Result};
