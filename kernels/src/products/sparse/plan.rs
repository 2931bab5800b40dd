//! Which tile computes a sparse product, in how many CTAs.

use std::fmt;

use super::few::{DEPTHS, FewSparse};
use super::layout::kept;
use super::product::ManySparse;
use super::tiles::{FEW, MANY, SparseTile};
use crate::products::factor::{MULTIPROCESSORS, depth};
use crate::products::plan::{FILLED_BY_FEW, FILLED_BY_MANY, resident};

/// How a sparse product is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SparsePlan {
    /// Its tile.
    pub tile: SparseTile,
    /// The grid, in CTAs.
    pub grid: [usize; 2],
    /// The predicted time.
    pub microseconds: f64,
}

/// Cycles of a step of 128 bytes of K of B of a persistent product.
fn many_step(tile: ManySparse) -> f64 {
    let step = 202.0 + 1.169 * (tile.groups * tile.columns) as f64;
    if tile.groups > 2 { 1.04 * step } else { step }
}

/// Cycles of a stage of a product of few columns, `shared` of whose CTAs a multiprocessor has: a warpgroup waits for its products, and all of them share the tensor cores.
fn few_stage(tile: FewSparse, shared: usize) -> f64 {
    let columns = tile.columns as f64;
    let alone = (320.0 + 1.737 * columns) / tile.parts as f64;
    let products = (shared * tile.groups) as f64 * (6.58 + 4.384 * columns);
    alone.max(products)
}

/// Cycles of a tile beside its steps, of persistent products and of others.
const MANY_CYCLES: f64 = 419.0;
const FEW_CYCLES: f64 = 2650.0;

/// Microseconds of a launch beside its tiles, of both.
const MANY_LAUNCH: f64 = 3.149;
const FEW_LAUNCH: f64 = 1.014;

/// Cycles a microsecond.
const CLOCK: f64 = 1.9e3;

/// Bytes a microsecond from memory, of both, and from L2. All of these are fitted to 1118 pairs of product and tile on an H200 (`bench/results/products/sparse.md`).
const DRAM_OF_MANY: f64 = 4.533e6;
const DRAM_OF_FEW: f64 = 4.428e6;
const L2: f64 = 5.857e6;

/// Of the bytes of B that CTAs of few columns load, those that L2 is asked for: CTAs of a GPC read the same ones at about the same time.
const ASKED_OF_B: f64 = 0.428;

impl SparsePlan {
    /// The plan for operands of type `T` of this M, N, K, none of them 0, and results of so many bytes. Of B along N columns are whole blocks of TMA loads.
    pub fn best<T>(size: [usize; 3], result_bytes: usize, b_along_n: bool) -> SparsePlan {
        let is_able = |columns: usize| !b_along_n || columns.is_multiple_of(64);
        let of_many = MANY.iter().filter(|tile| is_able(tile.columns));
        let of_many = of_many.map(|tile| tile.fitted::<T>(result_bytes));
        let of_many = of_many
            .filter(|tile| tile.stages >= 3)
            .map(|tile| SparsePlan::many::<T>(tile, size, result_bytes));
        let of_few = FEW.iter().filter(|tile| is_able(tile.columns));
        let of_few = of_few
            .map(|tile| tile.fitted::<T>())
            .map(|tile| SparsePlan::few::<T>(tile, size, result_bytes))
            .filter(|plan| plan.grid[1] <= tilekit::target::SM_90A.grid[1] as usize);
        let better = |best: SparsePlan, plan: SparsePlan| {
            if plan.microseconds < best.microseconds {
                plan
            } else {
                best
            }
        };
        of_many
            .chain(of_few)
            .reduce(better)
            .expect("the tile of 64 columns fits any types")
    }

    /// The plan of a tile.
    pub(super) fn of<T>(tile: SparseTile, size: [usize; 3], result_bytes: usize) -> SparsePlan {
        match tile {
            SparseTile::Few(tile) => SparsePlan::few::<T>(tile, size, result_bytes),
            SparseTile::Many(tile) => SparsePlan::many::<T>(tile, size, result_bytes),
        }
    }

