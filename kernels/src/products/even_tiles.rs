//! Tiles of clusters that no list has, as wide as a matrix divides into them without waste: 280 rows are two tiles of 144, and none of the list is between 112 and 160. The list has what gains most over many products; for one in fifteen a
//! width of its own is 5 % faster by the model, for one in forty 8 %.

use std::collections::BTreeSet;

use super::cluster_tiles::ClusterTile;
use super::factor::INSTRUCTION_ROWS;
use super::instances::Instance;
use super::need::{MOST, Need};
use super::plan::{Plan, resident};

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
}
