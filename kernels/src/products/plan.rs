//! A kernel that computes a product, in how many CTAs, and its time by a model (`times.rs`). Which one is taken: `candidates.rs`.

use std::fmt;

use super::dense::ManyTile;
use super::division::Division;
use super::factor::INSTRUCTION_ROWS;
pub use super::factor::MULTIPROCESSORS;
use super::few_tiles::FewTile;
use super::instances::Instance;
use super::loose_times::{any_microseconds, copied_microseconds, copy_microseconds};
use super::need::Need;
use super::persistent_tile::PersistentTile;
use super::precise::PreciseTile;
use super::raster;
use super::same_lines;
use super::split_k::SplitTile;
pub(crate) use super::times::{
    FILLED_BY_FEW, FILLED_BY_MANY, clock, resident, step_cycles, together,
};
use super::times::{
    cluster_microseconds, few_microseconds, many_microseconds, persistent_microseconds,
    precise_microseconds, wave_microseconds,
};

/// A way to compute one product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Which kernel.
    pub instance: Instance,
    /// The grid, in CTAs.
    pub grid: [usize; 3],
    /// The predicted time.
    pub microseconds: f64,
}

impl Plan {
    /// The plan of an instance, which is fitted to what is needed. Its time is what the model says of what bounds it.
    pub fn of(instance: Instance, need: &Need) -> Plan {
        let plan = same_lines::beside_others(Plan::of_maps(instance, need), need);
        let copies = match instance {
            Instance::Any(_) | Instance::Copied(_) => 0.0,
            _ => copy_microseconds(instance.stores_by_tma(), need),
        };
        Plan {
            microseconds: plan.microseconds + copies,
            ..plan
        }
    }

    /// The same without the time of copies, and of lines that several CTAs ask for.
    fn of_maps(instance: Instance, need: &Need) -> Plan {
        let [m, n, _] = need.size;
        match instance {
            Instance::Many(tile) => of_many(instance, tile, need),
            Instance::Wave(tile) => of_wave(instance, tile, need),
            Instance::Few(tile) => {
                let shape = [tile.groups * INSTRUCTION_ROWS, tile.columns];
                let grid = in_groups(few_grid(tile, need), shape, tile.ctas);
                Plan {
                    instance,
                    grid,
                    microseconds: few_microseconds(tile, grid, need),
                }
            }
            Instance::Copied(tile) => {
                let grid = few_grid(tile.tile, need);
                Plan {
                    instance,
                    grid,
                    microseconds: copied_microseconds(tile, grid, need),
                }
            }
            Instance::Any(tile) => {
                let [rows, columns] = tile.shape();
                let grid = [m.div_ceil(rows), n.div_ceil(columns), need.batches];
                Plan {
                    instance,
                    grid,
                    microseconds: any_microseconds(tile, grid, need),
                }
            }
            Instance::Persistent(tile) => of_persistent(instance, tile, need),
            Instance::Split(tile) => of_split(instance, tile, need),
            Instance::Precise(tile) => of_precise(instance, tile, need),
            Instance::PreciseParts(tile) => {
                let (divided, microseconds) = Division::precisely(tile, need);
                Plan {
                    instance,
                    grid: [divided.programs(), 1, 1],
                    microseconds,
                }
            }
            Instance::Cluster(tile) => {
                let [along_rows, along_columns] = tile.grid([m, n]);
                let grid = [along_rows, along_columns, 1];
                let grid = in_groups(grid, tile.shape(), tile.ctas());
                Plan {
                    instance,
                    grid,
                    microseconds: cluster_microseconds(tile, grid, need),
                }
            }
        }
    }

    /// The same, if the instance can compute what is needed.
    pub(super) fn by_model(instance: Instance, need: &Need) -> Option<Plan> {
        if !need.is_countable() || need.batches > MOST_ALONG_Y {
            return None;
        }
        if Division::has_one_part(instance, need) {
            return None;
        }
        let plan = Plan::of(instance.fitted(need)?, need);
        let fits = plan.grid[1..].iter().all(|&ctas| ctas <= MOST_ALONG_Y);
        fits.then_some(plan)
    }

    /// How often all multiprocessors are filled with its tiles, the last time perhaps in part: what a time grows by in steps.
    pub(super) fn waves(&self, need: &Need) -> usize {
        self.tiles(need).div_ceil(MULTIPROCESSORS)
    }

