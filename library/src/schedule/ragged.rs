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
/// [`of_counts`](RaggedTiles::of_counts) are those of groups with equal room, of which the first rows are used: as many as the kernel reads.
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
    /// Rows of a group, where there are counts and no offsets.
    room: Option<Scalar<i32>>,
    /// Rows of all groups, where offsets are kept within them.
    rows: Option<Scalar<i32>>,
    /// The first tile of a group begins at a multiple of so many rows.
    unit: usize,
}

/// A tile of a group.
#[derive(Clone, Copy, Aggregate, Debug)]
pub struct RaggedTile {
    group: Scalar<i32>,
    /// Its number within the group; more than the group has while it is looked for.
    within: Scalar<i32>,
    first_row: Scalar<i32>,
    /// Where its group begins, if its tiles may begin before.
    begin_row: Option<Scalar<i32>>,
    end_row: Scalar<i32>,
    rows_of_tile: usize,
}

impl RaggedTile {
    /// Its group; the number of groups when there is no tile left.
    pub fn group(&self) -> Scalar<i32> {
        self.group
    }

    /// The first row of its group, and of all groups together; where tiles are [aligned](RaggedTiles::aligned), that of the first tile.
    pub fn first_row(&self) -> Scalar<i32> {
        self.first_row
    }

    /// The first row of its group: rows of a tile before that are another group's.
    pub fn begin_row(&self) -> Scalar<i32> {
        self.begin_row.unwrap_or(self.first_row)
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
            room: None,
            rows: None,
            unit: 1,
        }
    }

    /// The same groups in tiles that begin at multiples of `unit` rows, a power of two: as many before the group's first row as that takes. For what TMA loads along rows,
    /// whose copies begin at multiples of 16 bytes.
    #[must_use]
    pub fn aligned(mut self, unit: usize) -> Self {
        self.unit = unit;
        self
    }

    /// A tile at the beginning of a group.
    #[device]
    fn at_group(
        self,
        group: Scalar<i32>,
        within: Scalar<i32>,
        [begin, end]: [Scalar<i32>; 2],
    ) -> RaggedTile {
        let is_aligned = self.unit > 1;
        let first_row = if is_aligned {
            // An empty group has no tile.
            let unit = -(self.unit as i32);
            select(end > begin, begin & unit, begin)
        } else {
            begin
        };
        RaggedTile {
            group,
            within,
            first_row,
            begin_row: is_aligned.then_some(begin),
            end_row: end,
            rows_of_tile: self.rows_of_tile,
        }
    }

    /// The same of groups that begin every `room` rows and use the first `counts[g]` of them, of which no more than `room` count.
    #[device]
    pub fn of_counts(
        counts: Ptr<i32>,
        [groups, room]: [Scalar<i32>; 2],
        n: Scalar<i32>,
        block: [usize; 2],
    ) -> Self {
        RaggedTiles {
            room: Some(room),
            ..RaggedTiles::new(counts, groups, n, block)
        }
    }

    /// The same with each offset taken as the nearest one that is in order and within so many rows, so that no offset leads outside of them.
    #[must_use]
    pub fn within(mut self, rows: Scalar<i32>) -> Self {
        self.rows = Some(rows);
        self
    }

    /// An offset behind `before`.
    #[track_caller]
    fn offset(self, at: Scalar<i32>, before: Scalar<i32>) -> Scalar<i32> {
        let offset = self.offsets.at(at).load();
        match self.rows {
            Some(rows) => minimum(maximum(offset, before), rows),
            None => offset,
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
        let rows = match self.room {
            None => {
                let begin = self.offset(scalar(0), scalar(0));
                [begin, self.offset(scalar(1), begin)]
            }
            Some(room) => [scalar(0), used(self.offsets.at(0).load(), room)],
        };
        let number = program_id(0) / self.ctas;
        self.seek(self.at_group(scalar(0), number, rows))
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
            let group = tile.group + 1;
            // After the last group there is nothing to read.
            let rows = match self.room {
                None => {
                    let end = minimum(group + 1, self.groups);
                    [tile.end_row, self.offset(end, tile.end_row)]
                }
                Some(room) => {
                    let count = self.offsets.at(minimum(group, self.groups - 1)).load();
                    let begin = group * room;
                    [begin, begin + used(count, room)]
                }
            };
            tile = self.at_group(group, tile.within, rows);
        }
        tile
    }
}

/// Rows that a group with room for so many uses.
#[track_caller]
fn used(count: Scalar<i32>, room: Scalar<i32>) -> Scalar<i32> {
    minimum(maximum(count, 0), room)
}
