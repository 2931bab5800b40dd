//! Ring attention: the tokens of a sequence are divided among ranks, and the queries of each attend to the keys of all, in one kernel.
//!
//! # Who moves K and V
//!
//! A rank that reads K and V of the others over the links reads them once for each tile of queries, for reads of a peer are not cached in L2: with 16384 tokens of a rank that is 128 times as
//! many bytes as there are, 100 ms of a link where the products take 13. So each rank pushes its K and V once into memory of the others (64 MB a millisecond of products at those sizes, a
//! twentieth of what the link takes), and the tiles read them there. As in [`gather_product`](crate::parallel::gather_product) one warp of each CTA does so, beside the products and
//! through a small ring in shared memory: no copy of the driver is coupled to the kernel's progress, and a capture replays it.
//!
//! # Order
//!
//! A tile of queries begins with the keys of its own rank, and goes on with those of the ranks behind it, r + 1, r + 2, .., in a fixed order, its online softmax in registers over all of
//! them. So nothing is merged, and no bit of a result depends on who is faster. Keys are sent in the order in which they are needed: heads of K and V that are computed together, for each of these
//! first to the rank before, and so on. A flag stands for some tokens of a head of K and V, and the warp that loads waits for those of a rank when the first block that needs them is loaded.
//!
//! # Causal masks
//!
//! Where each rank has contiguous tokens ([`Placement::Contiguous`]), the last rank has more to do than all before it. With [`Placement::ZigZag`] the sequence is cut into two chunks for each
//! rank, of which rank r of P has r and 2 P - 1 - r: all have equally much to do. A chunk sees whole chunks of other ranks or nothing of them, so that only keys of the own rank meet the diagonal; what no
//! query of a rank sees is not sent to it.
//!
//! # What the kernel does not have
//!
//! Windows, softcap, sinks, depth 96 and gradients: for these K and V are gathered first (`gathered/`).

mod call;
#[cfg(not(test))]
mod cases;
mod check;
mod gathered;
mod kernel;
mod options;
mod plan;
mod send;
mod shards;
#[cfg(test)]
mod silent_tests;
mod table;

pub use gathered::{ShardGradients, gather_shards, move_rows, sum_shards};
pub use kernel::ring_attention;
pub use options::{Placement, RingOptions};
