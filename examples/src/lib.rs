//! The kernels that TileKit ships, one idea a file, each with its case beside it.
//!
//! `cargo tilekit run` runs every case: its inputs, its launch, and what must come out.

mod matrix;

pub mod attention;
pub mod copies;
pub mod elementwise;
pub mod launches;
pub mod products;
pub mod reductions;
pub mod rows;
