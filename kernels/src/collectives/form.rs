//! What a kernel of collectives is compiled for.

use std::fmt;

use tilekit::prelude::*;

/// Ranks that can take part.
pub const MOST_RANKS: usize = 16;

/// Bytes of an access.
const ACCESS_BYTES: usize = 16;

/// What a kernel of collectives is compiled for, beside its element type and warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// Ranks that take part, 1 to [`MOST_RANKS`].
    pub ranks: usize,
    /// Warps of a CTA.
    pub warps: usize,
    /// Accesses of 16 bytes that each thread makes to a chunk.
    pub accesses: usize,
    /// Pieces begin at multiples of 16 bytes, so that all accesses have 16 bytes but those at the end.
    pub is_aligned: bool,
}

impl Form {
    /// Elements of a chunk, which a CTA sends at once.
    pub fn chunk<T>(self) -> usize {
        self.warps * 32 * self.accesses * (ACCESS_BYTES / size_of::<T>())
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(self) -> usize {
        self.warps * 32 * self.accesses * ACCESS_BYTES
    }

    /// Packets of a CTA: one word for each access.
    pub fn packets(self) -> usize {
        self.warps * 32 * self.accesses
    }

    /// The places of a chunk's elements: neighbouring threads have neighbouring 16 bytes.
    pub(super) fn lanes<T>(self) -> Tensor<i32> {
        let layout = Blocked::new([ACCESS_BYTES / size_of::<T>()], [32], [self.warps], [0]);
        arange(0..self.chunk::<T>(), layout)
    }

    /// A distance between pieces in words of 32 bits, of which it is known whether it is a multiple of 16 bytes.
    pub(super) fn word_step(self, step: Scalar<i32>) -> Scalar<i32> {
        if self.is_aligned {
            step.multiple_of(ACCESS_BYTES / 4)
        } else {
            step
        }
    }

    /// A distance between pieces, of which it is known whether it is a multiple of 16 bytes.
    pub(super) fn step<T>(self, step: Scalar<i64>) -> Scalar<i64> {
        if self.is_aligned {
            step.multiple_of(ACCESS_BYTES / size_of::<T>())
        } else {
            step
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Form {
            ranks,
            warps,
            accesses,
            is_aligned,
        } = self;
        let lies = if *is_aligned { "" } else { "+ragged" };
        write!(f, "{ranks}x{warps}x{accesses}{lies}")
    }
}
