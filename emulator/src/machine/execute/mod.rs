//! Executing the steps of a warp: [`step`] decides, the others do what concerns lanes and barriers.

pub(crate) mod barrier;
pub(crate) mod cluster_barrier;
pub(crate) mod exchange;
pub(crate) mod print;
pub(crate) mod register_budget;
pub(crate) mod step;
mod wrapped;
