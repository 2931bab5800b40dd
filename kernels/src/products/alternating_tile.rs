//! Tiles of products whose warpgroups take turns.

use std::fmt;

use tilekit::prelude::*;
use tilekit::target::SM_90A;

use super::dense::PAIR;
use super::factor::{INSTRUCTION_ROWS, STAGE_BYTES, SWIZZLED_ROWS};

/// Bytes that mbarriers take at most.
const MBARRIER_BYTES: usize = 1024;

/// Sums of a thread, in columns of one instruction, beside which an epilogue has the registers for the addresses of C's rows that it reads of an exchanged result.
const BESIDE_EPILOGUE: usize = 192;

/// A tile of [`alternating`](super::alternating::alternating) of one warpgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AlternatingTile {
    /// Instructions along the rows, of 64 each. Results of one are stored at a time.
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
}

impl AlternatingTile {
    /// Of instructions, columns, stages and buffers, for CTAs without clusters.
    pub const fn of([instructions, columns, stages, buffers]: [usize; 4]) -> Self {
        AlternatingTile {
            instructions,
            columns,
            stages,
            buffers,
            along: [1; 2],
            turned: false,
        }
    }

    /// Of so many instructions and columns, with as many stages as there is room for beside a buffer for results of 16 bits, and then with as many buffers.
    pub fn filled(instructions: usize, columns: usize) -> Self {
        let room = SM_90A.cta.shared_bytes as usize - MBARRIER_BYTES;
        let stage = (instructions * INSTRUCTION_ROWS + columns) * STAGE_BYTES;
        let buffer = INSTRUCTION_ROWS * columns * size_of::<bf16>();
        let stages = (room - buffer) / stage;
        let buffers = ((room - stages * stage) / buffer).min(instructions);
        AlternatingTile::of([instructions, columns, stages, buffers])
    }

    /// The same of A and B exchanged.
    #[must_use]
    pub const fn exchanged(self) -> Self {
        AlternatingTile {
            turned: true,
            ..self
        }
    }

    /// The same for each CTA of pairs that share columns.
    #[must_use]
    pub const fn by_pairs(self) -> Self {
        self.by_clusters([PAIR, 1])
    }

    /// The same for each CTA of clusters of so many tiles along rows and along columns.
    #[must_use]
    pub const fn by_clusters(self, along: [usize; 2]) -> Self {
        AlternatingTile { along, ..self }
    }

    /// The same beside an epilogue, of fewer sums if its registers need it; programs of a grid for fewer tiles take more of them each.
    pub(crate) fn fitted_beside(self, is_plain: bool) -> Self {
        if is_plain || !self.turned || self.instructions * self.columns <= BESIDE_EPILOGUE {
            return self;
        }
        AlternatingTile {
            instructions: 2,
            columns: 96,
            stages: 7,
            buffers: 2,
            ..self
        }
    }

    /// Whether the model of times was fitted to such tiles: of 128 rows, without clusters or by pairs.
    pub(super) fn is_judged_by_model(self) -> bool {
        self.instructions == 2 && matches!(self.along, [1 | PAIR, 1])
    }

