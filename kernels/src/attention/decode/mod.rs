//! Attention to a cache of keys and values, contiguous or in pages, of 16 or 8 bits, whose keys are split among CTAs.

pub(super) mod cached;
pub(super) mod cached_cases;
pub(super) mod call;
#[cfg(not(test))]
mod cases;
pub(super) mod check;
pub mod check_pages;
pub(super) mod clear;
pub mod kernel;
pub(super) mod page_scales;
mod pages;
mod partial;
pub(super) mod splits;
pub(super) mod table;

pub use call::{Cache, CacheScales};
pub use kernel::decode;
pub use table::CacheElement;
