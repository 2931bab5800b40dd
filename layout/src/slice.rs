//! A distributed layout with one dimension reduced away.

use std::fmt;

use super::text::write_call;
use super::{Extent, Layout, LayoutError};

/// The parent's layout seen without dimension `dim`: what a reduction along `dim` leaves, and what `expand_dims(dim)`
/// turns back into the parent. Threads that differed only along `dim` hold copies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The dimension of the parent that is removed.
    pub dim: u32,
    /// The layout with that dimension.
    pub parent: Layout,
}

impl Slice {
    /// `parent` without dimension `dim`.
    pub fn new(dim: impl Extent, parent: impl Into<Layout>) -> Self {
        Self {
            dim: dim.extent(),
            parent: parent.into(),
        }
    }

    pub(super) fn check(&self) -> Result<(), LayoutError> {
        let Some(parent_rank) = self.parent.rank() else {
            return Err(LayoutError::Unresolved {
                layout: self.parent.kind(),
            });
        };
        if parent_rank < 2 {
            return Err(LayoutError::SliceOfVector);
        }
        if self.dim as usize >= parent_rank {
            return Err(LayoutError::SliceDim {
                dim: self.dim,
                parent_rank,
            });
        }
        self.parent.check_parameters()
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_call(f, "Slice", |args| {
            args.value(&self.dim)?;
            args.value(&self.parent)
        })
    }
}
