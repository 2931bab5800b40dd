//! Tiles of products with scales for blocks.

use std::fmt;

use tilekit::target::SM_90A;

use crate::products::factor::{BLOCK, INSTRUCTION_ROWS};

/// CTAs of a cluster that share something.
pub(super) const PAIR: usize = 2;

/// Bytes of mbarriers and what aligns buffers.
const BESIDES: usize = 1024;

/// A tile: `[groups * rows, columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaledTile {
    /// Consumer warpgroups.
    pub groups: usize,
    /// Rows of each: 64, or 128 one half after the other.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Columns of one instruction.
    pub width: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// How a warpgroup keeps the tensor cores busy while it scales.
    pub overlap: Overlap,
    /// What it loads together with the other CTA of a cluster.
    pub shared: Shared,
}

/// What the two CTAs of a cluster share: each loads half of it and multicasts that to both, so that L2 is asked for it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shared {
    /// Nothing, for CTAs without clusters.
    Nothing,
    /// Rows of A: their tiles are beside each other.
    Rows,
    /// Columns of B: their tiles are one above the other.
    Columns,
}

/// What the tensor cores do while a warpgroup scales and adds their sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Overlap {
    /// They multiply for another warpgroup, as it happens.
    Others,
    /// They multiply for another warpgroup, which begins when this one has multiplied so many of the 128 along K: 0, 64 or 96.
    Turns(usize),
    /// They multiply the next step for the same one, into a second accumulator.
    Ahead,
}

impl ScaledTile {
    /// Rows and columns.
    pub fn shape(self) -> [usize; 2] {
        [self.groups * self.rows, self.columns]
    }

    /// The same with something shared in clusters.
    #[must_use]
    pub const fn sharing(self, shared: Shared) -> Self {
        ScaledTile { shared, ..self }
    }

    /// CTAs of a cluster.
    pub fn ctas(self) -> usize {
        match self.shared {
            Shared::Nothing => 1,
            Shared::Rows | Shared::Columns => PAIR,
        }
    }

    /// Rows and columns of a cluster's tiles together.
    pub(super) fn of_cluster(self) -> [usize; 2] {
        let [rows, columns] = self.shape();
        match self.shared {
            Shared::Nothing => [rows, columns],
            Shared::Rows => [rows, PAIR * columns],
            Shared::Columns => [PAIR * rows, columns],
        }
    }

    /// Rows of A and columns of B that one CTA loads.
    pub(super) fn shares(self) -> [usize; 2] {
        let [rows, columns] = self.shape();
        match self.shared {
            Shared::Nothing => [rows, columns],
            Shared::Rows => [rows / PAIR, columns],
            Shared::Columns => [rows, columns / PAIR],
        }
    }

    /// Columns that certainly share scales of B, wherever a tile begins.
    pub(super) fn chunk(self) -> usize {
        let largest = 1 << self.columns.trailing_zeros();
        largest.min(self.width).min(BLOCK)
    }

    /// Chunks of an instruction's columns.
    pub(super) fn chunks(self) -> usize {
        self.width / self.chunk()
    }

    /// Bytes of a stage.
    fn stage_bytes(self) -> usize {
        let [rows, columns] = self.shape();
        (rows + columns) * BLOCK + rows * size_of::<f32>()
    }

    /// The same with as many of its stages as there is room for beside a whole tile of results of so many bytes an element; none with less than three.
    pub(super) fn fitted(self, result_bytes: usize) -> Option<ScaledTile> {
        let [rows, columns] = self.shape();
        let room = SM_90A.cta.shared_bytes as usize - BESIDES;
        let left = room.checked_sub(rows * columns * result_bytes)?;
        let stages = self.stages.min(left / self.stage_bytes());
        (stages >= 3).then_some(ScaledTile { stages, ..self })
    }

    /// Buffers of results of so many bytes an element: one for each warpgroup, or one in turns.
    pub(super) fn buffers(self, result_bytes: usize) -> usize {
        let room = SM_90A.cta.shared_bytes as usize - BESIDES;
        let left = room.saturating_sub(self.stages * self.stage_bytes());
        let of_all = self.groups * self.rows * self.columns * result_bytes;
        if of_all <= left { self.groups } else { 1 }
    }

    /// Accumulators of one instruction that cover a warpgroup's share: the first row and column of each.
    pub(super) fn parts(self) -> Vec<[usize; 2]> {
        let rows = (0..self.rows).step_by(INSTRUCTION_ROWS);
        let columns = || (0..self.columns).step_by(self.width);
        rows.flat_map(|row| columns().map(move |column| [row, column]))
            .collect()
    }
}

impl fmt::Display for ScaledTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScaledTile {
            groups,
            rows,
            columns,
            width,
            stages,
            overlap,
            shared,
        } = self;
        write!(f, "{groups}x{rows}x{columns}x{stages}")?;
        if width != columns {
            write!(f, "+by{width}")?;
        }
        match overlap {
            Overlap::Others => {}
            Overlap::Turns(after) => write!(f, "+turns{after}")?,
            Overlap::Ahead => write!(f, "+ahead")?,
        }
        f.write_str(match shared {
            Shared::Nothing => "",
            Shared::Rows => "+rows",
            Shared::Columns => "+columns",
        })
    }
}
