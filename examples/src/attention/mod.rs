//! Attention without the matrix of scores in global memory.

pub mod attention_forward;
pub mod attention_tiles;
