//! Snapshots of a package's kernels, as accepted before.
//!
//! Each variant has its facts; each kernel has the tile IR and the PTX of its smallest variant, the one with the fewest
//! instructions, and among equals the first by name. Neither more of them is kept nor one of more than [`LONGEST`] lines, since it would be
//! accepted unread: the facts count the instructions of every variant.
//!
//! What ptxas says (registers, spills) is a line of the facts that names the release: it is compared only where that release
//! is at hand, so that a snapshot means the same on a machine without ptxas. Names that a printer numbers are not compared.

mod diff;
mod difference;
mod facts;
mod names;
mod store;

pub(super) use diff::render_diff;
pub(super) use difference::Difference;
pub(super) use facts::{Change, changed_facts};
pub(super) use store::{Folder, Golden, Kind};

/// The most lines of a text that is kept.
pub(super) const LONGEST: usize = 400;
