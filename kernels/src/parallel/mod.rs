//! Matrix products over several GPUs, fused with the collectives in front of them or behind: data of other ranks is on its way while tiles that need none are multiplied.
//!
//! [`gather_product`] multiplies a matrix whose rows are divided among the ranks, [`product_scatter`] adds up products of all ranks and leaves each its rows, [`product_reduce`] leaves each all of them.

mod call;
mod cases;
mod check;
pub mod gather;
pub(crate) mod launch;
pub(crate) mod mail;
#[cfg(test)]
mod mail_tests;
pub(crate) mod memory;
pub(crate) mod plan;
pub mod reduce;
pub mod scatter;

pub use call::Parallel;
pub use check::View;
pub use gather::gather_product;
pub use reduce::product_reduce;
pub use scatter::product_scatter;
