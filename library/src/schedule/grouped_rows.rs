//! Groups of rows of tiles.

use gluon_lang::lang::prelude::*;

use super::TileScheduler;

/// Groups of some rows of tiles, each column by column. Every other group runs backwards and begins with the columns that the
/// one before ended with. A wave is a square where a group has as many rows of tiles as make half of a wave's elements.
#[derive(Clone, Copy, Aggregate)]
pub struct GroupedRows {
    rows: Scalar<i32>,
    columns: Scalar<i32>,
    group: usize,
    /// Rows and columns of a block.
    block: Option<[usize; 2]>,
}

impl GroupedRows {
    /// The tiles of `block` elements that cover `m` by `n`, in groups of `group` rows of tiles.
    #[device]
    pub fn new([m, n]: [Scalar<i32>; 2], block: [usize; 2], group: usize) -> Self {
        GroupedRows {
            rows: cdiv(m, block[0]),
            columns: cdiv(n, block[1]),
            group,
            block: None,
        }
    }

    /// The same whose groups are in blocks of so many rows and columns of tiles, which follow each other down the group. Programs of a GPC, which are neighbours, read the fewest rows where a block is as large as a GPC and a square of elements.
    #[must_use]
    #[device]
    pub fn in_blocks(self, block: [usize; 2]) -> Self {
        static_assert!(
            block[0] > 0 && block[1] > 0,
            "blocks of {} by {} tiles hold none: `in_blocks` takes numbers above 0",
            block[0],
            block[1]
        );
        GroupedRows {
            block: Some(block),
            ..self
        }
    }

    /// Where tiles of this number follow each other column by column: in a group, or in a block of it.
    #[device]
    fn run_of(self, tile: Scalar<i32>) -> Run {
        let in_group = self.columns * self.group;
        let (number, within) = (tile / in_group, tile % in_group);
        let first = number * self.group;
        let rows = minimum(self.rows - first, self.group);
        let group = Run {
            group: number,
            first: [first, scalar(0)],
            rows,
            number: within,
        };
        self.block
            .map_or(group, |block| self.block_of(group, block))
    }

    /// The block of a group that has its tile of this number.
    #[device]
    fn block_of(self, group: Run, [rows, columns]: [usize; 2]) -> Run {
        let of_band = group.rows * columns;
        let (band, number) = (group.number / of_band, group.number % of_band);
        let column = band * columns;
        let of_block = minimum(self.columns - column, columns) * rows;
        let (block, number) = (number / of_block, number % of_block);
        let row = block * rows;
        Run {
            first: [group.first[0] + row, column],
            rows: minimum(group.rows - row, rows),
            number,
            ..group
        }
    }
}

/// Tiles that follow each other column by column.
#[derive(Clone, Copy)]
struct Run {
    /// Which group they are of.
    group: Scalar<i32>,
    /// Row and column where they begin.
    first: [Scalar<i32>; 2],
    rows: Scalar<i32>,
    /// The number of a tile among them.
    number: Scalar<i32>,
}

impl TileScheduler for GroupedRows {
    #[track_caller]
    fn count(self) -> Scalar<i32> {
        self.rows * self.columns
    }

    #[device]
    fn place(self, tile: Scalar<i32>) -> [Scalar<i32>; 2] {
        let Run {
            group,
            first,
            rows,
            number,
        } = self.run_of(tile);
        let column = number / rows;
        let column = match self.block {
            None => column,
            Some(_) => first[1] + column,
        };
        let is_forward = group % 2 == 0;
        let column = select(is_forward, column, self.columns - 1 - column);
        [first[0] + number % rows, column]
    }
}
