//! Products with weights of few bits, which are decoded in registers: `Y[M, N] = X[M, K] · W[N, K]ᵀ`, X and Y of bf16 or f16, W of 4 or 8 bits with a scale for groups along K.
//!
//! Weights are operand A of the tensor cores, which may come from registers, and activations operand B; so a tile of the product comes out turned. [`WeightFormat`] says how weights
//! are packed: a thread loads what the tensor cores take of it.

mod call;
#[cfg(not(test))]
mod cases;
mod check;
mod consumer;
mod decode;
pub mod few;
pub mod form;
pub mod format;
mod launch;
pub mod many;
pub mod pack;
#[cfg(not(test))]
mod pack_cases;
mod packed;
pub mod plan;
mod stage;

pub use call::DeviceWeights;
pub(in crate::products) use check::one_matrix;
pub use decode::Unquantised;
pub use format::{WeightFormat, WeightGroup, WeightValues};
pub(in crate::products) use launch::WeightWhich;
pub use packed::{HostWeights, PackedWeights};
pub use plan::{WeightCallPlan, WeightPlan, WeightTile};
