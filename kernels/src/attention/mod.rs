//! Attention.

pub mod forward;
mod forward_cases;
mod softmax;
mod tiles;
