//! Scheduling of clusters and warps, checks at the exit of a CTA, and reports of deadlocks.

mod across;
pub(crate) mod clusters;
pub(crate) mod cta_end;
pub(crate) mod deadlock;
pub(crate) mod devices;
mod first_use;
pub(crate) mod report;
mod starvation;
