//! Elementwise kernels: every element is read once and written once.

pub mod gelu_bias;
pub mod vector_add;
