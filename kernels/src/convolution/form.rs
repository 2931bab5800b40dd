//! What a kernel of convolutions is compiled for.

use std::fmt;

use tilekit::layout::NvmmaSwizzle;
use tilekit::prelude::*;

use crate::products::dense::ManyTile;
use crate::products::epilogue::Named;
use crate::products::form::{block_of, swizzle_of};

/// What [`convolve`](super::implicit::convolve) is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form<E> {
    /// Output pixels by filters.
    pub tile: ManyTile,
    /// Channels of a step: 16, 32 or 64.
    pub channels: usize,
    /// Dimensions of an image: 4, or 5 with depth.
    pub rank: u32,
    /// Channels and filters are in groups.
    pub has_groups: bool,
    /// Filters are read as those of the gradient of the image: taps backwards, channels for filters.
    pub is_gradient: bool,
    /// What happens to sums.
    pub epilogue: E,
}

impl<E> Form<E> {
    /// The same with another epilogue.
    pub(super) fn with<N>(self, epilogue: N) -> Form<N> {
        Form {
            tile: self.tile,
            channels: self.channels,
            rank: self.rank,
            has_groups: self.has_groups,
            is_gradient: self.is_gradient,
            epilogue,
        }
    }

    /// Pixels and channels of a load.
    pub(super) fn pixels(&self) -> [usize; 2] {
        [self.tile.shape()[0], self.channels]
    }

    /// Pixels and filters of a warpgroup.
    pub(super) fn results(&self) -> [usize; 2] {
        [self.tile.rows, self.tile.columns]
    }

    /// One tap of some filters.
    pub(super) fn filters(&self) -> Dims {
        let (columns, channels) = (self.tile.columns, self.channels);
        let block = if self.is_gradient {
            [channels, columns]
        } else {
            [columns, channels]
        };
        block_of(block, true)
    }

    /// How that lies in shared memory.
    pub(super) fn swizzle_of_filters<T: Element>(&self) -> NvmmaSwizzle {
        if self.is_gradient {
            swizzle_of::<T>(self.tile.columns)
        } else {
            swizzle_of::<T>(self.channels)
        }
    }

    /// A stage's filters as `[filters, channels]`.
    #[track_caller]
    pub(super) fn by_filters<T: Element>(&self, tile: Smem<T>) -> Smem<T> {
        let (columns, channels) = (self.tile.columns, self.channels);
        if self.is_gradient {
            tile.reshape([channels, columns]).transpose()
        } else {
            tile.reshape([columns, channels])
        }
    }
}

impl<E: Named> fmt::Display for Form<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tile, channels) = (self.tile, self.channels);
        write!(f, "{tile}+{channels}_channels")?;
        for (name, is_so) in [
            ("depth", self.rank == 5),
            ("groups", self.has_groups),
            ("gradient", self.is_gradient),
        ] {
            if is_so {
                write!(f, "+{name}")?;
            }
        }
        let name = self.epilogue.name();
        if name.is_empty() {
            Ok(())
        } else {
            write!(f, "+{name}")
        }
    }
}
