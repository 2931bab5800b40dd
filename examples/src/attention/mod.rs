//! Attention without the matrix of scores in global memory.

mod attention_case;

pub mod attention_forward;
pub mod attention_tiles;
