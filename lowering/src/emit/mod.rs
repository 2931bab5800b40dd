//! From planned tile IR to PTX.

pub mod scratch;
