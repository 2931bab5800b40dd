//! What names the kernels of products with scales for blocks that calls have needed so far.

use super::along_k::AlongForm;
use super::few_tiles::FewScaledTile;
use super::grouped::GroupedForm;
use super::tile::ScaledTile;

/// What a kernel of products with scales for blocks is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::products) enum ScaledWhich {
    Dense(ScaledTile),
    Few(FewScaledTile),
    Grouped(GroupedForm),
    AlongK(AlongForm),
    /// Rows of a block that is quantised.
    Quantise(usize),
}
