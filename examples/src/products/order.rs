//! The order in which a persistent product makes its tiles. What runs at the same time shares rows of A and columns of B in
//! L2, and so should what runs next.

use tilekit::prelude::*;

/// Numbers for the tiles of a product. A program takes every `num_programs`-th, so that neighbours in number run at the same
/// time, a wave of them.
pub trait Order: Copy {
    /// How many tiles there are.
    fn count(self) -> Scalar<i32>;

    /// The row and column of tiles of number `tile`.
    fn place(self, tile: Scalar<i32>) -> [Scalar<i32>; 2];

    /// The tiles of this program.
    fn of_program(self) -> Range<i32> {
        self.of_cluster(1)
    }

    /// Those of this program's cluster of `ctas`.
    fn of_cluster(self, ctas: usize) -> Range<i32> {
        range(program_id(0) / ctas, self.count()).step(num_programs(0) / ctas)
    }
}

/// Groups of some rows of tiles, each column by column. Every other group runs backwards and begins with the columns that the
/// one before ended with. A wave is a square where a group has as many rows of tiles as make half of a wave's elements.
#[derive(Clone, Copy, Aggregate)]
pub struct Grouped {
    rows: Scalar<i32>,
    columns: Scalar<i32>,
    group: usize,
}

impl Grouped {
    /// The tiles of `block` elements that cover `m` by `n`.
    #[device]
    pub fn new([m, n]: [Scalar<i32>; 2], block: [usize; 2], group: usize) -> Self {
        Grouped {
            rows: cdiv(m, block[0]),
            columns: cdiv(n, block[1]),
            group,
        }
    }
}

impl Order for Grouped {
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

impl Order for Listed {
    fn count(self) -> Scalar<i32> {
        self.count
    }

    fn place(self, tile: Scalar<i32>) -> [Scalar<i32>; 2] {
        let place = self.list.at(tile).load();
        [place >> 16, place & 0xffff]
    }
}

/// The tiles of a grid of `rows` by `columns` along a Hilbert curve, for [`Listed`]. Any run of it stays close together, and
/// so do runs that follow each other.
///
/// # Panics
/// For more than 32767 rows or 65535 columns, which an entry does not hold.
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
