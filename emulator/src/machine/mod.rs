//! The machine that executes programs, in layers. A layer uses those above it in this list, and none below.
//!
//! ```text
//! order     who accessed what and what happened before what: vector clocks, and the shadow of shared memory
//! state     what a launch, a cluster, a CTA and a warp hold; what is in flight
//! memory    accesses of a warp: state spaces, bounds, races, atomics
//! units     TMA, cp.async, tensor cores, mbarriers
//! execute   the steps of a warp: lanes, branches, barriers
//! schedule  which cluster and which warp runs when; deadlocks; the end of a CTA
//! emulator  an emulated device and its launches; several that run as one
//! ```
//!
//! `snapshots/tests/imports/layers.rs` checks this, and that no files import each other in a circle.

mod emulator;
mod execute;
mod memory;
mod order;
mod schedule;
mod state;
mod units;

pub use emulator::world::{RankLaunch, World, WorldError};
pub use emulator::{Announced, Emulator};
pub use memory::host::{HostAccess, HostOrder};
pub use state::context::SM_COUNT;
pub use state::launch::{Checks, Launch};
pub use state::peers::Right;
pub use state::stats::{CtaTime, Stats};
