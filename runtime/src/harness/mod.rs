//! The harness: what runs a package's kernels when `cargo tilekit` or `cargo test` asks.

pub mod config;
mod exit;
pub mod request;

pub use exit::Exit;
