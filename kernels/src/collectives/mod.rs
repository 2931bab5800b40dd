//! Collectives over the ranks of a world: all-reduce, reduce-scatter, all-gather, all-to-all.
//!
//! [`Collectives`] is what a program calls: it checks the tensors of all ranks, chooses a kernel by a model ([`plan`]), and launches it on all of them. [`sentinel`] sums few bytes and
//! [`packets`] moves few bytes, [`two_shot`] is for all-reduce of many bytes over more than two ranks, [`one_shot`] for everything else.

pub(crate) mod arrivals;
mod call;
mod call_rows;
#[cfg(not(test))]
mod cases;
mod check;
mod error;
mod exchange;
#[cfg(test)]
mod faults;
mod form;
pub mod one_shot;
pub mod packets;
pub mod plan;
pub mod rows;
pub mod sentinel;
pub mod two_shot;
mod workspace;

pub use call::{Collectives, Reduced};
pub use call_rows::Rows;
pub use error::{Error, Result};
pub use form::{Form, MOST_RANKS};
pub use plan::{Operation, Plan, Variant};
