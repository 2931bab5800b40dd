//! Products with a 2:4 sparse matrix: `C[M, N] = A[M, K] · B[K, N]`, where of four neighbours in a row of A two at most are other than zero. The tensor cores multiply those two alone.
//!
//! [`SparseMatrix`] is such a matrix on a device: what is kept, and where in its rows that was, in the order in which threads hold it beside the product ([`layout`]).

mod call;
#[cfg(not(test))]
mod cases;
mod check;
pub mod compress;
#[cfg(not(test))]
mod compress_cases;
mod compressed;
pub mod few;
mod form;
pub mod layout;
mod matrix;
mod operand;
pub mod plan;
pub mod product;
mod stage;
mod tiles;

pub use compressed::{HostSparse, Pruning};
pub use form::SparseForm;
pub use matrix::SparseMatrix;
pub use operand::SparseOperand;
pub use plan::{SparseCallPlan, SparsePlan};
pub use tiles::SparseTile;
