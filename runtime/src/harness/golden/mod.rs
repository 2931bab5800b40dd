//! Snapshots: the tile IR and the PTX of every variant, as accepted before.
//!
//! A snapshot is a text with a header of facts that a reviewer reads first. What ptxas says (registers, spills) is a
//! line of its own that names the release: it is compared only where that release is at hand, so that a snapshot means
//! the same on a machine without ptxas.

mod diff;
mod store;

pub(super) use diff::render_diff;
pub(super) use store::{Difference, Folder, Golden, Kind};
