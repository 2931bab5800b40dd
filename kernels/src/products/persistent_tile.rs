//! Tiles of persistent kernels of any width.

use std::{fmt, ops};

use tilekit::prelude::*;
use tilekit::target::SM_90A;

use super::dense::PAIR;
use super::factor::{INSTRUCTION_ROWS, MBARRIER_BYTES, STAGE_BYTES, SWIZZLED_ROWS};
use super::persistent::GROUPS;
use super::registers::columns_of_instruction;

/// Sums of a thread, in columns of one instruction, beside which an epilogue has the registers for the addresses of C's rows that it reads of an exchanged result.
const BESIDE_EPILOGUE: usize = 192;

/// Bytes of shared memory beside mbarriers.
const ROOM: usize = SM_90A.cta.shared_bytes as usize - MBARRIER_BYTES;

/// Stages beside results of an instruction of which buffers of pieces leave room for another.
const FEW_STAGES: usize = 3;

/// A tile of [`alternating`](super::alternating::alternating), of one warpgroup, or of [`cooperative`](super::cooperative::cooperative), of two or three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PersistentTile {
    /// Warpgroups that multiply a tile together, 3 at most.
    pub groups: usize,
    /// Instructions along the rows of a warpgroup, of 64 each. Results of one are stored at a time.
    pub instructions: usize,
    /// Columns.
    pub columns: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// Buffers for results of one instruction.
    pub buffers: usize,
    /// Tiles of a cluster along rows and along columns: CTAs whose tiles are beside each other load a share of their rows each and multicast it, and those whose tiles are one above the other the same of their columns.
    pub along: [usize; 2],
    /// A and B are exchanged: rows of the tile are columns of C.
    pub turned: bool,
    /// Those of a tile are every other row of C: the kernel is [`every_other_row`](super::every_other_row::every_other_row).
    pub every_other_row: bool,
}

impl PersistentTile {
    /// Of one warpgroup: instructions, columns, stages and buffers, for CTAs without clusters.
    pub const fn of([instructions, columns, stages, buffers]: [usize; 4]) -> Self {
        PersistentTile {
            groups: 1,
            instructions,
            columns,
            stages,
            buffers,
            along: [1; 2],
            turned: false,
            every_other_row: false,
        }
    }

    /// Of two warpgroups, with as many instructions each.
    pub const fn cooperative(sizes: [usize; 4]) -> Self {
        PersistentTile {
            groups: GROUPS,
            ..PersistentTile::of(sizes)
        }
    }

    /// Of three warpgroups, with an instruction each: columns, stages and buffers.
    pub const fn of_three([columns, stages, buffers]: [usize; 3]) -> Self {
        PersistentTile {
            groups: 3,
            ..PersistentTile::of([1, columns, stages, buffers])
        }
    }

    /// Of so many warpgroups, instructions of each and columns, with as many stages as there is room for beside results of 16 bits of an instruction, and then with as many buffers, of which parts of tiles have them in turn.
    pub fn filled([groups, instructions, columns]: [usize; 3], turned: bool) -> Self {
        let tile = PersistentTile {
            groups,
            turned,
            ..PersistentTile::of([instructions, columns, 0, 1])
        };
        let results = INSTRUCTION_ROWS * columns * size_of::<bf16>();
        let stages = |results: usize| (ROOM - results) / tile.stage_bytes();
        // Three stages wait for L2 where rows of an operand begin between lines.
        let stages = match stages(results) {
            FEW_STAGES => stages(results / tile.pieces()),
            stages => stages,
        };
        let buffers = (ROOM - stages * tile.stage_bytes()) / tile.part_bytes();
        let most = buffers.min(groups * instructions * tile.pieces());
        let divides = |buffers: &usize| tile.parts().is_multiple_of(*buffers);
        let buffers = (1..=most).rev().find(divides).unwrap_or(1);
        PersistentTile {
            stages,
            buffers,
            ..tile
        }
    }

    /// Bytes of a stage.
    const fn stage_bytes(self) -> usize {
        let [rows, columns] = self.loaded();
        (rows + columns) * STAGE_BYTES
    }

    /// Bytes of results of 16 bits that leave at a time.
    const fn part_bytes(self) -> usize {
        INSTRUCTION_ROWS * self.columns_of_piece() * size_of::<bf16>()
    }

