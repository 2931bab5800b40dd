//! Which kernel computes a product, in how many CTAs: chosen by a model of its time.
//!
//! The model counts cycles of one multiprocessor. Its constants are least squares over measured products on an H200
//! (`bench/results/products.md`); below 3 % it does not tell two plans apart.

use std::fmt;

use super::many_tiles::{BK, INSTRUCTION_ROWS};

/// Multiprocessors of an H200, for which the model is fitted.
pub const MULTIPROCESSORS: usize = 132;

/// A kernel of this module, by what its const generics are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instance {
    /// [`many_tiles`](super::many_tiles::many_tiles): tiles of `[groups * rows, columns]`.
    Many {
        /// Consumer warpgroups.
        groups: usize,
        /// Rows of each.
        rows: usize,
        /// Columns of a tile.
        columns: usize,
    },
    /// [`few_tiles`](super::few_tiles::few_tiles): tiles of `[groups * 64, columns]`, each of `ctas` CTAs along K.
    Few {
        /// CTAs of a cluster.
        ctas: usize,
        /// Consumer warpgroups.
        groups: usize,
        /// Columns of a tile.
        columns: usize,
        /// A and B are exchanged: rows of the tile are columns of C.
        turned: bool,
    },
}

/// All instances, in the order in which a benchmark names them, from 1.
pub const INSTANCES: [Instance; 38] = {
    let mut all = [many(2, 64, 256); 38];
    let tiles = [
        many(2, 64, 256),
        many(3, 64, 192),
        many(2, 128, 160),
        many(2, 64, 192),
        many(3, 64, 176),
        many(2, 64, 128),
    ];
    let mut at = 0;
    while at < tiles.len() {
        all[at] = tiles[at];
        at += 1;
    }
    let tiles = [
        (1, 16, true),
        (1, 32, true),
        (1, 64, true),
        (1, 16, false),
        (1, 32, false),
        (1, 64, false),
        (1, 128, false),
        (2, 128, false),
    ];
    let mut tile = 0;
    while tile < tiles.len() {
        let mut ctas = 1;
        while ctas <= 8 {
            let (groups, columns, turned) = tiles[tile];
            all[at] = Instance::Few {
                ctas,
                groups,
                columns,
                turned,
            };
            at += 1;
            ctas *= 2;
        }
        tile += 1;
    }
    all
};

const fn many(groups: usize, rows: usize, columns: usize) -> Instance {
    Instance::Many {
        groups,
        rows,
        columns,
    }
}

/// A way to compute one product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Which kernel.
    pub instance: Instance,
    /// The grid, in CTAs.
    pub grid: [usize; 2],
    /// The predicted time.
    pub microseconds: f64,
}

impl Plan {
    /// The plan of an instance for `C[m, n] = A[m, k] · B[n, k]ᵀ`.
    pub fn of(instance: Instance, [m, n, k]: [usize; 3]) -> Plan {
        let size = [m, n, k];
        match instance {
            Instance::Many {
                groups,
                rows,
                columns,
            } => {
                let tiles = m.div_ceil(groups * rows) * n.div_ceil(columns);
                // The fewest programs with as many waves: those that idle in the last one lower the clock of the others.
                let waves = tiles.div_ceil(MULTIPROCESSORS);
                let programs = tiles.div_ceil(waves.max(1));
                Plan {
                    instance,
                    grid: [programs, 1],
                    microseconds: many_microseconds(
                        [groups * rows, columns],
                        programs,
                        waves,
                        size,
                    ),
                }
            }
            Instance::Few {
                ctas,
                groups,
                columns,
                turned,
            } => {
                let (rows, columns_of_c) = if turned { (n, m) } else { (m, n) };
                let grid = [
                    rows.div_ceil(groups * INSTRUCTION_ROWS) * ctas,
                    columns_of_c.div_ceil(columns),
                ];
                Plan {
                    instance,
                    grid,
                    microseconds: few_microseconds(groups, columns, ctas, grid, size),
                }
            }
        }
    }

    /// The plan of every instance for `C[m, n] = A[m, k] · B[n, k]ᵀ`, that with the least time first.
    pub fn all(size: [usize; 3]) -> Vec<Plan> {
        let mut plans = INSTANCES.map(|instance| Plan::of(instance, size)).to_vec();
        plans.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
        plans
    }

    /// The plan with the least time for `C[m, n] = A[m, k] · B[n, k]ᵀ`, the first of equal ones.
    pub fn best(size: [usize; 3]) -> Plan {
        let plans = INSTANCES.map(|instance| Plan::of(instance, size));
        let [first, others @ ..] = plans;
        others.into_iter().fold(first, |best, plan| {
            if plan.microseconds < best.microseconds {
                plan
            } else {
                best
            }
        })
    }
}

/// Cycles of a step of 64 along K of one tile, where shared memory is not the limit.
fn step_cycles([rows, columns]: [usize; 2]) -> f64 {
    let (rows, columns) = (rows as f64, columns as f64);
    // Bytes of shared memory a cycle that products at their full rate would take, of which there are 128.
    let wanted = 64.0 + 4096.0 / columns + 4096.0 * (1.0 / rows + 1.0 / columns);
    let few_rows = if rows <= 64.0 { 1.05 } else { 1.0 };
    rows * columns / 32.0 * 1.032 * (wanted / 128.0).max(1.0).powf(0.45) * few_rows
}

