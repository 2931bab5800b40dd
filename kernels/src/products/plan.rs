//! Which kernel computes a product, in how many CTAs: chosen by a model of its time (`times.rs`).

use std::fmt;

use super::alternating::AlternatingTile;
use super::dense::ManyTile;
use super::division::Division;
use super::even_tiles;
use super::factor::INSTRUCTION_ROWS;
pub use super::factor::MULTIPROCESSORS;
use super::few_tiles::FewTile;
use super::instances::{INSTANCES, Instance};
use super::loose_times::{any_microseconds, copied_microseconds, copy_microseconds};
use super::need::Need;
use super::precise::PreciseTile;
use super::raster;
use super::residual;
use super::same_lines;
use super::split_k::SplitTile;
pub(crate) use super::times::{
    FILLED_BY_FEW, FILLED_BY_MANY, clock, resident, step_cycles, together,
};
use super::times::{
    alternating_microseconds, cluster_microseconds, few_microseconds, many_microseconds,
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
    /// The plan of an instance, which is fitted to what is needed.
    pub fn of(instance: Instance, need: &Need) -> Plan {
        Plan::of_model(instance, need).corrected(need)
    }

    /// The same by what bounds it alone.
    fn of_model(instance: Instance, need: &Need) -> Plan {
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

    /// A plan of the model with what was measured that this misses.
    pub(super) fn corrected(self, need: &Need) -> Plan {
        let factor = residual::factor(&self, need);
        Plan {
            microseconds: self.microseconds * factor,
            ..self
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
            Instance::Alternating(tile) => of_alternating(instance, tile, need),
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

    /// The plan of every instance that can compute it, that with the least time first.
    pub fn all(need: &Need) -> Vec<Plan> {
        let plans = Plan::listed(need).map(|plan| plan.corrected(need));
        let mut plans: Vec<Plan> = plans.collect();
        plans.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
        plans
    }

    /// The same by what bounds them alone, in the order of instances.
    pub(super) fn listed(need: &Need) -> impl Iterator<Item = Plan> {
        let instances = INSTANCES.into_iter();
        instances.filter_map(|instance| Plan::by_model(instance, need))
    }

    /// The plan whose instance is displayed so, listed or not, by what bounds it alone.
    pub fn named(name: &str, need: &Need) -> Option<Plan> {
        let has_name = |plan: &Plan| plan.instance.to_string() == name;
        let unlisted = || Plan::by_model(even_tiles::named(name, need.size)?, need);
        Plan::listed(need).find(has_name).or_else(unlisted)
    }

    /// What `bench/fit/residual.py` fits the difference of measured times to: numbers that say what a plan by the model is; none of kernels whose times are not corrected.
    pub fn inputs(&self, need: &Need) -> Option<Vec<f32>> {
        Some(residual::inputs(self, need)?.to_vec())
    }

    /// The plan with the least time, the first of equal ones; none of what no call needs: extents beyond 2^28, more results than indices of 32 bits count, or more products than a grid has CTAs along z.
    pub fn best(need: &Need) -> Option<Plan> {
        let listed: Vec<Plan> = Plan::listed(need).collect();
        let least = least_microseconds(&listed);
        let fastest = Plan::fastest(listed, need)?;
        Some(even_tiles::faster_than(&fastest, least, need).unwrap_or(fastest))
    }

    /// The fastest of plans of the model, of which those are corrected and compared that are near the one with the least time.
    pub(super) fn fastest(plans: Vec<Plan>, need: &Need) -> Option<Plan> {
        let most = residual::COMPARED * least_microseconds(&plans);
        let near = plans.into_iter().filter(|plan| plan.microseconds <= most);
        let better = |best: Plan, plan: Plan| {
            if plan.microseconds < best.microseconds {
                plan
            } else {
                best
            }
        };
        near.map(|plan| plan.corrected(need)).reduce(better)
    }

    /// What a product is tuned by: every listed instance that can compute it and tiles of no list that are worth it, each with its plan, that with the least time first.
    pub fn candidates(need: &Need) -> Vec<(Instance, Plan)> {
        let instances = INSTANCES.into_iter().chain(even_tiles::worth_tuning(need));
        let planned = |instance| Some((instance, Plan::able(instance, need)?));
        let mut candidates: Vec<_> = instances.filter_map(planned).collect();
        candidates.sort_by(|(_, x), (_, y)| x.microseconds.total_cmp(&y.microseconds));
        candidates
    }

    /// The plan of an instance, if that can compute what is needed.
    pub fn able(instance: Instance, need: &Need) -> Option<Plan> {
        Some(Plan::by_model(instance, need)?.corrected(need))
    }

    /// The same by what bounds it alone.
    pub fn by_model(instance: Instance, need: &Need) -> Option<Plan> {
        if !need.is_countable() || need.batches > MOST_ALONG_Y {
            return None;
        }
        if let Some(tiles) = Division::tiles(instance, need)
            && Division::most(tiles, need.steps()) < 2
        {
            return None;
        }
        let plan = Plan::of_model(instance.fitted(need)?, need);
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
            Instance::Alternating(tile) => tile.count([m, n]),
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

/// The least time of plans.
pub(super) fn least_microseconds(plans: &[Plan]) -> f64 {
    let times = plans.iter().map(|plan| plan.microseconds);
    times.fold(f64::INFINITY, f64::min)
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

fn of_alternating(instance: Instance, tile: AlternatingTile, need: &Need) -> Plan {
    let [m, n, _] = need.size;
    let tiles = tile.count([m, n]);
    let waves = tiles.div_ceil(MULTIPROCESSORS).max(1);
    // The fewest programs with as many tiles each.
    let programs = (tiles / tile.ctas).div_ceil(waves) * tile.ctas;
    Plan {
        instance,
        grid: [programs, 1, 1],
        microseconds: alternating_microseconds(tile, [programs, waves, tiles], need),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products::options::Precision;

    fn best(need: &Need) -> Plan {
        Plan::best(need).expect("a call may need it")
    }

    #[track_caller]
    fn check(size: [usize; 3], expected: &str) {
        let plan = best(&Need::of_16_bits(size)).to_string();
        assert!(plan.starts_with(expected), "{size:?}: {plan}");
    }

    #[test]
    fn large_products_take_the_largest_tile_and_whole_waves() {
        check([8192, 8192, 8192], "128x256, 128 CTAs");
        check([5120, 5120, 5120], "128x224, 132 CTAs");
        check([1472, 4864, 6592], "128x224, 132 CTAs");
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
    fn few_tiles_of_many_steps_are_divided() {
        check([512, 512, 16384], "128x128 in parts along K, 128 CTAs");
        let large = Need::of_16_bits([4096, 4096, 4096]);
        let divided = |plan: &Plan| matches!(plan.instance, Instance::Split(_));
        assert!(!Plan::all(&large).iter().any(divided));
    }

    /// What stores by threads needs no copy.
    #[test]
    fn results_that_end_within_a_unit_are_copied_for_what_stores_by_tma() {
        let whole = Need::of_16_bits([112, 3650, 384]);
        let beside = Need {
            ends_early: true,
            ..whole
        };
        for (whole, beside) in Plan::listed(&whole).zip(Plan::listed(&beside)) {
            let is_copied = beside.microseconds > whole.microseconds;
            assert_eq!(is_copied, whole.instance.stores_by_tma(), "{whole}");
        }
        assert!(!best(&beside).instance.stores_by_tma());
    }

    #[test]
    fn few_rows_and_large_weights_are_computed_by_clusters() {
        check(
            [275, 4336, 7464],
            "192x80 by clusters of 2x4, A and B exchanged, 96 CTAs",
        );
        check([156, 10216, 2760], "192x80 by clusters of 4x2");
        check(
            [848, 992, 5920],
            "64x128 by clusters of 8x1, A and B exchanged",
        );
        check([108, 5128, 3464], "64x96 by clusters of 2x4, 112 CTAs");
        check([1701, 296, 1328], "64x80 by clusters of 2x4, 112 CTAs");
        check([5920, 88, 712], "64x96 by clusters of 4x1");
        check([3073, 48, 3368], "64x32 by clusters of 4x2, 104 CTAs");
        // What two of 80 rows, or three of 136, waste least of.
        check(
            [76, 14032, 408],
            "128x80 by clusters of 8x1, A and B exchanged, 112 CTAs",
        );
        check(
            [4352, 1024, 1472],
            "128x144 in turns, A and B exchanged, 124 CTAs",
        );
        check(
            [143, 248, 1128],
            "64x48 by clusters of 1x1 and 8 along K, A and B exchanged, 96 CTAs",
        );
        check(
            [234, 672, 8856],
            "64x96 by clusters of 2x1 and 4 along K, 112 CTAs",
        );
        let batched = Need {
            batches: 2,
            ..Need::of_16_bits([275, 4336, 7464])
        };
        let of_clusters = |plan: &Plan| matches!(plan.instance, Instance::Cluster(_));
        assert!(!Plan::all(&batched).iter().any(of_clusters));
    }

    /// Numbers of the model overflow for none of these.
    #[test]
    fn extents_have_plans_as_far_as_calls_have_them() {
        let f32s = Need {
            element_bytes: [4, 4],
            precision: Precision::Tf32x3,
            ..Need::of_16_bits([1; 3])
        };
        // All matrices are copied.
        let copied = Need {
            loose: Need::of_packed_16_bits([1; 3]).loose,
            ..Need::of_16_bits([1; 3])
        };
        for of in [Need::of_16_bits([1; 3]), f32s, copied] {
            let plan = |size, batches| {
                Plan::best(&Need {
                    size,
                    batches,
                    ..of
                })
            };
            for size in [
                [1 << 28, 7, 1 << 28],
                [7, 1 << 28, 1],
                [46340, 46340, 1 << 28],
            ] {
                assert!(
                    plan(size, 1).is_some() && plan(size, 65535).is_some(),
                    "{size:?}"
                );
            }
            for size in [
                [1 << 31; 3],
                [1 << 40, 16, 16],
                [16, 16, usize::MAX],
                [46341, 46341, 1],
            ] {
                assert_eq!(plan(size, 1), None, "{size:?}");
            }
            assert_eq!(plan([16; 3], 65536), None);
        }
    }

    /// A copy of 330 MB takes longer than one launch that reads rows where they are; where it is small and stays in L2, tensor maps are worth it.
    #[test]
    fn rows_that_begin_anywhere_are_copied_where_that_takes_less_than_it_saves() {
        let is_read_in_place = |size: [usize; 3]| {
            let plan = best(&Need::of_packed_16_bits(size));
            matches!(plan.instance, Instance::Any(_))
        };
        for size in [[13534, 41, 12097], [41, 13534, 12097], [25, 15858, 671]] {
            assert!(is_read_in_place(size), "{size:?}");
        }
        for size in [[25, 26, 8621], [427, 119, 2645], [1001, 1003, 1007]] {
            assert!(!is_read_in_place(size), "{size:?}");
        }
    }

    /// 15 clusters of 8 run at a time: 30 of them, in parts along K, took 1.34 times as long as the model said before each wave of them began anew.
    #[test]
    fn a_second_wave_of_clusters_costs_a_beginning() {
        check([768, 448, 11648], "128x64 in parts along K, 126 CTAs");
    }

    #[test]
    fn precise_products_of_few_rows_exchange_operands_and_divide_k() {
        let need = |size| Need {
            element_bytes: [4, 4],
            precision: Precision::Tf32x3,
            ..Need::of_16_bits(size)
        };
        for (size, expected) in [
            (
                [16, 4096, 4096],
                "128x16 by three products of tf32 in parts along K, A and B exchanged, 128 CTAs",
            ),
            (
                [16, 28672, 4096],
                "128x16 by three products of tf32, A and B exchanged, 112 CTAs",
            ),
            (
                [512, 512, 16384],
                "128x128 by three products of tf32 in parts along K, 128 CTAs",
            ),
            (
                [4096, 4096, 4096],
                "128x128 by three products of tf32 in turns, 128 CTAs",
            ),
            // An exchange takes longer than what is divided.
            (
                [64, 64, 64],
                "128x16 by three products of tf32, A and B exchanged, 4 CTAs",
            ),
        ] {
            let plan = best(&need(size)).to_string();
            assert!(plan.starts_with(expected), "{size:?}: {plan}");
        }
        let rounded = Plan::all(&Need::of_16_bits([16, 4096, 4096]));
        let is_precise = |plan: &Plan| plan.to_string().contains("three products");
        assert!(!rounded.iter().any(is_precise));
    }

    #[test]
    fn every_plan_has_ctas_and_a_finite_time() {
        for size in [[1, 1, 1], [1, 16384, 64], [16384, 1, 8], [7, 9, 16384]] {
            for plan in Plan::all(&Need::of_16_bits(size)) {
                assert!(plan.grid.iter().all(|&ctas| ctas > 0), "{plan}");
                assert!(plan.microseconds.is_finite(), "{plan}");
            }
        }
    }
}
