//! Which of the plans of a product is taken, of listed instances and of tiles that no list has: that with the least time by the model (`plan.rs`) and what it misses (`residual/`).

use super::even_tiles;
use super::instances::{INSTANCES, Instance};
use super::need::Need;
use super::plan::Plan;
use super::residual::{self, corrected, was_measured};

/// Plans that take at most so many times as long as the fastest one by the model are compared with their corrections: choices among more of them were not better.
const COMPARED: f64 = 1.25;

/// The share of the time of the fastest listed plan below which a tile of no list is taken: each is a kernel of its own to compile.
const WORTH: f64 = 0.98;

/// Tiles that a product is tuned by beside the listed ones, at most.
const MOST_TUNED: usize = 8;

impl Plan {
    /// The plan of an instance, if that can compute what is needed.
    pub fn able(instance: Instance, need: &Need) -> Option<Plan> {
        Some(corrected(Plan::by_model(instance, need)?, need))
    }

    /// The plan of every listed instance that can compute it, that with the least time first.
    pub fn all(need: &Need) -> Vec<Plan> {
        let plans = listed(need).map(|plan| corrected(plan, need));
        let mut plans: Vec<Plan> = plans.collect();
        plans.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
        plans
    }

    /// The plan with the least time, the first of equal ones; none of what no call needs: extents beyond 2^28, more results than indices of 32 bits count, or more products than a grid has CTAs along z.
    pub fn best(need: &Need) -> Option<Plan> {
        let near = Near::of(need)?;
        let worth = near.worth().filter(|plan| is_judged(plan, need));
        Some(worth.min_by(in_time).unwrap_or(near.listed))
    }

    /// What a product is tuned by: every listed instance that can compute it and tiles of no list that are worth it, each with its plan, that with the least time first.
    pub fn candidates(need: &Need) -> Vec<(Instance, Plan)> {
        let Some(near) = Near::of(need) else {
            return Vec::new();
        };
        let mut worth: Vec<Plan> = near.worth().collect();
        worth.sort_by(in_time);
        worth.truncate(MOST_TUNED);
        let worth = worth.into_iter().map(|plan| (plan.instance, plan));
        let able = |instance| Some((instance, Plan::able(instance, need)?));
        let listed = INSTANCES.into_iter().filter_map(able);
        let mut candidates: Vec<_> = listed.chain(worth).collect();
        candidates.sort_by(|(_, x), (_, y)| in_time(x, y));
        candidates
    }

    /// The plan whose instance is displayed so, listed or not, by the model alone.
    pub fn named(name: &str, need: &Need) -> Option<Plan> {
        let has_name = |plan: &Plan| plan.instance.to_string() == name;
        let unlisted = || Plan::by_model(even_tiles::named(name, need.size)?, need);
        listed(need).find(has_name).or_else(unlisted)
    }

    /// What `bench/fit/residual.py` fits the difference of measured times to: numbers that say what a plan by the model is; none of kernels whose times are not corrected.
    pub fn inputs(&self, need: &Need) -> Option<Vec<f32>> {
        Some(residual::inputs(self, need)?.to_vec())
    }
}

/// The plans of listed instances by the model alone.
fn listed(need: &Need) -> impl Iterator<Item = Plan> {
    let instances = INSTANCES.into_iter();
    instances.filter_map(|instance| Plan::by_model(instance, need))
}

/// Whether a time is one to choose by. The model alone puts tiles in turns of 192 rows and those of clusters up to a tenth too low, and was not fitted to cooperative ones.
fn is_judged(plan: &Plan, need: &Need) -> bool {
    match plan.instance {
        Instance::Persistent(tile) => tile.is_judged_by_model() || was_measured(need),
        _ => true,
    }
}

fn in_time(x: &Plan, y: &Plan) -> std::cmp::Ordering {
    x.microseconds.total_cmp(&y.microseconds)
}

/// The fastest of the listed plans, and how long others may take by the model alone to be compared with it.
struct Near<'a> {
    need: &'a Need,
    listed: Plan,
    most: f64,
}

