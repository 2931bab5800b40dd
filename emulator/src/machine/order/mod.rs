//! Happens-before, and the conflicting accesses to shared and global memory that it leaves unordered.
//!
//! ```text
//! actors       what accesses memory; the epochs of each only grow
//!   warp         an epoch ends where it releases: a barrier, an arrival, a fence, a commit of products
//!   mbarrier     an epoch is a completed phase: copies that signal the mbarrier are its accesses
//!   products     an epoch is a `wgmma` of a warpgroup, in order of issue: reads of shared operands
//!   bulk groups  an epoch is a group that a thread commits: reads of the source of bulk stores, and their writes
//! clocks       vector clocks of a warp: what happens before, what is visible, what is visible through the async proxy
//!   foreign      the same for other clusters, acquired through global memory; warps share equal parts
//! releases     the clocks that strong writes and fences have released at an address of global memory, and their scope
//! shadow       for each granule of shared memory: its last write, and later accesses, which do not conflict
//! global       the same for global memory, for all clusters of a launch and the launches that it overlaps
//! ```
//!
//! An access belongs to an epoch of its actor. It happens before a step of a warp if the warp's clock includes that epoch. Barriers,
//! mbarriers and waits join clocks: each waiting warp joins those of the warps that arrived. Two conflicting accesses race if the
//! clock of the later access's warp does not include the earlier access, whatever the order in which the emulator executed them.
//!
//! Asynchronous work has actors of its own, and a wait names their epochs: a phase, a number of products, a number of groups. A copy
//! in flight is an access in a phase that its mbarrier has not completed: no clock includes it until a wait for that phase.
//!
//! Reads by many warps are recorded as sets, and words with the same reads share a set ([`sets`]). So a word costs 16 bytes, and an
//! access to it one or two comparisons.

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
pub(crate) use stamp::{IN_FLIGHT, Kind, Lane, Range, Run, RunLanes, Stamp};
