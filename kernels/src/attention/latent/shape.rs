//! The shape of a cache of latent vectors: its columns, and the keys of a page.

/// Columns of a key beyond those of the value: what rotary embedding turns.
pub(super) const ROPE: usize = 64;
/// Half of the columns of a value.
pub(super) const HALF: usize = 256;
/// Keys of a block, and of a page.
pub(super) const PAGE: usize = 64;
