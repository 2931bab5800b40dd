//! What happened before what, and which accesses to shared memory nothing orders.
//!
//! ```text
//! actors       who accesses shared memory, each with epochs that only grow
//!   warp         an epoch ends where it releases: a barrier, an arrival, a fence, a commit of products
//!   mbarrier     the phases it has completed: copies that count on it are its accesses
//!   products     those of a warpgroup, in the order in which they are issued: reads of their operands
//!   bulk groups  those that a thread has committed: reads of what it stores
//! clocks       for each actor an epoch: what has come, what may be read, what the asynchronous proxy may read
//! shadow       for each granule of shared memory: its last write, and the accesses since that do not exclude each other
//! ```
//!
//! An access is the epoch of its actor. A warp knows of it when its clock has come to that epoch, and a barrier, an mbarrier or
//! a wait brings clocks on: each takes what those knew who arrived, and gives it to those who waited. Two accesses that
//! exclude each other race when the later one's warp does not know of the earlier one, in whatever order they ran here.
//!
//! Work that runs by itself has actors of its own, whose epochs are what waits for it name. A copy that is under way is an
//! access at a phase that its mbarrier has not completed: nobody can know of it, and who has waited for the phase does.
//!
//! Reads that many warps make are kept as sets, which words share that were read alike ([`sets`]); so a word costs 16 bytes,
//! and an access to it a comparison or two.

mod actor;
mod clock;
mod sets;
mod shadow;

pub(crate) use actor::{Actor, ActorId, Actors};
pub(crate) use clock::{Clock, Knowledge};
pub(crate) use shadow::{Conflict, Kind, Missing, Shadow, Stamp, UNDER_WAY};
