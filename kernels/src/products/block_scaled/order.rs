//! The order of tiles, and which of them a CTA has.

use tilekit::prelude::*;

use super::tile::{ScaledTile, Shared};
use crate::products::dense::rows_of_group;

/// The tiles of a product, those of a cluster together.
#[derive(Clone, Copy)]
pub(super) struct ScaledTiles {
    of_clusters: GroupedRows,
    tile: ScaledTile,
}

impl ScaledTiles {
    #[device]
    pub(super) fn new(size: [Scalar<i32>; 2], tile: ScaledTile) -> Self {
        ScaledTiles {
            of_clusters: GroupedRows::new(size, tile.of_cluster(), rows_of_order(tile)),
            tile,
        }
    }

    /// Numbers of the tiles of this CTA's cluster.
    #[device]
    pub(super) fn of_program(self) -> Range<i32> {
        let count = self.of_clusters.count();
        if self.tile.ctas() > 1 {
            range(cluster_id(0), count).step(num_clusters(0))
        } else {
            range(program_id(0), count).step(num_programs(0))
        }
    }

    /// The first row and column of this CTA's tile.
    #[device]
    pub(super) fn first(self, number: Scalar<i32>) -> [Scalar<i32>; 2] {
        first_of_cta(self.tile, self.of_clusters.place(number))
    }
}

/// Rows of clusters' tiles in a group of the order.
pub(super) fn rows_of_order(tile: ScaledTile) -> usize {
    rows_of_group(tile.of_cluster())
}

/// The first row and column of this CTA's tile, one of those at a row and column of clusters' tiles.
#[device]
pub(super) fn first_of_cta(tile: ScaledTile, [row, column]: [Scalar<i32>; 2]) -> [Scalar<i32>; 2] {
    let ([rows, columns], [all_rows, all_columns]) = (tile.shape(), tile.of_cluster());
    let first = [row * all_rows, column * all_columns];
    match tile.shared {
        Shared::Nothing => first,
        Shared::Rows => [first[0], first[1] + cluster_rank() * columns],
        Shared::Columns => [first[0] + cluster_rank() * rows, first[1]],
    }
}
