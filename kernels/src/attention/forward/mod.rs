//! Attention forward of heads of equally many queries and keys, of 16 bits ([`forward`]) and of e4m3 ([`fp8`]).

mod call_fp8;
#[cfg(not(test))]
mod cases;
mod check_fp8;
mod dense;
mod descale;
pub mod fp8;
#[cfg(not(test))]
mod fp8_cases;
pub mod kernel;
mod square;
mod table_fp8;

pub use call_fp8::Factors;
pub use kernel::{forward, reset};
