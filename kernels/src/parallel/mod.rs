//! Matrix products over several GPUs, fused with the collectives in front of them or behind: data of other ranks is in flight while tiles that need none are multiplied.
//!
//! [`gather_product`] multiplies a matrix whose rows are divided among the ranks, [`product_scatter`] adds up products of all ranks and leaves each its rows, or all of them; for few rows
//! [`product_one_shot`] does that.

mod across;
mod added;
mod call;
#[cfg(not(test))]
mod cases;
mod check;
pub mod chosen;
pub mod gather;
pub(crate) mod launch;
pub(crate) mod mail;
#[cfg(test)]
mod mail_tests;
pub(crate) mod memory;
pub mod one_shot;
mod options;
pub(crate) mod pieces;
pub(crate) mod plan;
pub mod scatter;

pub use call::Parallel;
pub use check::View;
pub use chosen::{ACTIVATIONS, Chosen};
pub use gather::gather_product;
pub use one_shot::product_one_shot;
pub use options::Options;
pub use plan::{ReducePlan, Variant};
pub use scatter::product_scatter;