impl Near<'_> {
    fn of(need: &Need) -> Option<Near<'_>> {
        let judged = listed(need).filter(|plan| is_judged(plan, need));
        let plans: Vec<Plan> = judged.collect();
        let times = plans.iter().map(|plan| plan.microseconds);
        let most = COMPARED * times.fold(f64::INFINITY, f64::min);
        let near = plans.into_iter().filter(|plan| plan.microseconds <= most);
        let listed = near.map(|plan| corrected(plan, need)).min_by(in_time)?;
        Some(Near { need, listed, most })
    }

    /// The tiles of no list that are worth to leave the listed ones.
    fn worth(&self) -> impl Iterator<Item = Plan> {
        let plans = even_tiles::by_model(self.need);
        let near = plans.filter(|plan| plan.microseconds <= self.most);
        let plans = near.map(|plan| corrected(plan, self.need));
        plans.filter(|plan| plan.microseconds < WORTH * self.listed.microseconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products::epilogue_kind::{Finishing, Together};
    use crate::products::factor::MULTIPROCESSORS;
    use crate::products::options::Precision;

    fn best(need: &Need) -> Plan {
        Plan::best(need).expect("a call may need it")
    }

    #[track_caller]
    fn check(size: [usize; 3], expected: &str) {
        let plan = best(&Need::of_16_bits(size)).to_string();
        assert!(plan.starts_with(expected), "{size:?}: {plan}");
    }

    /// A call that has been checked has a plan.
    #[test]
    fn every_epilogue_has_a_plan() {
        use Together::{Blocks, HalvedBlocks, Halves, Pairs};
        let sizes = [[1, 1, 1], [24, 68, 520], [300, 544, 72], [8192, 8192, 4096]];
        let element_bytes = [[2, 2], [2, 1], [1, 1], [1, 4], [2, 4]];
        let orders = [[false, false], [true, false], [true, true]];
        for size in sizes {
            for element_bytes in element_bytes {
                for is_mn_major in orders {
                    if element_bytes[0] == 1 && is_mn_major != [false; 2] {
                        continue;
                    }
                    for together in [Pairs, Halves, Blocks, HalvedBlocks] {
                        for batches in [1, 3] {
                            let need = Need {
                                element_bytes,
                                is_mn_major,
                                together,
                                batches,
                                finishing: Finishing::Source,
                                ..Need::of_16_bits(size)
                            };
                            assert!(Plan::best(&need).is_some(), "{need:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn large_products_take_the_largest_tile_and_whole_waves() {
        check([8192, 8192, 8192], "128x256, 128 CTAs");
        check([1472, 4864, 6592], "128x224, 132 CTAs");
        for size in [[5120, 5120, 5120], [1472, 4864, 6592]] {
            let need = Need::of_16_bits(size);
            let plan = best(&need);
            let filled = plan.waves(&need) * MULTIPROCESSORS;
            let share = plan.tiles(&need) as f64 / filled as f64;
            assert!(share > 0.98, "{size:?}: {share} of the waves of {plan}");
        }
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
        for (whole, beside) in listed(&whole).zip(listed(&beside)) {
            let is_copied = beside.microseconds > whole.microseconds;
            assert_eq!(is_copied, whole.instance.stores_by_tma(), "{whole}");
        }
        assert!(!best(&beside).instance.stores_by_tma());
    }

    #[test]
    fn few_rows_and_large_weights_are_computed_by_clusters() {
        check(
            [275, 4336, 7464],
            "192x80 by clusters of 1x4, A and B exchanged, 92 CTAs",
        );
        check(
            [156, 10216, 2760],
            "192x80 by clusters of 2x2, A and B exchanged",
        );
        check(
            [848, 992, 5920],
            "64x128 by clusters of 8x1, A and B exchanged",
        );
        check([108, 5128, 3464], "64x96 by clusters of 2x4, 112 CTAs");
        check([1701, 296, 1328], "64x80 by clusters of 2x4, 112 CTAs");
        check([5920, 88, 712], "64x96 by clusters of 8x1");
        check([3073, 48, 3368], "64x32 by clusters of 4x2, 104 CTAs");
        // What two of 80 rows, or three of 136, waste least of.
        check(
            [76, 14032, 408],
            "128x80 by clusters of 8x1, A and B exchanged, 112 CTAs",
        );
        check(
            [4352, 1024, 1472],
            "128x136 in turns, A and B exchanged, 128 CTAs",
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

    /// At these cublasLt was ahead by 10 to 17 % of tiles of one warpgroup and of 128 rows.
    #[test]
    fn large_tiles_of_any_width_are_cooperative() {
        check(
            [424, 7440, 9528],
            "256x112 cooperative by clusters of 1x4, A and B exchanged",
        );
        check(
            [5092, 2728, 9608],
            "256x144 cooperative by clusters of 1x2, A and B exchanged",
        );
    }

    /// Whether the best plan is by every other row.
    fn is_by_every_other_row(need: &Need) -> bool {
        best(need).to_string().contains(", every other row")
    }

    /// At these it took 1.15 to 1.35 times as long by any other plan; at sectors, of long K and of few results it takes longer.
    #[test]
    fn results_between_sectors_are_computed_by_every_other_row() {
        for size in [
            [4256, 17704, 24],
            [8644, 4280, 64],
            [3521, 6856, 88],
            [12151, 11784, 160],
        ] {
            assert!(
                is_by_every_other_row(&Need::of_packed_16_bits(size)),
                "{size:?}"
            );
        }
        for size in [
            [4256, 17712, 24],
            [8192, 8200, 2048],
            [300, 200, 64],
            [8644, 4273, 64],
        ] {
            assert!(
                !is_by_every_other_row(&Need::of_packed_16_bits(size)),
                "{size:?}"
            );
        }
        let batched = Need {
            batches: 2,
            ..Need::of_16_bits([3521, 6856, 88])
        };
        assert!(!is_by_every_other_row(&batched));
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
        check(
            [768, 448, 11648],
            "128x112 in parts along K by clusters of 2x2, 120 CTAs",
        );
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

    /// Products of bytes took clusters of 192x112 in turns by a model that was not fitted to them.
    #[test]
    fn tiles_that_the_model_alone_misjudges_are_taken_where_it_is_corrected() {
        let is_of_clusters = |plan: &Plan| match plan.instance {
            Instance::Persistent(tile) => !tile.is_judged_by_model(),
            _ => false,
        };
        for size in [[841, 14008, 1256], [13292, 2664, 424], [8192, 8192, 4096]] {
            let of_words = Need::of_16_bits(size);
            let of_bytes = Need {
                element_bytes: [1, 2],
                ..of_words
            };
            assert!(!is_of_clusters(&best(&of_bytes)), "{size:?}");
            assert_eq!(
                is_of_clusters(&best(&of_words)),
                size[0] != 8192,
                "{size:?}"
            );
        }
    }

    /// By the list and by pairs they took 1.07 to 1.5 times as long.
    #[test]
    fn parts_along_k_have_a_width_and_clusters_of_their_own() {
        check(
            [918, 536, 12920],
            "128x192 in parts along K by clusters of 8x1, 120 CTAs",
        );
        check(
            [1444, 264, 14440],
            "128x144 in parts along K by clusters of 2x2, 120 CTAs",
        );
        check(
            [79, 632, 15408],
            "64x80 in parts along K, A and B exchanged",
        );
        check(
            [928, 320, 12616],
            "128x160 in parts along K by clusters of 2x2, 112 CTAs",
        );
        check(
            [376, 592, 13368],
            "64x160 in parts along K by clusters of 2x4, 120 CTAs",
        );
    }

    /// By the list it took 1.14 to 1.33 times as long as by cublasLt.
    #[test]
    fn what_no_listed_tile_divides_has_one_of_its_own() {
        let need = Need::of_16_bits([280, 9072, 7984]);
        let plan = best(&need);
        assert!(
            plan.to_string().starts_with("192x144 by clusters of"),
            "{plan}"
        );
        assert!(INSTANCES.iter().all(|instance| *instance != plan.instance));
        let tuned = Plan::candidates(&need);
        assert!(tuned.iter().any(|(instance, _)| *instance == plan.instance));
        let divided = Need::of_16_bits([4096, 4096, 4096]);
        let near = Near::of(&divided).expect("a plan");
        assert_eq!(near.worth().count(), 0);
    }
}
