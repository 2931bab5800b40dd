//! Attention to a cache of latent vectors (MLA, 576/512): a row of the cache is key and value of all heads.

mod call;
mod call_plan;
#[cfg(not(test))]
mod cases;
mod check;
mod deal;
pub mod kernel;
mod loads;
pub mod merge;
mod part;
pub mod plan;
mod rows;
mod shape;

pub use call::LatentCache;
pub use call_plan::LatentPlan;
pub use kernel::decode_latent;
