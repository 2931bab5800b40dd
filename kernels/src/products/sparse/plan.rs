//! Which tile computes a sparse product, in how many CTAs.

use std::fmt;

use super::layout::{BLOCK_NUMBERS, STRIP, blocks_of_stage, kept};
use super::product::SparseTile;
use crate::products::factor::{STAGE_BYTES, depth};
use crate::products::plan::MULTIPROCESSORS;

const fn tile([groups, columns, stages]: [usize; 3]) -> SparseTile {
    SparseTile {
        groups,
        columns,
        stages,
    }
}

/// The tiles that calls choose from.
pub const TILES: [SparseTile; 8] = [
    tile([2, 256, 4]),
    tile([3, 192, 5]),
    tile([2, 128, 8]),
    tile([2, 64, 10]),
    tile([1, 128, 8]),
    tile([1, 64, 12]),
    tile([1, 32, 16]),
    tile([1, 16, 24]),
];

/// Room for mbarriers, and what aligns tiles.
const BARRIERS_BYTES: usize = 3072;

impl SparseTile {
    /// The same with as many of its stages as shared memory has room for beside results of so many bytes.
    pub(super) fn fitted<T>(self, result_bytes: usize) -> SparseTile {
        let [rows, columns] = self.shape();
        let places = self.groups * blocks_of_stage::<T>() * BLOCK_NUMBERS * 2;
        let stage = (rows / 2 + columns) * STAGE_BYTES + places;
        // Warpgroups store one after the other.
        let others = STRIP * columns * result_bytes + BARRIERS_BYTES;
        let room = tilekit::target::SM_90A.cta.shared_bytes as usize - others;
        SparseTile {
            stages: self.stages.min(room / stage),
            ..self
        }
    }
}

/// How a sparse product is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SparsePlan {
    /// Its tile.
    pub tile: SparseTile,
    /// The grid, in CTAs.
    pub programs: usize,
    /// The predicted time.
    pub microseconds: f64,
}

/// Cycles of a tile beside those of its stages.
const TILE_CYCLES: f64 = 1600.0;
/// Cycles from a launch to its first product, and from the last one to its end.
const LAUNCH_CYCLES: f64 = 9000.0;

/// Cycles of a stage, of 128 bytes of K of B, fitted to what 16- and 8-bit floats took on an H100 by all of these tiles: the wait of a warpgroup for its products, which is shorter for few columns, and what all of
/// them take of shared memory.
fn step_cycles(tile: SparseTile) -> f64 {
    let columns = tile.columns as f64;
    let wait = (170.0 + 1.9 * columns).min(380.0);
    let step = wait + 0.53 * tile.groups as f64 * columns;
    if tile.groups > 2 { 1.28 * step } else { step }
}

impl SparsePlan {
    /// The plan for operands of type `T` of this M, N, K, none of them 0, and results of so many bytes. Of B along N columns are whole blocks of TMA loads.
    pub fn best<T>(size: [usize; 3], result_bytes: usize, b_along_n: bool) -> SparsePlan {
        let able = TILES
            .iter()
            .filter(|tile| !b_along_n || tile.columns.is_multiple_of(64));
        let fitted = able.map(|tile| tile.fitted::<T>(result_bytes));
        let plans = fitted
            .filter(|tile| tile.stages >= 3)
            .map(|tile| SparsePlan::of::<T>(tile, size, result_bytes));
        let better = |best: SparsePlan, plan: SparsePlan| {
            if plan.microseconds < best.microseconds {
                plan
            } else {
                best
            }
        };
        plans
            .reduce(better)
            .expect("the tile of 64 columns fits any types")
    }

    /// The plan of a tile.
    pub(super) fn of<T>(
        tile: SparseTile,
        [m, n, k]: [usize; 3],
        result_bytes: usize,
    ) -> SparsePlan {
        let [rows, columns] = tile.shape();
        let tiles = m.div_ceil(rows) * n.div_ceil(columns);
        // The fewest programs with as many waves.
        let waves = tiles.div_ceil(MULTIPROCESSORS).max(1);
        let programs = tiles.div_ceil(waves);
        let steps = k.div_ceil(depth::<T>()) as f64;
        let step = step_cycles(tile);
        let cycles = LAUNCH_CYCLES + waves as f64 * (steps * step + TILE_CYCLES);
        let of_operands = size_of::<T>();
        let bytes = m * kept(k) * of_operands + m * k / 8 + n * k * of_operands;
        let bytes = (bytes + m * n * result_bytes) as f64;
        SparsePlan {
            tile,
            programs,
            microseconds: (cycles / 1.6e3).max(bytes / 4.25e6 + 3.5),
        }
    }
}

impl fmt::Display for SparsePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, columns] = self.tile.shape();
        write!(
            f,
            "2:4 of {rows}x{columns}, {} CTAs, {:.1} us",
            self.programs, self.microseconds
        )
    }
}

/// How a call computes its product.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseCallPlan {
    /// The tile and its grid; none where there is nothing to multiply.
    pub product: Option<SparsePlan>,
    /// The transpose of C is stored, since C lies column by column.
    pub is_turned: bool,
    /// What is copied, and why.
    pub copies: Vec<String>,
}

impl fmt::Display for SparseCallPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.product {
            Some(plan) => write!(f, "{plan}")?,
            None => write!(f, "no product")?,
        }
        if self.is_turned {
            write!(f, "; stored as the transpose")?;
        }
        self.copies
            .iter()
            .try_for_each(|copy| write!(f, "; {copy}"))
    }
}

#[cfg(test)]
mod tests {
    use tilekit::prelude::*;

    use super::*;

    #[track_caller]
    fn check<T>(size: [usize; 3], shape: [usize; 2]) {
        let plan = SparsePlan::best::<T>(size, 2, false);
        assert_eq!(plan.tile.shape(), shape, "{size:?}: {plan}");
    }

    /// The fastest of those that an H100 was asked about (`bench/results/products.md`).
    #[test]
    fn tiles_are_those_that_were_the_fastest() {
        check::<bf16>([8192, 8192, 8192], [128, 256]);
        check::<bf16>([4096, 4096, 4096], [128, 256]);
        check::<bf16>([4096, 16, 14336], [64, 16]);
        check::<bf16>([8192, 64, 8192], [64, 64]);
        check::<E4m3>([8192, 8192, 8192], [128, 256]);
        check::<E4m3>([8192, 64, 8192], [64, 64]);
    }
}
