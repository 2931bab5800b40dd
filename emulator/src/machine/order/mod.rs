//! Happens-before, and which accesses to shared and global memory it leaves unordered.
//!
//! ```text
//! actors       what accesses memory, each with epochs that only grow
//!   warp         an epoch ends where it releases: a barrier, an arrival, a fence, a commit of products
//!   mbarrier     its completed phases: copies that count on it are its accesses
//!   products     those of a warpgroup, in the order of issue: reads of their operands
//!   bulk groups  those that a thread has committed: reads of what it stores
//! clocks       for each actor an epoch: what happens before, what is visible, what is visible through the async proxy
//!   foreign      the same of other clusters, which a warp acquires through global memory; warps share what they know alike
//! releases     what strong writes and fences have published at an address of global memory, and for which scope
//! shadow       for each granule of shared memory: its last write, and the accesses since that do not conflict
//! global       the same of global memory, for all clusters of a launch and the launches that it overlaps
//! ```
//!
//! An access is an epoch of its actor. It happens before a step of a warp when the warp's clock includes that epoch. Barriers,
//! mbarriers and waits join clocks: those of the warps that arrived go to the warps that waited. Two conflicting accesses race
//! when the clock of the later one's warp does not include the earlier one, in whatever order they ran here.
//!
//! Asynchronous work has actors of its own, whose epochs are what waits for it name. A copy in flight is an access at a phase
//! that its mbarrier has not completed: no clock includes it until a wait for that phase.
//!
//! Reads by many warps are kept as sets, which words share that were read alike ([`sets`]); so a word costs 16 bytes, and an
//! access to it a comparison or two.

mod actor;
mod clock;
mod clocks;
mod global;
mod place;
mod releases;
mod sets;
mod shadow;
mod stamp;
mod tree;

pub(crate) use actor::{Actor, ActorId, Actors, MbarrierId};
pub(crate) use clock::Clock;
pub(crate) use clocks::Clocks;
pub(crate) use global::{GlobalAccess, GlobalConflict, GlobalShadow, GlobalStamp};
pub(crate) use place::Place;
pub(crate) use releases::Fences;
pub(crate) use shadow::{Conflict, Missing, Shadow};
pub(crate) use stamp::{IN_FLIGHT, Kind, Lane, Range, Stamp};
