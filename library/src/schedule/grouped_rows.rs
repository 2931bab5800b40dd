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
}

impl GroupedRows {
    /// The tiles of `block` elements that cover `m` by `n`, in groups of `group` rows of tiles.
    #[device]
    pub fn new([m, n]: [Scalar<i32>; 2], block: [usize; 2], group: usize) -> Self {
        GroupedRows {
            rows: cdiv(m, block[0]),
            columns: cdiv(n, block[1]),
            group,
        }
    }
}

impl TileScheduler for GroupedRows {
    #[track_caller]
    fn count(self) -> Scalar<i32> {
        self.rows * self.columns
    }

    #[device]
    fn place(self, tile: Scalar<i32>) -> [Scalar<i32>; 2] {
        let in_group = self.columns * self.group;
        let (number, within) = (tile / in_group, tile % in_group);
        let first = number * self.group;
        let rows = minimum(self.rows - first, self.group);
        let column = within / rows;
        let is_forward = number % 2 == 0;
        let column = select(is_forward, column, self.columns - 1 - column);
        [first + within % rows, column]
    }
}
