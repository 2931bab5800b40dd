//! Texts that nobody checked: tile IR, PTX, layouts and configuration, mutated from texts that are right.
//!
//! What reads a text answers with a result or a diagnostic. It never panics, hangs or takes memory by what the text says.
//! [`Surface::read`] is one such reader together with all that follows it; [`mutate`] makes the texts, from
//! the numbers of a seeded generator or the bytes of a fuzzer; [`attempt`] runs a reader on one text and says how it went.
#![forbid(unsafe_code)]

mod attempt;
mod choices;
mod launched;
mod mutate;
mod pieces;
mod seeds;
mod shrink;
mod surface;

pub use attempt::{Failure, attempt};
pub use choices::Choices;
pub use mutate::mutate;
pub use seeds::{past_failures, seeds};
pub use shrink::shrink;
pub use surface::{Answer, Surface};
