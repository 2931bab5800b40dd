//! The harness: what runs a package's kernels when `cargo tilekit` or `cargo test` asks.

pub mod config;
mod counts;
mod exit;
mod files;
mod golden;
pub mod request;

pub use counts::InstructionCounts;
pub use exit::Exit;