    /// Whether both are the same but for stages and buffers.
    pub(super) fn is_as_large(self, other: Self) -> bool {
        let AlternatingTile {
            stages, buffers, ..
        } = self;
        self == AlternatingTile {
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
    pub fn shape(self) -> [usize; 2] {
        [self.instructions * INSTRUCTION_ROWS, self.columns]
    }

    /// Tiles of results of M by N, those of a cluster one by one.
    pub(super) fn count(self, [m, n]: [usize; 2]) -> usize {
        let size = if self.turned { [n, m] } else { [m, n] };
        let tiles = |axis: usize| {
            let tiles = size[axis].div_ceil(self.shape()[axis]);
            tiles.next_multiple_of(self.along[axis])
        };
        tiles(0) * tiles(1)
    }

    /// CTAs that share what a CTA reads of each operand.
    fn sharing(self) -> [usize; 2] {
        let [along_rows, along_columns] = self.along;
        [along_columns, along_rows]
    }

    /// Whether CTAs of a cluster load as many rows of each operand, in whole atoms of the swizzle.
    pub(super) fn is_divided(self) -> bool {
        let extents = self.shape().into_iter().zip(self.sharing());
        extents
            .into_iter()
            .all(|(extent, ctas)| extent.is_multiple_of(ctas * SWIZZLED_ROWS))
    }

    /// Rows of X and of Y that a TMA load takes: those outside of a matrix are filled with zeros slower than others are loaded, and boxes that are outside as a whole need not be.
    pub fn boxes(self) -> [usize; 2] {
        let ([rows, columns], [of_rows, of_columns]) = (self.shape(), self.sharing());
        let halves = 2 * self.instructions;
        [
            box_of(rows, [halves, 4, 8], of_rows),
            box_of(columns, [4, 3, 2], of_columns),
        ]
    }

    /// Rows and columns of C that leave at a time.
    pub fn stored(self) -> [usize; 2] {
        if self.turned {
            [self.columns, INSTRUCTION_ROWS]
        } else {
            [INSTRUCTION_ROWS, self.columns]
        }
    }

    /// Where the results of an instruction begin in C, of a tile that begins at `row` and `column`.
    #[track_caller]
    pub(super) fn place(self, number: usize, [row, column]: [Scalar<i32>; 2]) -> [Scalar<i32>; 2] {
        let row = row + number * INSTRUCTION_ROWS;
        if self.turned {
            [column, row]
        } else {
            [row, column]
        }
    }
}

/// Rows of the boxes of an extent: the first of these numbers of boxes of which each of `ctas` has as many, in whole atoms of the swizzle, or one for each CTA.
fn box_of(extent: usize, counts: [usize; 3], ctas: usize) -> usize {
    let divides =
        |count: &usize| count.is_multiple_of(ctas) && extent.is_multiple_of(count * SWIZZLED_ROWS);
    extent / counts.into_iter().find(divides).unwrap_or(ctas)
}

impl fmt::Display for AlternatingTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([rows, columns], [x, y]) = (self.shape(), self.along);
        write!(f, "{rows}x{columns}x{}x{}", self.stages, self.buffers)?;
        if self.ctas() > 1 {
            write!(f, "+{x}x{y}_ctas")?;
        }
        f.write_str(if self.turned { "+turned" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 168 columns are three boxes of 56; 184 columns no multiple of 8 divides.
    #[test]
    fn boxes_are_whole_swizzles_and_each_cta_loads_as_many() {
        let boxes = |tile: AlternatingTile| tile.boxes();
        assert_eq!(boxes(AlternatingTile::filled(2, 128)), [32, 32]);
        assert_eq!(boxes(AlternatingTile::filled(2, 168)), [32, 56]);
        assert_eq!(boxes(AlternatingTile::filled(2, 184)), [32, 184]);
        assert_eq!(boxes(AlternatingTile::filled(3, 112).by_pairs()), [32, 56]);
        let wide = AlternatingTile::filled(3, 112).by_clusters([2, 4]);
        assert_eq!(boxes(wide), [48, 56]);
        assert!(wide.is_divided());
        assert!(!AlternatingTile::filled(2, 184).by_pairs().is_divided());
    }

    #[test]
    fn stages_and_buffers_fill_shared_memory() {
        let filled = |instructions, columns| {
            let AlternatingTile {
                stages, buffers, ..
            } = AlternatingTile::filled(instructions, columns);
            [stages, buffers]
        };
        assert_eq!(filled(2, 128), [6, 2]);
        assert_eq!(filled(2, 192), [5, 1]);
        assert_eq!(filled(3, 112), [5, 2]);
        assert_eq!(filled(3, 128), [5, 1]);
    }
}
