//! Attention to a cache of latent vectors (MLA, 576/512): a row of the cache is key and value of all heads.

mod call;
mod cases;
mod check;
mod deal;
pub mod kernel;
mod loads;
pub mod merge;
mod part;
mod rows;
mod shape;

pub use call::LatentCache;
pub use kernel::decode_latent;
