//! What a launch, a cluster, a CTA and a warp hold while they run: data, and functions of that data alone.

pub(crate) mod barrier;
pub(crate) mod cluster;
pub(crate) mod context;
pub(crate) mod copies;
pub(crate) mod costs;
pub(crate) mod draws;
pub(crate) mod host;
pub(crate) mod lane_clocks;
pub(crate) mod launch;
pub(crate) mod linear;
pub(crate) mod locks;
pub(crate) mod matrix_descriptor;
pub(crate) mod mbarrier;
pub(crate) mod overlap;
pub(crate) mod peers;
pub(crate) mod policy;
pub(crate) mod products;
pub(crate) mod registers_at_entry;
pub(crate) mod scene;
pub(crate) mod stats;
pub(crate) mod timing;
pub(crate) mod transactions;
pub(crate) mod units;
pub(crate) mod warp;
pub(crate) mod warp_time;
