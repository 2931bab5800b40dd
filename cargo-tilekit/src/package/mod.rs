//! The package whose kernels are meant: found, its harness built and told what to do.

mod build;
mod drive;
mod generated;
mod metadata;
mod select;

pub(crate) use drive::{Order, ask, drive};
pub(crate) use metadata::{Metadata, Package, cargo_program};
pub(crate) use select::select;
