//! What leaves of a persistent tile at a time: results of one instruction, or in cooperative tiles a piece of their columns.

use std::ops;

use tilekit::prelude::*;

use super::factor::INSTRUCTION_ROWS;
use super::persistent_tile::PersistentTile;

/// Pieces of results of a row of instructions, at most.
const MOST_PIECES: usize = 4;

/// Columns of the sums and of a piece of them that a thread has registers for, half of one for each.
const MOST_COLUMNS: usize = 456;

/// What leaves at a time.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// The warpgroup.
    pub(super) group: usize,
    /// Its instruction along the rows.
    pub(super) number: usize,
    /// The piece of its columns.
    pub(super) piece: usize,
}

impl PersistentTile {
    /// Pieces of columns in which the results of an instruction leave. Warpgroups that finish together wait less for buffers of pieces; those in turns have the time of a tile. Pieces of rows of C begin at sectors, and those of more than 256 columns fit the registers beside the sums.
    pub(super) const fn pieces(self) -> usize {
        let unit = if self.turned { 8 } else { 16 };
        if self.groups == 1 {
            return 1;
        }
        let most = if self.columns > 256 { MOST_PIECES } else { 3 };
        let mut pieces = 2;
        while pieces <= most {
            let is_whole = self.columns.is_multiple_of(pieces * unit);
            if is_whole && self.columns + self.columns / pieces <= MOST_COLUMNS {
                return pieces;
            }
            pieces += 1;
        }
        1
    }

    /// Whether a thread has registers for sums of the tile and a piece of them.
    pub(super) const fn has_registers(self) -> bool {
        self.columns <= 256 || self.columns + self.columns_of_piece() <= MOST_COLUMNS
    }

    /// Columns of a piece.
    pub(super) const fn columns_of_piece(self) -> usize {
        self.columns / self.pieces()
    }

    /// Parts of results that have buffers in turn: pieces of the instructions of all warpgroups.
    pub(super) const fn parts(self) -> usize {
        self.warpgroups() * self.instructions * self.pieces()
    }

    /// Rows and columns of C that leave at a time.
    pub fn stored(self) -> [usize; 2] {
        let columns = self.columns_of_piece();
        if self.turned {
            [columns, INSTRUCTION_ROWS]
        } else {
            [INSTRUCTION_ROWS, columns]
        }
    }

    /// The turn of a piece of a warpgroup's instruction among those that share buffers: warpgroups that finish at the same time alternate, for one must not wait for all that the other stores.
    pub(super) fn part(
        self,
        Part {
            group,
            number,
            piece,
        }: Part,
    ) -> usize {
        let number = number * self.pieces() + piece;
        if self.groups > 1 {
            number * self.groups + group
        } else {
            group * self.instructions + number
        }
    }

    /// The parts of a warpgroup, in their order.
    pub(super) fn parts_of(self, group: usize) -> impl Iterator<Item = Part> {
        (0..self.instructions).flat_map(move |number| {
            (0..self.pieces()).map(move |piece| Part {
                group,
                number,
                piece,
            })
        })
    }

    /// Rows and columns of a part within its warpgroup's sums.
    pub(super) fn within_sums(self, Part { number, piece, .. }: Part) -> [ops::Range<usize>; 2] {
        let (rows, columns) = (number * INSTRUCTION_ROWS, piece * self.columns_of_piece());
        [
            rows..rows + INSTRUCTION_ROWS,
            columns..columns + self.columns_of_piece(),
        ]
    }

    /// Where the results of a part begin in C, of a tile that begins at `row` and `column`.
    #[track_caller]
    pub(super) fn place(self, part: Part, [row, column]: [Scalar<i32>; 2]) -> [Scalar<i32>; 2] {
        let [rows, columns] = self.within_sums(part);
        let first = self.rows(part.group).start + rows.start;
        let (i, j) = (first, columns.start);
        if self.turned {
            [column + j * self.rows_apart(), row + i]
        } else {
            [row + i * self.rows_apart(), column + j]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warpgroups_that_finish_together_have_buffers_of_their_own() {
        let check = |sizes, expected| {
            let tile = PersistentTile::filled(sizes, false);
            assert_eq!(tile.buffers, expected);
            for group in 0..tile.groups {
                for part in tile.parts_of(group) {
                    assert_eq!(tile.part(part) % tile.groups, group);
                }
            }
        };
        check([2, 2, 128], 4);
        check([3, 1, 160], 3);
    }

    /// A piece of 176 columns beside 352 does not fit, and 352 columns have no more pieces that begin at sectors.
    #[test]
    fn wide_tiles_have_registers_for_a_piece() {
        let check = |columns, turned, expected: Option<usize>| {
            let tile = PersistentTile::filled([2, 1, columns], turned);
            let pieces = tile.has_registers().then_some(tile.pieces());
            assert_eq!(pieces, expected, "{tile}");
        };
        check(256, false, Some(2));
        check(272, true, Some(2));
        check(272, false, None);
        check(320, false, Some(4));
        check(336, false, Some(3));
        check(352, true, Some(4));
        check(352, false, None);
    }

    /// Each element of a tile is of one part, and parts of a tile follow each other in one order.
    #[test]
    fn parts_divide_a_tile() {
        for (sizes, turned) in [
            ([2, 2, 144], false),
            ([3, 1, 120], true),
            ([2, 1, 288], false),
            ([2, 1, 320], true),
            ([2, 1, 336], false),
            ([1, 3, 112], true),
        ] {
            let tile = PersistentTile::filled(sizes, turned);
            let mut elements = vec![0; tile.shape().iter().product()];
            let mut turns = Vec::new();
            for group in 0..tile.warpgroups() {
                for part in tile.parts_of(group) {
                    turns.push(tile.part(part));
                    let [rows, columns] = tile.within_sums(part);
                    let first = tile.rows(group).start;
                    for row in rows.map(|row| first + row) {
                        for column in columns.clone() {
                            elements[row * tile.columns + column] += 1;
                        }
                    }
                }
            }
            turns.sort_unstable();
            assert_eq!(turns, (0..tile.parts()).collect::<Vec<_>>());
            let of_each = tile.warpgroups() / tile.groups;
            assert!(elements.iter().all(|&count| count == of_each), "{tile}");
        }
    }
}
