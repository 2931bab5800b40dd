//! Kernels of training steps that memory bounds: norms, softmax and activations with their gradients, cross entropy with its gradient, rotary
//! embedding, embeddings, dropout, routing of tokens to experts, and `AdamW`, of one tensor and of lists. Each has a `signature(..)`, so that an export launches it from tensors alone.
//!
//! Matrices are row-major with unit column stride, begin at multiples of 16 bytes, and have rows that are multiples of 8 elements apart, of f32 too. Sums are f32.

mod activation;
#[cfg(not(test))]
mod activation_cases;
mod adamw;
mod adamw_list;
mod combine;
mod cross_entropy;
mod dropout;
mod embedding;
mod embedding_backward;
mod norm;
#[cfg(not(test))]
mod norm_cases;
mod norm_forward;
mod partials;
mod rotary;
mod routing;
mod rows_case;
mod softmax;

pub use activation::{gelu, gelu_backward, swiglu, swiglu_backward};
pub use adamw::adamw;
pub use adamw_list::{adamw_list, clip_factor, squares_list};
pub use combine::{combine, combine_backward};
pub use cross_entropy::cross_entropy_gradient;
pub use dropout::dropout;
pub use embedding::embedding;
pub use embedding_backward::{embedding_backward, embedding_backward_join};
pub use norm::{layernorm_backward, rmsnorm_backward};
pub use norm_forward::{layernorm, rmsnorm};
pub use partials::sum_partials;
pub use rotary::rotary;
pub use routing::{place_by_expert, route, route_backward};
pub use softmax::{softmax, softmax_backward};
