//! Epilogues: from accumulators to global memory.

mod store;

pub use store::{EpilogueStore, EpilogueTurn, Turns};
