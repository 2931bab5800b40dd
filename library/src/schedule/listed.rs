//! Tiles in an order that the host chose.

use gluon_lang::lang::prelude::*;

use super::TileScheduler;

/// Tiles from a list that the host made, `row << 16 | column` each.
#[derive(Clone, Copy, Aggregate)]
pub struct Listed {
    list: Ptr<i32>,
    count: Scalar<i32>,
}

impl Listed {
    /// The `count` tiles at `list`.
    pub fn new(list: Ptr<i32>, count: Scalar<i32>) -> Self {
        Listed { list, count }
    }
}

impl TileScheduler for Listed {
    #[track_caller]
    fn count(self) -> Scalar<i32> {
        self.count
    }

    #[track_caller]
    fn place(self, tile: Scalar<i32>) -> [Scalar<i32>; 2] {
        let place = self.list.at(tile).load();
        [place >> 16, place & 0xffff]
    }
}

/// The tiles of a grid of `rows` by `columns` along a Hilbert curve, for [`Listed`]. Any run of it stays close together, and
/// so do runs that follow each other.
///
/// # Panics
/// For `1 << 15` rows or `1 << 16` columns and more, which an entry does not hold.
pub fn hilbert(rows: usize, columns: usize) -> Vec<i32> {
    assert!(rows < 1 << 15 && columns < 1 << 16, "an entry has 32 bits");
    let side = rows.max(columns).next_power_of_two();
    let places = (0..side * side).map(|at| hilbert_place(side, at));
    let inside = places.filter(|&[row, column]| row < rows && column < columns);
    inside
        .map(|[row, column]| (row << 16 | column) as i32)
        .collect()
}

/// Where a Hilbert curve through a square of `side` is after `at` steps. Each level of it, from the finest on, adds a quadrant,
/// and turns what was found so far as that quadrant is turned.
fn hilbert_place(side: usize, mut at: usize) -> [usize; 2] {
    let [mut x, mut y] = [0, 0];
    let mut half = 1;
    while half < side {
        let right = at / 2 % 2;
        let up = (at ^ right) % 2;
        if up == 0 {
            if right == 1 {
                (x, y) = (half - 1 - x, half - 1 - y);
            }
            (x, y) = (y, x);
        }
        (x, y) = (x + half * right, y + half * up);
        at /= 4;
        half *= 2;
    }
    [x, y]
}
