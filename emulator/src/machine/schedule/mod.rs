//! Which cluster and which warp runs when, what must hold when a CTA exits, and reports of deadlocks.

pub(crate) mod clusters;
pub(crate) mod cta_end;
pub(crate) mod deadlock;
mod first_use;
pub(crate) mod report;
