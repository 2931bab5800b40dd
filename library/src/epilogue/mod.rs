//! Epilogues: from accumulators to global memory. What happens to a result is an ordinary expression of tensors:
//!
//! ```text
//! let bias = load_along(bias, columns_of(layout.clone(), column, BN), n);
//! let result = gelu(sums * scale + bias) + residual.load(layout).cast::<f32>();
//! turn = epilogue.fill(group, turn, result.cast::<bf16>());
//! ```
//!
//! - [`EpilogueStore`]: buffers from which TMA stores, or loads an operand to, in turns.
//! - [`load_along`] with [`rows_of`] and [`columns_of`]: biases and scales of rows and columns.
//! - [`gelu`], [`silu`], [`relu`] and others: activations.
//! - [`ClusterSum`]: partial results of the CTAs of a cluster. Those of other programs are added in memory, by
//!   [`store_add`](gluon_lang::lang::TensorMap::store_add).
//! - Casts round as the argument of [`cast_rounded`](gluon_lang::lang::Tensor::cast_rounded) says.

mod activation;
mod cluster_sum;
mod operands;
mod store;

pub use activation::{gelu, gelu_erf, gelu_of_twice, relu, silu};
pub use cluster_sum::ClusterSum;
pub use operands::{columns_of, load_along, rows_of};
pub use store::{EpilogueStore, EpilogueTurn, Turns};
