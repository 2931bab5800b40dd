//! Which cluster and which warp runs when, what must hold when a CTA exits, and reports of deadlocks.

pub(crate) mod clusters;
pub(crate) mod cta_end;
pub(crate) mod deadlock;
pub(crate) mod report;