    /// Consumer warpgroups of a kernel: those of a tile, or two that take turns.
    pub(super) const fn warpgroups(self) -> usize {
        if self.groups > GROUPS {
            self.groups
        } else {
            GROUPS
        }
    }

    /// Columns of an instruction.
    pub(super) const fn columns_of_instruction(self) -> usize {
        columns_of_instruction(self.warpgroups(), self.columns)
    }

    /// The same of A and B exchanged.
    #[must_use]
    pub const fn exchanged(self) -> Self {
        PersistentTile {
            turned: true,
            ..self
        }
    }

    /// The same of every other row of C.
    #[must_use]
    pub const fn of_every_other_row(self) -> Self {
        PersistentTile {
            every_other_row: true,
            ..self
        }
    }

    /// The same for each CTA of pairs that share columns.
    #[must_use]
    pub const fn by_pairs(self) -> Self {
        self.by_clusters([PAIR, 1])
    }

    /// The same for each CTA of clusters of so many tiles along rows and along columns; with a stage less where shares that are rounded up leave no room for it.
    #[must_use]
    pub const fn by_clusters(self, along: [usize; 2]) -> Self {
        let tile = PersistentTile { along, ..self };
        let bytes = tile.stages * tile.stage_bytes() + tile.buffers * tile.part_bytes();
        PersistentTile {
            stages: tile.stages - if bytes > ROOM { 1 } else { 0 },
            ..tile
        }
    }

    /// Whether registers hold what an epilogue computes beside the sums, which an exchanged tile stores by columns.
    pub(super) fn fits_beside_epilogue(self) -> bool {
        !self.turned || self.instructions * self.columns <= BESIDE_EPILOGUE
    }

    /// Whether the model of times was fitted to such tiles: of one warpgroup and 128 rows, without clusters or by pairs.
    pub(super) fn is_judged_by_model(self) -> bool {
        [self.groups, self.instructions] == [1, 2] && matches!(self.along, [1 | PAIR, 1])
    }

    /// Whether both are the same but for stages and buffers.
    pub(super) fn is_as_large(self, other: Self) -> bool {
        let PersistentTile {
            stages, buffers, ..
        } = self;
        self == PersistentTile {
            stages,
            buffers,
            ..other
        }
    }

    /// CTAs of a cluster.
    pub(crate) const fn ctas(self) -> usize {
        self.along[0] * self.along[1]
    }

    /// Rows and columns.
    pub const fn shape(self) -> [usize; 2] {
        [
            self.groups * self.instructions * INSTRUCTION_ROWS,
            self.columns,
        ]
    }

    /// Rows of X and of Y that a CTA has of a step: as many as a tile, or some that it does not multiply, so that CTAs that share them load as many each, in whole atoms of the swizzle.
    pub const fn loaded(self) -> [usize; 2] {
        let ([rows, columns], [of_rows, of_columns]) = (self.shape(), self.sharing());
        [
            rows.next_multiple_of(of_rows * SWIZZLED_ROWS),
            columns.next_multiple_of(of_columns * SWIZZLED_ROWS),
        ]
    }

    /// Rows of C from one that a tile has to the next, and so how many tiles there are of as many rows.
    pub(super) const fn rows_apart(self) -> usize {
        if self.every_other_row { 2 } else { 1 }
    }

    /// Rows and columns that tiles divide, of results of M by N: of each of the tiles of as many rows.
    pub(super) fn divided(self, [m, n]: [usize; 2]) -> [usize; 2] {
        let m = m.div_ceil(self.rows_apart());
        if self.turned { [n, m] } else { [m, n] }
    }

    /// Tiles of results of M by N, those of a cluster one by one.
    pub(super) fn count(self, size: [usize; 2]) -> usize {
        let size = self.divided(size);
        let tiles = |axis: usize| {
            let tiles = size[axis].div_ceil(self.shape()[axis]);
            tiles.next_multiple_of(self.along[axis])
        };
        self.rows_apart() * tiles(0) * tiles(1)
    }

    /// CTAs that share what a CTA reads of each operand.
    const fn sharing(self) -> [usize; 2] {
        let [along_rows, along_columns] = self.along;
        [along_columns, along_rows]
    }

    /// Rows of X and of Y that a TMA load takes: those outside of a matrix are filled with zeros slower than others are loaded, and boxes that are outside as a whole need not be.
    pub fn boxes(self) -> [usize; 2] {
        let ([rows, columns], [of_rows, of_columns]) = (self.loaded(), self.sharing());
        let halves = 2 * self.groups * self.instructions;
        [
            box_of(rows, [halves, 4, 8], of_rows),
            box_of(columns, [4, 3, 2], of_columns),
        ]
    }