    fn many<T>(tile: ManySparse, size: [usize; 3], result_bytes: usize) -> SparsePlan {
        let [m, n, k] = size;
        let [rows, columns] = tile.shape();
        let tiles = m.div_ceil(rows) * n.div_ceil(columns);
        // The fewest programs with as many waves.
        let waves = tiles.div_ceil(MULTIPROCESSORS).max(1);
        let programs = tiles.div_ceil(waves);
        let steps = k.div_ceil(depth::<T>()) as f64;
        let cycles = waves as f64 * (steps * many_step(tile) + MANY_CYCLES);
        let parts = [
            cycles / CLOCK,
            bytes::<T>(size, result_bytes) / DRAM_OF_MANY,
            rows_outside::<T>(tile.shape(), size) / FILLED_BY_MANY,
        ];
        SparsePlan {
            tile: SparseTile::Many(tile),
            grid: [programs, 1],
            microseconds: MANY_LAUNCH + together(&parts),
        }
    }

    fn few<T>(tile: FewSparse, size: [usize; 3], result_bytes: usize) -> SparsePlan {
        let [m, n, k] = size;
        let grid = tile.grid([m, n]);
        let all: usize = grid.iter().product();
        let at_a_time = resident(tile.ctas);
        let waves = all.div_ceil(at_a_time * tile.resident::<T>());
        let stages = k.div_ceil(DEPTHS * depth::<T>()).div_ceil(tile.ctas) as f64;
        let stage = few_stage(tile, all.div_ceil(at_a_time * waves));
        let exchange = if tile.ctas > 1 {
            91.0 + 23.02 * (tile.groups * tile.columns) as f64
        } else {
            0.0
        };
        let [of_a, of_b] = tile.stage_bytes::<T>().map(|bytes| bytes as f64);
        let parts = [
            waves as f64 * (stages * stage + FEW_CYCLES + exchange) / CLOCK,
            bytes::<T>(size, result_bytes) / DRAM_OF_FEW,
            all as f64 * stages * (of_a + ASKED_OF_B * of_b) / L2,
            rows_outside::<T>(tile.shape(), size) / FILLED_BY_FEW,
        ];
        SparsePlan {
            tile: SparseTile::Few(tile),
            grid,
            microseconds: FEW_LAUNCH + together(&parts),
        }
    }
}

/// Microseconds of what each takes so long by itself: more than the longest, by which of them they do not overlap.
fn together(parts: &[f64]) -> f64 {
    parts.iter().map(|part| part.powi(3)).sum::<f64>().cbrt()
}

/// Bytes of a product: kept elements and where they were, B, C.
fn bytes<T>([m, n, k]: [usize; 3], result_bytes: usize) -> f64 {
    let of_operands = size_of::<T>();
    let bytes = m * kept(k) * of_operands + m * k / 8 + n * k * of_operands;
    (bytes + m * n * result_bytes) as f64
}

/// Rows outside of A and of B that tiles load in all their steps.
fn rows_outside<T>([rows, columns]: [usize; 2], [m, n, k]: [usize; 3]) -> f64 {
    let below = (m.next_multiple_of(rows) - m) * n.div_ceil(columns);
    let beside = (n.next_multiple_of(columns) - n) * m.div_ceil(rows);
    ((below + beside) * k.div_ceil(depth::<T>())) as f64
}

impl fmt::Display for SparsePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SparsePlan {
            tile,
            grid,
            microseconds,
        } = self;
        let all: usize = grid.iter().product();
        write!(f, "2:4 of {tile}, {all} CTAs, {microseconds:.1} us")
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
    fn check<T>(size: [usize; 3], tile: &str) {
        let plan = SparsePlan::best::<T>(size, 2, false);
        assert_eq!(plan.tile.to_string(), tile, "{size:?}: {plan}");
    }

    /// The fastest of those that an H200 was asked about, or nearly (`bench/results/products/sparse.md`).
    #[test]
    fn tiles_are_those_that_were_the_fastest() {
        check::<bf16>([8192, 8192, 8192], "128x256");
        check::<bf16>([4096, 4096, 4096], "128x256");
        check::<bf16>([20880, 232, 1280], "128x128");
        check::<bf16>([4096, 16, 14336], "64x16 by 2 CTAs along K");
        check::<bf16>([8192, 16, 8192], "64x16 by 1 CTAs along K");
        check::<bf16>([512, 64, 8192], "64x64 by 8 CTAs along K");
        check::<bf16>([4096, 64, 14336], "64x64 by 2 CTAs along K");
        check::<E4m3>([8192, 8192, 8192], "128x256");
        check::<E4m3>([64, 16, 8192], "64x16 by 8 CTAs along K");
    }
}
