//! Products of 8-bit floats whose scales stand for blocks: of A one for 128 elements of a row, of B one for 128 by 128 elements ([`dense`]).
//!
//! The tensor cores keep some 14 bits of a sum. So they multiply 128 of K at a time into an accumulator of zeros, and the CUDA cores multiply its sums
//! by both scales and add them in f32 (`mainloop.rs`), as DeepGEMM does.

pub mod along_k;
#[cfg(not(test))]
mod along_k_cases;
mod call;
mod call_along_k;
mod call_groups;
mod call_quantise;
#[cfg(not(test))]
mod cases;
mod check;
pub mod dense;
mod factors;
pub mod few_tiles;
#[cfg(not(test))]
mod few_tiles_cases;
pub mod grouped;
#[cfg(not(test))]
mod grouped_cases;
mod mainloop;
mod order;
pub mod plan;
pub mod quantise;
#[cfg(not(test))]
mod quantise_cases;
pub mod tile;
mod which;

pub use call_along_k::AlongK;
pub use call_groups::GroupRows;
pub use check::Scaled;
pub use tile::ScaledTile;
pub(in crate::products) use which::ScaledWhich;
