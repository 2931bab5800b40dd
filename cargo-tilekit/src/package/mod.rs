//! The selected package: it is found, its harness is built, and gets the request.

mod build;
mod drive;
mod generated;
mod metadata;
mod select;
mod under;

pub(crate) use drive::{Order, ask, drive};
pub(crate) use metadata::{Metadata, Package, cargo_program};
pub(crate) use select::select;
