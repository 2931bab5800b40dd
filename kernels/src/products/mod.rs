//! Matrix products of every shape.
//!
//! [`Products`] is what a program calls: it checks matrices of any strides, has [`Dispatch`] choose an instance and its grid by what was measured or by a model of its
//! time, and launches it. Below it are the kernels, which compute `C[M, N] = A[M, K] · B[N, K]ᵀ` of the element types of [`Operand`]: [`dense`] has a persistent one for
//! results of many tiles ([`many_tiles`] is what is exported of it), [`alternating`] one whose warpgroups have a tile each and take turns, and [`cooperative`] one whose warpgroups share tiles of any width, both alone or in clusters that share both operands, [`every_other_row`] the same of even and of odd rows, for results that begin between sectors, [`one_wave`] one for those that fill the GPU about once, [`few_tiles`] one whose clusters share the steps along K of a tile, [`split_k`] one whose programs share them through memory, [`any_rows`] one for rows that begin anywhere, [`copied_tiles`] one for few such rows where they begin between pairs of elements, [`precise`] one for f32 by three products of tf32 and [`precise_parts`] the same whose programs share steps along K, and [`cluster_tiles`] one whose clusters share both operands. CTAs of a cluster of three of them multicast the columns that their tiles share. What each is compiled for is a value, a [`form::Form`]; what
//! happens to sums is an [`epilogue`], data or a closure of the author's. [`block_scaled`] multiplies 8-bit floats with scales for blocks, [`weight_only`] weights of 4 bits, [`sparse`] a 2:4 sparse matrix.

pub mod alternating;
pub mod any_rows;
#[cfg(not(test))]
mod any_rows_cases;
pub mod block_scaled;
mod blocks;
mod call;
mod call_any_rows;
mod call_grouped;
mod candidates;
#[cfg(not(test))]
mod case_product;
#[cfg(not(test))]
mod case_run;
#[cfg(not(test))]
mod cases;
pub(crate) mod check;
pub(crate) mod check_matrices;
pub mod cluster_tiles;
#[cfg(not(test))]
mod cluster_tiles_cases;
pub mod cooperative;
pub mod copied_tiles;
#[cfg(not(test))]
mod copied_tiles_cases;
pub mod dense;
pub mod dispatch;
mod division;
pub(crate) mod ending;
pub mod epilogue;
mod epilogue_arguments;
#[cfg(not(test))]
mod epilogue_cases;
pub mod epilogue_kind;
mod error;
mod even_tiles;
pub mod every_other_row;
pub(crate) mod factor;
pub mod few_tiles;
pub(crate) mod finished;
mod finishing;
pub mod form;
mod forms;
mod given;
pub mod grouped;
#[cfg(not(test))]
mod grouped_cases;
pub mod instances;
mod kept_kernels;
mod launch;
mod loose_times;
pub mod many_tiles;
pub(crate) mod matrix;
mod multicast;
mod nearby;
pub mod need;
#[cfg(not(test))]
mod numbers;
pub mod one_wave;
pub(crate) mod operands;
mod options;
pub mod output_handles;
pub mod outputs;
mod outputs_call;
#[cfg(not(test))]
mod outputs_cases;
mod overlap;
pub mod pad_rows;
mod persistent;
#[cfg(not(test))]
mod persistent_cases;
mod persistent_tile;
mod placement;
pub mod plan;
pub mod precise;
#[cfg(not(test))]
mod precise_cases;
pub mod precise_parts;
mod raster;
pub(crate) mod registers;
pub mod repack;
#[cfg(not(test))]
mod repack_cases;
mod residual;
mod result_parts;
pub(crate) mod ring;
mod same_lines;
mod settled;
#[cfg(not(test))]
mod settled_cases;
pub mod sparse;
pub mod split_k;
mod split_workspace;
pub(crate) mod tiles;
mod times;
#[cfg(not(test))]
mod tuned_cases;
mod warpgroup_sums;
pub mod weight_only;
pub(crate) mod workspace;

pub use block_scaled::{AlongK, GroupRows, Scaled};
pub use call::Products;
pub use check::CallPlan;
pub use dispatch::{Choice, Dispatch, Why};
pub use epilogue::{Activation, Axis, Epilogue, Place};
pub use error::{Error, Result};
pub use factor::{Operand, ResultOf, Stored};
pub use options::{Options, Precision};
pub use outputs::{OutputPtrs, Reduction};
pub use outputs_call::{Outputs, StoringProducts};
