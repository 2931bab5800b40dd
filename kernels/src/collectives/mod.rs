//! Collectives over the ranks of a world: all-reduce, reduce-scatter, all-gather, all-to-all.

mod cases;
mod exchange;
mod form;
pub mod one_shot;
pub mod packets;
pub mod two_shot;

pub use form::{Form, MOST_RANKS};
