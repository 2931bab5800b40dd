//! Passes that make the kernel cheaper and change nothing that it computes, and passes that say what is wrong with it.

pub mod accesses;
pub mod agreement;
pub mod carried;
pub mod conversions;
pub mod cse;
pub mod fold;
pub mod licm;
pub mod peers;
pub mod products;
pub mod readonly;
pub mod rotate;
pub mod unused;
pub mod votes;

mod replace;
