//! Which layout a result has so that no data moves: slices, permutations, reshapes, joins and splits, parts.
//!
//! Every relation passes placeholders through, so that inference can run before layouts are resolved.

mod join_split;
mod part;
mod permute;
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
    shared_alignment, shared_bytes,
};
pub use slice::{expand_dims, keep, reduce};

use super::{Axis, Dims, DistributedLinear, Layout, LayoutError, LinearLayout};

/// The declared layout, where it is only another name for `inferred`; else the inferred one.
pub fn prefer_declared(inferred: Layout, declared: Option<&Layout>, shape: &[u32]) -> Layout {
    match declared {
        Some(declared) if declared.same_on(&inferred, shape) => declared.clone(),
        _ => inferred,
    }
}

impl DistributedLinear {
    /// The layout whose bases are those of `map`, a map from (register, lane, warp, block) to tensor dimensions.
    pub fn from_map(map: &LinearLayout) -> Self {
        Self {
            register: map.basis_coords(Axis::Register),
            lane: map.basis_coords(Axis::Lane),
            warp: map.basis_coords(Axis::Warp),
            block: map.basis_coords(Axis::Block),
        }
    }
}

impl Layout {
    /// Whether both spread a tensor of `shape` in the same way, whatever they are called.
    pub fn same_on(&self, other: &Self, shape: &[u32]) -> bool {
        self == other
            || matches!((self.linear(shape), other.linear(shape)), (Ok(a), Ok(b)) if a == b)
    }
}

/// The error that `operation` is not possible on `layout`.
fn no_relation(operation: &'static str, layout: &Layout, why: impl Into<String>) -> LayoutError {
    LayoutError::NoRelation {
        operation,
        layout: layout.to_string(),
        why: why.into(),
    }
}

/// A name for the map: the candidate that has the same bases, else the bases themselves.
fn named_or_linear(
    map: &LinearLayout,
    shape: &[u32],
    candidates: impl IntoIterator<Item = Layout>,
) -> Layout {
    let same = |layout: &Layout| layout.linear(shape).is_ok_and(|linear| linear == *map);
    candidates
        .into_iter()
        .find(same)
        .unwrap_or_else(|| DistributedLinear::from_map(map).into())
}

/// Checks that `order` is a permutation of the dimensions of `layout`.
fn check_order(
    operation: &'static str,
    layout: &Layout,
    rank: usize,
    order: &[u32],
) -> Result<(), LayoutError> {
    let mut sorted = Dims::from(order);
    sorted.sort_unstable();
    if sorted.iter().copied().eq(0..rank as u32) {
        return Ok(());
    }
    let why = format!(
        "{} is not an order of its {rank} dimensions",
        Dims::from(order)
    );
    Err(no_relation(operation, layout, why))
}