/// Microseconds that memory takes at least: DRAM, and L2.
fn memory_microseconds([m, n, k]: [usize; 3], l2_bytes: f64) -> f64 {
    let bytes = 2.0 * (m * k + n * k + m * n) as f64;
    (bytes / 4.25e6 + 3.5).max(l2_bytes / 12.5e6 + 5.0)
}

/// The clock, in cycles a microsecond, at this share of full use of the tensor cores: power sets it.
fn clock(share: f64) -> f64 {
    (1.66e3 * (0.918 / share.max(0.01)).cbrt()).min(1.98e3)
}

fn many_microseconds(
    tile: [usize; 2],
    programs: usize,
    waves: usize,
    [m, n, k]: [usize; 3],
) -> f64 {
    let steps = k.div_ceil(BK) as f64;
    let area = (tile[0] * tile[1]) as f64;
    let step = step_cycles(tile);
    let end = 350.0 + 1270.0 * area / 32768.0;
    let cycles = 10600.0 + waves as f64 * (steps * step + end);
    let use_in_wave = steps * area / 32.0 / (steps * step + end);
    let share = use_in_wave * programs as f64 / MULTIPROCESSORS as f64;
    let tiles = (m.div_ceil(tile[0]) * n.div_ceil(tile[1])) as f64;
    let l2_bytes = tiles * steps * (tile[0] + tile[1]) as f64 * 128.0;
    let time = (cycles / clock(share)).max(memory_microseconds([m, n, k], l2_bytes));
    // TMA loads of boxes that are mostly outside of a matrix are slow: 128x128 for 16 columns took twice as long.
    let is_mostly_outside = 2 * m < tile[0] || 2 * n < tile[1];
    if is_mostly_outside { 2.0 * time } else { time }
}

/// CTAs that run at a time in clusters of `ctas`, one on a multiprocessor: those of a cluster are in one GPC.
fn resident(ctas: usize) -> usize {
    match ctas {
        8 => 112,
        4 => 120,
        _ => MULTIPROCESSORS,
    }
}

fn few_microseconds(
    groups: usize,
    columns: usize,
    ctas: usize,
    grid: [usize; 2],
    size: [usize; 3],
) -> f64 {
    let rows = groups * INSTRUCTION_ROWS;
    let steps = size[2].div_ceil(BK).div_ceil(ctas) as f64;
    let all = grid[0] * grid[1];
    let area = (rows * columns) as f64;
    let stage = (rows + columns) as f64 * 128.0;
    // Stages of narrow tiles leave room for a second CTA.
    let shared = if columns <= 32 { 2 } else { 1 };
    let waves = all.div_ceil(resident(ctas) * shared) as f64;
    // A step takes the products of a tile, its share of the latency of a ring of loads, or the bytes that one CTA gets from L2.
    let alone = if all > resident(ctas) && shared == 2 {
        25.0
    } else {
        36.0
    };
    let step = step_cycles([rows, columns]).max(190.0).max(stage / alone);
    let exchange = if ctas > 1 {
        1500.0 + area * 4.0 / 16.0
    } else {
        200.0 + area / 16.0
    };
    let cycles = 7800.0 + waves * (steps * step + exchange);
    let l2_bytes = all as f64 * steps * stage;
    let memory = memory_microseconds(size, l2_bytes);
    // The exchange begins when the last loads have completed.
    (cycles / 1.9e3).max(memory + exchange / 1.9e3)
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Instance::Many {
                groups,
                rows,
                columns,
            } => write!(f, "{}x{columns}", groups * rows),
            Instance::Few {
                ctas,
                groups,
                columns,
                turned,
            } => {
                let rows = groups * INSTRUCTION_ROWS;
                let turned = if turned { ", A and B exchanged" } else { "" };
                write!(f, "{rows}x{columns} by {ctas} CTAs along K{turned}")
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y] = self.grid;
        write!(
            f,
            "{}, {} CTAs, {:.1} us",
            self.instance,
            x * y,
            self.microseconds
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(size: [usize; 3], expected: &str) {
        let plan = Plan::best(size).to_string();
        assert!(plan.starts_with(expected), "{size:?}: {plan}");
    }

    #[test]
    fn large_products_take_the_largest_tile_and_whole_waves() {
        check([8192, 8192, 8192], "128x256, 128 CTAs");
        check([4096, 4096, 4096], "128x256, 128 CTAs");
        check([5120, 5120, 5120], "256x160, 128 CTAs");
    }

    #[test]
    fn products_of_few_rows_exchange_operands_and_split_k() {
        check(
            [2, 656, 12872],
            "64x16 by 8 CTAs along K, A and B exchanged, 88 CTAs",
        );
        check(
            [16, 4096, 14336],
            "64x16 by 2 CTAs along K, A and B exchanged, 128 CTAs",
        );
    }

    #[test]
    fn every_plan_has_ctas_and_a_finite_time() {
        for size in [[1, 1, 1], [1, 16384, 64], [16384, 1, 8], [7, 9, 16384]] {
            for plan in Plan::all(size) {
                assert!(plan.grid.iter().all(|&ctas| ctas > 0), "{plan}");
                assert!(plan.microseconds.is_finite(), "{plan}");
            }
        }
    }
}
