//! Kernels of training steps that memory bounds: norms, softmax and activations with their gradients, cross entropy with its gradient, rotary
//! embedding, and `AdamW`. Each has a `signature(..)`, so that an export launches it from tensors alone.
//!
//! Matrices are row-major with unit column stride, and their rows begin at multiples of 16 bytes. Sums are f32.

mod activation;
mod activation_cases;
mod adamw;
mod cross_entropy;
mod norm;
mod norm_cases;
mod norm_forward;
mod partials;
mod rotary;
mod rows_case;
mod softmax;

pub use activation::{gelu, gelu_backward, swiglu, swiglu_backward};
pub use adamw::adamw;
pub use cross_entropy::cross_entropy_gradient;
pub use norm::{layernorm_backward, rmsnorm_backward};
pub use norm_forward::{layernorm, rmsnorm};
pub use partials::sum_partials;
pub use rotary::rotary;
pub use softmax::{softmax, softmax_backward};
