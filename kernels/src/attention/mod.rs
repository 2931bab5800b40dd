//! Attention: [`Attention`] is what a program calls; the kernels are public for cases, benchmarks and launches by hand.

pub mod backward;
mod backward_cases;
mod call;
mod check;
mod dense;
pub mod empty;
mod error;
pub mod forward;
mod forward_cases;
mod mainloop;
pub mod masked;
mod masked_cases;
mod modifier;
mod options;
mod plan;
mod softmax;
mod spans;
mod table;
mod tiles;

pub use call::{Attention, Forward};
pub use error::{Error, Result};
pub use modifier::{Alibi, Modifier, Place, Plain, Softcap};
pub use options::{Lengths, Options};
pub use table::Operand;