    /// Rows of a tile that a warpgroup multiplies.
    pub(super) fn rows(self, group: usize) -> ops::Range<usize> {
        let rows = self.instructions * INSTRUCTION_ROWS;
        let first = group % self.groups * rows;
        first..first + rows
    }
}

/// Rows of the boxes of an extent: the first of these numbers of boxes of which each of `ctas` has as many, in whole atoms of the swizzle, or one for each CTA.
fn box_of(extent: usize, counts: [usize; 3], ctas: usize) -> usize {
    let divides =
        |count: &usize| count.is_multiple_of(ctas) && extent.is_multiple_of(count * SWIZZLED_ROWS);
    extent / counts.into_iter().find(divides).unwrap_or(ctas)
}

impl fmt::Display for PersistentTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([rows, columns], [x, y]) = (self.shape(), self.along);
        write!(f, "{rows}x{columns}x{}x{}", self.stages, self.buffers)?;
        if self.ctas() > 1 {
            write!(f, "+{x}x{y}_ctas")?;
        }
        f.write_str(if self.turned { "+turned" } else { "" })?;
        f.write_str(if self.every_other_row {
            "+every_other_row"
        } else {
            ""
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products::tiles::{COOPERATIVE, EVERY_OTHER_ROW};

    /// 168 columns are three boxes of 56; 184 columns no multiple of 8 divides.
    #[test]
    fn boxes_are_whole_swizzles_and_each_cta_loads_as_many() {
        let boxes = |tile: PersistentTile| tile.boxes();
        assert_eq!(boxes(PersistentTile::filled([1, 2, 128], false)), [32, 32]);
        assert_eq!(boxes(PersistentTile::filled([1, 2, 168], false)), [32, 56]);
        assert_eq!(boxes(PersistentTile::filled([1, 2, 184], false)), [32, 184]);
        assert_eq!(
            boxes(PersistentTile::filled([1, 3, 112], false).by_pairs()),
            [32, 56]
        );
        let wide = PersistentTile::filled([1, 3, 112], false).by_clusters([2, 4]);
        assert_eq!(boxes(wide), [48, 56]);
        // Of 96 rows, of which a tile has 184.
        let rounded = PersistentTile::filled([1, 2, 184], false).by_pairs();
        assert_eq!(rounded.loaded(), [128, 192]);
        assert_eq!(boxes(rounded), [32, 48]);
        // 160 rows for 152 leave no room for the fourth stage.
        let filled = PersistentTile::filled([2, 2, 152], false);
        assert_eq!([filled, filled.by_pairs()].map(|tile| tile.stages), [4, 3]);
    }

    #[test]
    fn stages_and_buffers_fill_shared_memory() {
        let check = |sizes, turned, expected: [usize; 2]| {
            let tile = PersistentTile::filled(sizes, turned);
            assert_eq!([tile.stages, tile.buffers], expected, "{tile}");
        };
        check([1, 2, 128], false, [6, 2]);
        check([1, 2, 192], false, [5, 1]);
        check([1, 3, 112], false, [5, 2]);
        check([1, 3, 128], false, [5, 1]);
        check([2, 2, 152], false, [4, 1]);
        // Buffers of half the columns.
        check([2, 1, 256], false, [4, 2]);
        // A fourth stage beside one of them.
        check([2, 2, 160], false, [4, 1]);
        check([2, 1, 288], true, [4, 1]);
        check([3, 1, 160], false, [4, 3]);
        // 104 columns of C do not end at sectors; as many rows of it may.
        check([3, 1, 208], false, [4, 1]);
        check([3, 1, 208], true, [4, 2]);
    }

    #[test]
    fn listed_cooperative_tiles_fill_shared_memory() {
        let of_all_rows = EVERY_OTHER_ROW.iter().filter(|tile| tile.groups > 1);
        for &tile in COOPERATIVE.iter().chain(of_all_rows) {
            let sizes = [tile.groups, tile.instructions, tile.columns];
            let filled = PersistentTile {
                every_other_row: tile.every_other_row,
                ..PersistentTile::filled(sizes, tile.turned).by_clusters(tile.along)
            };
            assert_eq!(tile, filled);
        }
    }
}
