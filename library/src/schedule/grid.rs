//! How many programs a persistent kernel is launched with: the host's side of a tile scheduler.

/// The CTAs of a kernel that run on a GPU at a time.
///
/// ```
/// use tilekit::prelude::*;
///
/// // 132 SMs with a CTA each, in clusters of 2.
/// let resident = Resident { ctas: 132, cluster: 2 };
/// assert_eq!(resident.tiles([1000, 300], [128, 256]), 16);
/// assert_eq!(resident.programs(16), 32); // a cluster for each tile
/// assert_eq!(resident.programs(1000), 132);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// CTAs that run at a time: those of an SM times the SMs.
    pub ctas: usize,
    /// CTAs of a cluster, which make a tile together; 1 without clusters.
    pub cluster: usize,
}

impl Resident {
    /// Tiles of `block` elements that cover `size`.
    pub fn tiles(self, size: [usize; 2], block: [usize; 2]) -> usize {
        size[0].div_ceil(block[0]) * size[1].div_ceil(block[1])
    }

    /// The number of programs for `tiles` tiles, of which each program, or cluster, computes one after the other: at most as many as are
    /// resident at a time, since a CTA that waits for an SM computes none, and at most as many as tiles. For [`GroupedRows`](super::GroupedRows),
    /// [`Listed`](super::Listed), [`RaggedTiles`](super::RaggedTiles) (where `tiles` may be an upper bound) and
    /// [`DynamicTiles`](super::DynamicTiles).
    pub fn programs(self, tiles: usize) -> usize {
        self.clusters().min(tiles.max(1)) * self.cluster
    }

    /// The number of programs for [`StreamK`](super::StreamK): as many as are resident at a time, or as many as there are steps.
    pub fn programs_of_steps(self, tiles: usize, steps: usize) -> usize {
        self.programs(tiles * steps)
    }

    fn clusters(self) -> usize {
        (self.ctas / self.cluster.max(1)).max(1)
    }
}
