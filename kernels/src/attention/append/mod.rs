//! New tokens of a cache: stored where their places are, rounded and with rotary embedding as it has them.

mod call;
#[cfg(not(test))]
mod cases;
mod check;
pub mod kernel;

pub use call::{NewLengths, NewTokens, Rotary};
pub use kernel::append;