    /// Tiles, or parts of them along K, that CTAs compute.
    pub(super) fn tiles(&self, need: &Need) -> usize {
        let [m, n, _] = need.size;
        match self.instance {
            Instance::Many(tile) => {
                let [rows, columns] = tile.shape();
                let along_m = m.div_ceil(rows).next_multiple_of(tile.ctas);
                along_m * n.div_ceil(columns) * need.batches
            }
            Instance::Persistent(tile) => tile.count([m, n]),
            Instance::Precise(tile) => {
                let [along_rows, along_columns] = tile.count([m, n]);
                along_rows * along_columns * need.batches
            }
            Instance::Few(_)
            | Instance::Wave(_)
            | Instance::Any(_)
            | Instance::Cluster(_)
            | Instance::Copied(_) => self.grid.iter().product(),
            Instance::Split(_) | Instance::PreciseParts(_) => self.grid[0],
        }
    }
}

/// A cluster for each tile.
fn few_grid(tile: FewTile, need: &Need) -> [usize; 3] {
    let [m, n, _] = need.size;
    let (rows, columns) = if tile.turned { (n, m) } else { (m, n) };
    [
        rows.div_ceil(tile.groups * INSTRUCTION_ROWS) * tile.ctas,
        columns.div_ceil(tile.columns),
        need.batches,
    ]
}

/// The same grid of a kernel of `ctas` of a cluster that takes rows of tiles in groups, where it has neither clusters nor batches.
fn in_groups([x, y, z]: [usize; 3], shape: [usize; 2], ctas: usize) -> [usize; 3] {
    if ctas == 1 && z == 1 {
        raster::grouped([x, y], shape)
    } else {
        [x, y, z]
    }
}

fn of_many(instance: Instance, tile: ManyTile, need: &Need) -> Plan {
    let ([m, n, _], [rows, columns], ctas) = (need.size, tile.shape(), tile.ctas);
    let tiles = m.div_ceil(ctas * rows) * n.div_ceil(columns) * need.batches;
    // The fewest programs with as many waves: those that idle in the last one lower the clock of the others.
    let waves = tiles.div_ceil(MULTIPROCESSORS / ctas);
    let programs = ctas * tiles.div_ceil(waves.max(1));
    let counts = [programs, waves, ctas * tiles];
    Plan {
        instance,
        grid: [programs, 1, 1],
        microseconds: many_microseconds(([rows, columns], ctas), counts, need),
    }
}

fn of_persistent(instance: Instance, tile: PersistentTile, need: &Need) -> Plan {
    let [m, n, _] = need.size;
    let tiles = tile.count([m, n]);
    let waves = tiles.div_ceil(resident(tile.ctas())).max(1);
    // The fewest programs with as many tiles each.
    let programs = (tiles / tile.ctas()).div_ceil(waves) * tile.ctas();
    Plan {
        instance,
        grid: [programs, 1, 1],
        microseconds: persistent_microseconds(tile, [programs, waves, tiles], need),
    }
}

fn of_split(instance: Instance, tile: SplitTile, need: &Need) -> Plan {
    let (divided, microseconds) = Division::roundly(tile, need);
    Plan {
        instance,
        grid: [divided.programs(), 1, 1],
        microseconds,
    }
}

fn of_precise(instance: Instance, tile: PreciseTile, need: &Need) -> Plan {
    let [m, n, _] = need.size;
    let [along_rows, along_columns] = tile.count([m, n]);
    let of_one = along_rows * along_columns;
    let tiles = of_one * need.batches;
    // The programs of a product of a batch, which have its tiles to themselves.
    let waves = tiles.div_ceil(MULTIPROCESSORS).max(1);
    let programs = of_one.div_ceil(waves);
    Plan {
        instance,
        grid: [programs, 1, need.batches],
        microseconds: precise_microseconds(
            tile,
            [of_one.div_ceil(programs.max(1)), programs],
            need,
        ),
    }
}

fn of_wave(instance: Instance, tile: ManyTile, need: &Need) -> Plan {
    let ([m, n, _], [rows, columns], ctas) = (need.size, tile.shape(), tile.ctas);
    let along_m = m.div_ceil(rows).next_multiple_of(ctas);
    let grid = [along_m, n.div_ceil(columns), need.batches];
    let grid = in_groups(grid, [rows, columns], ctas);
    Plan {
        instance,
        grid,
        microseconds: wave_microseconds(([rows, columns], ctas), grid, need),
    }
}

/// CTAs of a grid along y and along z.
pub(super) const MOST_ALONG_Y: usize = tilekit::target::SM_90A.grid[1] as usize;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ctas: usize = self.grid.iter().product();
        write!(
            f,
            "{}, {ctas} CTAs, {:.1} us",
            self.instance, self.microseconds
        )
    }
}
