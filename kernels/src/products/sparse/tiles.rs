//! The tiles of sparse products, and how many stages of them fit.

use std::fmt;

use super::few::{DEPTHS, FewSparse};
use super::layout::{BLOCK_NUMBERS, STRIP, blocks_of_stage};
use super::product::ManySparse;
use crate::products::ending::adders;
use crate::products::factor::STAGE_BYTES;

const fn many([groups, columns, stages]: [usize; 3]) -> ManySparse {
    ManySparse {
        groups,
        columns,
        stages,
    }
}

/// The tiles of persistent products that calls choose from.
pub(super) const MANY: [ManySparse; 5] = [
    many([2, 256, 4]),
    many([3, 192, 5]),
    many([2, 128, 8]),
    many([2, 64, 10]),
    many([1, 128, 8]),
];

const fn few([ctas, groups, parts, columns, stages]: [usize; 5]) -> FewSparse {
    FewSparse {
        ctas,
        groups,
        parts,
        columns,
        stages,
    }
}

/// The tiles of products with few columns that calls choose from: those by which 78 products were faster on an H200, of some 60 (`bench/results/products/sparse.md`).
pub(super) const FEW: [FewSparse; 15] = [
    few([1, 1, 2, 16, 12]),
    few([1, 2, 1, 16, 8]),
    few([2, 1, 2, 16, 12]),
    few([4, 1, 1, 16, 8]),
    few([8, 1, 1, 16, 8]),
    few([1, 1, 2, 32, 10]),
    few([1, 2, 1, 32, 8]),
    few([2, 1, 2, 32, 10]),
    few([4, 1, 1, 32, 6]),
    few([1, 1, 1, 64, 8]),
    few([1, 2, 1, 64, 6]),
    few([2, 1, 1, 64, 7]),
    few([2, 2, 1, 64, 4]),
    few([4, 1, 1, 64, 5]),
    few([8, 1, 1, 64, 5]),
];

/// Room for mbarriers, and what aligns tiles.
const BARRIERS_BYTES: usize = 3072;

/// Bytes of so many strips and columns in 128 bytes of B along K.
fn step_bytes<T>(groups: usize, columns: usize) -> [usize; 2] {
    let places = blocks_of_stage::<T>() * BLOCK_NUMBERS * 2;
    let of_a = groups * (STRIP / 2 * STAGE_BYTES + places);
    [of_a, columns * STAGE_BYTES]
}

impl ManySparse {
    /// The same with as many of its stages as shared memory has room for beside results of so many bytes.
    pub(super) fn fitted<T>(self, result_bytes: usize) -> ManySparse {
        let stage = step_bytes::<T>(self.groups, self.columns)
            .iter()
            .sum::<usize>();
        // Warpgroups store one after the other.
        let others = STRIP * self.columns * result_bytes + BARRIERS_BYTES;
        let room = tilekit::target::SM_90A.cta.shared_bytes as usize - others;
        ManySparse {
            stages: self.stages.min(room / stage),
            ..self
        }
    }
}

/// What sums of a strip take at a time on their way to the order in which results are stored.
const CONVERSION_BYTES: usize = 8192;

impl FewSparse {
    /// Rows and columns.
    pub(super) fn shape(self) -> [usize; 2] {
        [self.groups * STRIP, self.columns]
    }

    /// The same with as many of its stages as shared memory has room for beside sums, a multiple of the parts: a stage is always of the same one, which else would wait for a phase
    /// of its mbarrier while the one before is not complete, and a wait tells but the last two apart.
    pub(super) fn fitted<T>(self) -> FewSparse {
        let room = tilekit::target::SM_90A.cta.shared_bytes as usize - self.others();
        let stage = self.stage_bytes::<T>().iter().sum::<usize>();
        let stages = self.stages.min(room / stage);
        FewSparse {
            stages: stages - stages % self.parts,
            ..self
        }
    }

    /// Bytes of A and of B of a stage.
    pub(super) fn stage_bytes<T>(self) -> [usize; 2] {
        step_bytes::<T>(self.groups, self.columns).map(|bytes| DEPTHS * bytes)
    }

    /// CTAs of a multiprocessor, by its shared memory.
    pub(super) fn resident<T>(self) -> usize {
        let stage = self.stage_bytes::<T>().iter().sum::<usize>();
        let used = self.stages * stage + self.others();
        (tilekit::target::SM_90A.cta.shared_bytes as usize / used).max(1)
    }

    /// What CTAs of a cluster send, and get, or what sums become rows through, and sums of warpgroups that share a strip.
    fn others(self) -> usize {
        let sums = self.groups * STRIP * self.columns * 4;
        let exchanged = if self.ctas > 1 {
            sums + sums * self.ctas / adders(self.columns, self.ctas)
        } else {
            sums.min(self.groups * CONVERSION_BYTES)
        };
        exchanged + (self.parts - 1) * sums + BARRIERS_BYTES
    }

    /// CTAs along rows and columns of C.
    pub(super) fn grid(self, [m, n]: [usize; 2]) -> [usize; 2] {
        let [rows, columns] = self.shape();
        [m.div_ceil(rows) * self.ctas, n.div_ceil(columns)]
    }
}

/// The kernel of a sparse product, and its tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SparseTile {
    /// Few columns: CTAs share the steps along K.
    Few(FewSparse),
    /// Many: persistent.
    Many(ManySparse),
}

impl fmt::Display for SparseTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SparseTile::Few(tile) => {
                let ([rows, columns], ctas) = (tile.shape(), tile.ctas);
                write!(f, "{rows}x{columns} by {ctas} CTAs along K")
            }
            SparseTile::Many(tile) => {
                let [rows, columns] = tile.shape();
                write!(f, "{rows}x{columns}")
            }
        }
    }
}
