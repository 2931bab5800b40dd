//! Attention: [`Attention`] is what a program calls; the kernels are public for cases, benchmarks and launches by hand.

pub mod backward;
mod backward_cases;
pub mod backward_masked;
mod backward_masked_cases;
pub mod backward_passes;
mod backward_table;
mod call;
mod call_backward;
mod check;
mod check_backward;
mod dense;
pub mod empty;
mod error;
pub mod forward;
mod forward_cases;
mod key_blocks;
mod mainloop;
pub mod masked;
mod masked_cases;
mod modifier;
mod options;
mod overlap;
mod plan;
mod reference;
mod softmax;
mod spans;
mod table;
mod tiles;

pub use call::{Attention, Forward};
pub use call_backward::{Gradients, Upstream};
pub use error::{Error, Result};
pub use modifier::{Alibi, Differentiable, Modifier, Place, Plain, Softcap};
pub use options::{Lengths, Options};
pub use table::Operand;
