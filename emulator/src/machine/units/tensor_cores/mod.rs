//! Tensor cores: `wgmma`, `mma.sync`, and the instructions that move their matrices.

pub(crate) mod element;
pub(crate) mod ldmatrix;
pub(crate) mod mma;
pub(crate) mod operands;
pub(crate) mod sparse;
pub(crate) mod wgmma;
