//! Tiles of clusters that no list has, as wide as a matrix divides into them without waste: 280 rows are two tiles of 144, and none of the list is between 112 and 160. The list has what gains most over many products; for one in fifteen a
//! width of its own is 5 % faster by the model, for one in forty 8 %.

use std::collections::BTreeSet;

use super::cluster_tiles::ClusterTile;
use super::factor::INSTRUCTION_ROWS;
use super::instances::Instance;
use super::need::{MOST, Need};
use super::plan::{Plan, least_microseconds, resident};
use super::residual::COMPARED;

/// The share of the time of the fastest listed plan below which such a tile is taken: each is a kernel of its own to compile.
const WORTH: f64 = 0.98;

/// Tiles along one axis, at most: of more of them, listed widths waste little.
const MOST_TILES: usize = 8;

/// Whole waves, at most: of more of them the last one counts for little.
const MOST_WAVES: usize = 4;

/// Stages that a ring has at least.
const LEAST_STAGES: usize = 4;

/// Columns are multiples of what exchanged tiles store at a time.
const UNIT: usize = 16;

/// Tiles of a cluster along rows and along columns.
const ALONG: [[usize; 2]; 9] = [
    [1, 1],
    [2, 1],
    [1, 2],
    [2, 2],
    [4, 1],
    [1, 4],
    [4, 2],
    [2, 4],
    [8, 1],
];

/// Tiles that a product is tuned by beside the listed ones, at most.
const MOST_TUNED: usize = 8;

/// The fastest plan by such a tile, if it is worth to leave the listed ones: `listed` is their fastest, and `least` the least time of them by the model alone.
pub(super) fn faster_than(listed: &Plan, least: f64, need: &Need) -> Option<Plan> {
    let plans = near(least, need).map(|plan| plan.corrected(need));
    let fastest = plans.min_by(|x, y| x.microseconds.total_cmp(&y.microseconds))?;
    (fastest.microseconds < WORTH * listed.microseconds).then_some(fastest)
}

/// Those that are worth it, the fastest ones first: what a product is tuned by besides.
pub(super) fn worth_tuning(need: &Need) -> Vec<Instance> {
    let listed: Vec<Plan> = Plan::listed(need).collect();
    let least = least_microseconds(&listed);
    let Some(listed) = Plan::fastest(listed, need) else {
        return Vec::new();
    };
    let plans = near(least, need).map(|plan| plan.corrected(need));
    let mut plans: Vec<Plan> = plans.collect();
    plans.retain(|plan| plan.microseconds < WORTH * listed.microseconds);
    plans.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
    let fastest = plans.into_iter().take(MOST_TUNED);
    fastest.map(|plan| plan.instance).collect()
}

/// Plans that are compared with the listed ones, of which `least` is the least time by the model alone.
fn near(least: f64, need: &Need) -> impl Iterator<Item = Plan> {
    by_model(need).filter(move |plan| plan.microseconds <= COMPARED * least)
}

/// Plans of the tiles that can compute a product, by what bounds them alone.
pub(super) fn by_model(need: &Need) -> impl Iterator<Item = Plan> {
    let plans = tiles(need.size).filter_map(|tile| Plan::by_model(Instance::Cluster(tile), need));
    plans.filter(has_ring)
}

/// The one of a product that is displayed so.
pub(super) fn named(name: &str, size: [usize; 3]) -> Option<Instance> {
    let mut tiles = tiles(size).map(Instance::Cluster);
    tiles.find(|instance| instance.to_string() == name)
}

fn has_ring(plan: &Plan) -> bool {
    matches!(plan.instance, Instance::Cluster(tile) if tile.stages >= LEAST_STAGES)
}

/// The tiles that divide M or N evenly, or of which whole waves are as many as there are, of clusters that have no tile outside of the matrix as a whole.
fn tiles([m, n, _]: [usize; 3]) -> impl Iterator<Item = ClusterTile> {
    let of_order = move |turned: bool| {
        let [rows, columns] = if turned { [n, m] } else { [m, n] };
        (1..=3).flat_map(move |groups| {
            let along_rows = rows.div_ceil(groups * INSTRUCTION_ROWS);
            let widths = widths([along_rows, columns], groups).into_iter();
            widths.flat_map(move |width| {
                let tile = move |along| {
                    let tile = ClusterTile::of(along, [groups, width, usize::MAX]);
                    if turned { tile.exchanged() } else { tile }
                };
                let along_columns = columns.div_ceil(width);
                let fits = move |[x, y]: &[usize; 2]| {
                    *x <= along_rows && *y <= along_columns && width >= 8 * x
                };
                ALONG.into_iter().filter(fits).map(tile)
            })
        })
    };
    [false, true].into_iter().flat_map(of_order)
}

/// The least columns of each number of tiles along a matrix of so many, beside so many along its rows.
fn widths([along_rows, columns]: [usize; 2], groups: usize) -> BTreeSet<usize> {
    // The sums of a warpgroup are in registers.
    let most = if groups == 2 { 208 } else { 224 };
    let of_wave = |waves: usize| [1, 8].map(|ctas| waves * resident(ctas) / along_rows.max(1));
    let counts = (1..=MOST_TILES).chain((1..=MOST_WAVES).flat_map(of_wave));
    let least = |count: usize| columns.div_ceil(count).min(MOST).next_multiple_of(UNIT);
    let widths = counts.filter(|&count| count > 0).map(least);
    widths
        .filter(|width| (2 * UNIT..=most).contains(width))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check([along_rows, columns]: [usize; 2], groups: usize, expected: &[usize]) {
        let found = widths([along_rows, columns], groups);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_matrix_is_divided_into_tiles_of_about_the_same_width() {
        check([48, 280], 3, &[32, 48, 64, 80, 96, 144]);
        check([200, 1000], 1, &[128, 144, 176, 208]);
        check([1, 10], 2, &[]);
        check([1, 0], 1, &[]);
    }

    /// 9408 columns are 118 tiles of 80, in one wave.
    #[test]
    fn long_matrices_are_divided_into_whole_waves() {
        check([1, 9408], 2, &[32, 48, 80]);
        check([1, 1 << 20], 2, &[]);
    }

    /// By the list it took 1.14 to 1.33 times as long as by cublasLt.
    #[test]
    fn what_no_listed_tile_divides_has_one_of_its_own() {
        let need = Need::of_16_bits([280, 9072, 7984]);
        let plan = Plan::best(&need).expect("a plan");
        assert!(
            plan.to_string().starts_with("192x144 by clusters of"),
            "{plan}"
        );
        let listed = Need::of_16_bits([4096, 4096, 4096]);
        let best = Plan::best(&listed).expect("a plan");
        let least = least_microseconds(&Plan::listed(&listed).collect::<Vec<_>>());
        assert_eq!(faster_than(&best, least, &listed), None);
    }
}
