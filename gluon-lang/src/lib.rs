//! The TileKit language: what an author writes, and how a trace of it becomes the tile IR.
//!
//! No IO, no GPU, no PTX words. See [`lang`] for what an author writes, [`build`] for the builder that a trace appends to, and the
//! crates `ir`, `layout` and `diag` for what it makes.
#![forbid(unsafe_code)]

pub mod build;
pub mod lang;
pub mod rt;
pub mod source;
