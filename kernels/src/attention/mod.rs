//! Attention: [`Attention`] is what a program calls; the kernels are public for cases, benchmarks and launches by hand.
//!
//! A folder has a kind of call: its kernels, the tables of their instances, what the call checks and launches, and cases. [`forward`], [`masked`], [`blocks`] and [`decode`] share a main loop
//! (`mainloop/`). Beside the folders stands what all calls share: options, modifiers of scores, checks of tensors, workspaces, and the reference in f64 (`reference.rs`).

pub mod append;
pub mod backward;
pub mod blocks;
mod call;
mod check;
pub mod decode;
mod dropout;
pub mod empty;
mod error;
pub mod forward;
mod inputs;
pub mod latent;
mod mainloop;
pub mod masked;
pub mod merge;
mod modifier;
mod options;
mod plan;
mod reference;
pub mod ring;
mod setup;
mod table;
mod workspace;
mod written;

pub use append::{NewLengths, NewTokens, Rotary};
pub use backward::{Gradients, Upstream};
pub use blocks::{BlockKind, BlockLists, BlockMask, BlockShape};
pub use call::{Attention, Forward};
pub use decode::{Cache, CacheElement, CacheScales};
pub use dropout::Dropout;
pub use error::{Error, Result};
pub use forward::Factors;
pub use latent::{LatentCache, LatentPlan};
pub use merge::PartialResult;
pub use modifier::{Alibi, Differentiable, Dropped, Modifier, Place, Plain, Softcap};
pub use options::{Lengths, Options};
pub use table::Operand;
