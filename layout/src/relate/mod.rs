//! Which layout a result has so that no data moves: slices, permutations, reshapes, joins and splits, parts.
//!
//! Every relation passes placeholders through, so that inference can run before layouts are resolved.

mod join_split;
mod names;
mod part;
mod permute;
mod refusal;
mod registers;
mod reshape;
mod shared;
mod slice;

pub use join_split::{join, split};
pub use part::{Part, part, registers_of_part, whole};
pub use permute::{inverse_order, permute};
pub use registers::{broadcast, registers_in};
pub use reshape::reshape;
pub use shared::{
    BufferSize, buffer_size, covered, index_shared, permute_shared, reshape_shared,
    shared_alignment, shared_bytes, shared_payload_bytes,
};
pub use slice::{expand_dims, keep, reduce};

use super::Layout;

/// The declared layout, where it is only another name for `inferred`; else the inferred one.
pub fn prefer_declared(inferred: Layout, declared: Option<&Layout>, shape: &[u32]) -> Layout {
    match declared {
        Some(declared) if declared.same_on(&inferred, shape) => declared.clone(),
        _ => inferred,
    }
}

impl Layout {
    /// Whether both spread a tensor of `shape` in the same way, whatever they are called.
    pub fn same_on(&self, other: &Self, shape: &[u32]) -> bool {
        self == other
            || matches!((self.linear(shape), other.linear(shape)), (Ok(a), Ok(b)) if a == b)
    }
}
