//! Tiles of groups of rows of different lengths.

use gluon_lang::lang::prelude::*;

/// The tiles of several products with one number of columns and different numbers of rows, contiguous in memory, as in a mixture of
/// experts (grouped GEMM). Group `g` has the rows from `offsets[g]` to `offsets[g + 1]`, which the kernel reads, so that the host need
/// not. A group begins with a tile of its own, and may be empty.
///
/// ```text
/// let mut tile = tiles.start();
/// while tile.group() < groups {
///     let [row, column] = tile.place();       // tiles within the group
///     ..                                      // rows tile.first_row() + row * BM .. up to tile.end_row()
///     tile = tiles.next(tile);
/// }
/// ```
///
/// A program takes every `num_programs`-th tile, counted through all groups, and each partition finds them by itself, by one read
/// of `offsets` for each group that it passes.
#[derive(Clone, Copy, Aggregate)]
pub struct RaggedTiles {
    offsets: Ptr<i32>,
    groups: Scalar<i32>,
    columns: Scalar<i32>,
    rows_of_tile: usize,
    /// CTAs that compute a tile together.
    ctas: usize,
}

/// A tile of a group.
#[derive(Clone, Copy, Aggregate, Debug)]
pub struct RaggedTile {
    group: Scalar<i32>,
    /// Its number within the group; more than the group has while it is looked for.
    within: Scalar<i32>,
    first_row: Scalar<i32>,
    end_row: Scalar<i32>,
    rows_of_tile: usize,
}

impl RaggedTile {
    /// Its group; the number of groups when there is no tile left.
    pub fn group(&self) -> Scalar<i32> {
        self.group
    }

    /// The first row of its group, and of all groups together.
    pub fn first_row(&self) -> Scalar<i32> {
        self.first_row
    }

    /// The row after the last one of its group.
    pub fn end_row(&self) -> Scalar<i32> {
        self.end_row
    }

    /// Its number within the group, of as many as cover it: for an order of the caller's own, such as that of
    /// [`GroupedRows`](super::GroupedRows).
    pub fn number(&self) -> Scalar<i32> {
        self.within
    }

    /// Its row and column of tiles within the group: column by column.
    #[track_caller]
    pub fn place(&self) -> [Scalar<i32>; 2] {
        let rows = self.rows();
        [self.within % rows, self.within / rows]
    }

    /// Rows of tiles of its group.
    #[track_caller]
    fn rows(&self) -> Scalar<i32> {
        cdiv(self.end_row - self.first_row, self.rows_of_tile)
    }
}

impl RaggedTiles {
    /// Tiles of `block` elements over `n` columns and `groups` groups, at least one; `offsets` has one number more, which ascend.
    #[device]
    pub fn new(offsets: Ptr<i32>, groups: Scalar<i32>, n: Scalar<i32>, block: [usize; 2]) -> Self {
        RaggedTiles {
            offsets,
            groups,
            columns: cdiv(n, block[1]),
            rows_of_tile: block[0],
            ctas: 1,
        }
    }

    /// The same tiles, made by clusters of `ctas` instead of programs.
    #[must_use]
    pub fn of_cluster(mut self, ctas: usize) -> Self {
        self.ctas = ctas;
        self
    }

    /// The first tile of this program.
    #[device]
    pub fn start(self) -> RaggedTile {
        self.seek(RaggedTile {
            group: scalar(0),
            within: program_id(0) / self.ctas,
            first_row: self.offsets.at(0).load(),
            end_row: self.offsets.at(1).load(),
            rows_of_tile: self.rows_of_tile,
        })
    }

    /// The tile of this program after `tile`.
    #[device]
    pub fn next(self, tile: RaggedTile) -> RaggedTile {
        let within = tile.within + num_programs(0) / self.ctas;
        self.seek(RaggedTile { within, ..tile })
    }

    /// Advances to the group that contains the tile.
    #[device]
    fn seek(self, tile: RaggedTile) -> RaggedTile {
        let mut tile = tile;
        while (tile.group < self.groups) & (tile.within >= tile.rows() * self.columns) {
            tile.within -= tile.rows() * self.columns;
            tile.group += 1;
            tile.first_row = tile.end_row;
            // After the last group there is nothing to read.
            let end = minimum(tile.group + 1, self.groups);
            tile.end_row = self.offsets.at(end).load();
        }
        tile
    }
}
