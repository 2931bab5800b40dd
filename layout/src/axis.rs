//! The names of the input and output dimensions of a linear layout.

use std::fmt;

/// A dimension on either side of a [`LinearLayout`](super::LinearLayout).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// The register of a thread that holds the element.
    Register,
    /// The thread of a warp, 0 to 31.
    Lane,
    /// The warp of a CTA.
    Warp,
    /// The CTA of a cluster.
    Block,
    /// The element offset within a shared-memory allocation.
    Offset,
    /// A dimension of the tensor.
    Dim(u8),
}

impl Axis {
    /// The tensor dimension `dim`.
    pub fn dim(dim: usize) -> Self {
        Self::Dim(u8::try_from(dim).expect("a tensor has fewer than 256 dimensions"))
    }

    /// The tensor dimensions `0..rank`.
    pub fn dims(rank: usize) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        (0..rank).map(Self::dim)
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register => f.write_str("register"),
            Self::Lane => f.write_str("lane"),
            Self::Warp => f.write_str("warp"),
            Self::Block => f.write_str("block"),
            Self::Offset => f.write_str("offset"),
            Self::Dim(dim) => write!(f, "dim{dim}"),
        }
    }
}
