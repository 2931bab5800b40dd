//! Which tile computes a product with scales for blocks, in how many CTAs: by a model of its time.

use super::few_tiles::FewScaledTile;
use super::tile::{Overlap, ScaledTile, Shared};
use crate::products::factor::BLOCK;
use crate::products::plan::MULTIPROCESSORS;

const fn tile([groups, rows, columns, width, stages]: [usize; 5], overlap: Overlap) -> ScaledTile {
    ScaledTile {
        groups,
        rows,
        columns,
        width,
        stages,
        overlap,
        shared: Shared::Nothing,
    }
}

/// A tile, and its measured cycles for each that its products would take at the full rate of the tensor cores, relative to the tile of 128x128
/// (`bench/results/products/block_scaled.md`).
pub(super) const TILES: [(ScaledTile, f64); 9] = [
    (tile([2, 64, 128, 128, 5], Overlap::Ahead), 1.0),
    (tile([3, 64, 128, 128, 4], Overlap::Others), 0.96),
    (tile([2, 64, 192, 192, 4], Overlap::Others), 0.99),
    (tile([2, 128, 128, 128, 3], Overlap::Others), 1.06),
    (tile([2, 64, 64, 64, 8], Overlap::Ahead), 1.85),
    (tile([1, 64, 64, 64, 12], Overlap::Ahead), 2.19),
    (
        tile([3, 64, 128, 128, 4], Overlap::Others).sharing(Shared::Rows),
        0.92,
    ),
    (
        tile([1, 64, 64, 64, 12], Overlap::Ahead).sharing(Shared::Columns),
        2.05,
    ),
    (
        tile([2, 128, 128, 128, 3], Overlap::Others).sharing(Shared::Rows),
        0.96,
    ),
];

const fn few([ctas, groups, columns, stages]: [usize; 4]) -> FewScaledTile {
    FewScaledTile {
        ctas,
        groups,
        columns,
        stages,
    }
}

/// Tiles of 64 rows whose steps along K the CTAs of a cluster share, and cycles of a step as those of [`TILES`] are counted.
pub(super) const FEW_TILES: [(FewScaledTile, f64); 4] = [
    (few([1, 1, 64, 12]), 270.0),
    (few([2, 1, 64, 11]), 270.0),
    (few([1, 1, 32, 17]), 190.0),
    (few([2, 1, 32, 16]), 190.0),
];

/// Cycles in which CTAs of a cluster add their parts.
const JOINED: f64 = 3600.0;

/// The tile of products with a scale for each row of both factors.
pub const ALONG_K: ScaledTile = tile([2, 64, 128, 128, 4], Overlap::Others);

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScaledPlan {
    /// By so many programs, which have several tiles each.
    Many(ScaledTile, usize),
    /// By a cluster for each tile, in this grid.
    Few(FewScaledTile, [usize; 2]),
}

/// Cycles of a tile: of its steps along K, and of the part of its end that other warps do not hide.
fn cycles((tile, pace): (ScaledTile, f64), k: usize) -> f64 {
    let [rows, columns] = tile.shape();
    let area = (rows * columns) as f64;
    k.div_ceil(BLOCK) as f64 * area / 32.0 * pace + 900.0 + 0.03 * area
}

/// Tiles of clusters for `groups` products, and how many of them a cluster has one after the other.
fn counts(tile: ScaledTile, [m, n]: [usize; 2], groups: usize) -> [usize; 2] {
    let [rows, columns] = tile.of_cluster();
    let tiles = (groups * m.div_ceil(rows) * n.div_ceil(columns)).max(1);
    [tiles, tiles.div_ceil(MULTIPROCESSORS / tile.ctas())]
}

/// The tile of several a program with the least time for `groups` products of this M, N, K, and that time in cycles: of those that have room for a whole tile of results of so many
/// bytes an element.
fn best_of_many([m, n, k]: [usize; 3], groups: usize, staged_bytes: usize) -> (ScaledTile, f64) {
    let time = |paced: (ScaledTile, f64)| {
        let [_, waves] = counts(paced.0, [m, n], groups);
        (paced.0, waves as f64 * cycles(paced, k))
    };
    let better = |x: (ScaledTile, f64), y: (ScaledTile, f64)| if y.1 < x.1 { y } else { x };
    // Of a pair whose second tile would be outside, one CTA has all the work.
    let is_filled = |(tile, _): &(ScaledTile, f64)| match tile.shared {
        Shared::Nothing => true,
        Shared::Rows => n > tile.shape()[1],
        Shared::Columns => m > tile.shape()[0],
    };
    let fits = |(tile, _): &(ScaledTile, f64)| tile.fitted(staged_bytes).is_some();
    let tiles = TILES.into_iter().filter(is_filled).filter(fits);
    let best = tiles.map(time).reduce(better);
    best.expect("the smallest tile shares nothing and has room")
}

/// The plan of one product of this M, N, K, none of them 0.
pub(super) fn best([m, n, k]: [usize; 3]) -> ScaledPlan {
    // Warpgroups take turns at one buffer where there is no room for all.
    let (tile, many) = best_of_many([m, n, k], 1, 0);
    let few = FEW_TILES.into_iter().filter_map(|paced| {
        let (grid, time) = few_cycles(paced, [m, n, k])?;
        Some((ScaledPlan::Few(paced.0, grid), time))
    });
    let [tiles, waves] = counts(tile, [m, n], 1);
    // The fewest programs with as many waves.
    let programs = tiles.div_ceil(waves) * tile.ctas();
    let many = (ScaledPlan::Many(tile, programs), many);
    few.fold(many, |x, y| if y.1 < x.1 { y } else { x }).0
}

/// The grid of a tile whose steps are shared, and its cycles; none where there are more rows, more CTAs than multiprocessors, or CTAs without a step.
fn few_cycles(
    (tile, pace): (FewScaledTile, f64),
    [m, n, k]: [usize; 3],
) -> Option<([usize; 2], f64)> {
    let ([rows, columns], steps) = (tile.shape(), k.div_ceil(BLOCK));
    let grid = [tile.ctas, n.div_ceil(columns)];
    let fits = m <= rows && grid[0] * grid[1] <= MULTIPROCESSORS && steps >= tile.ctas;
    let joined = if tile.ctas > 1 { JOINED } else { 0.0 };
    fits.then(|| (grid, steps.div_ceil(tile.ctas) as f64 * pace + joined))
}

/// The tile of which two hold a group's rows: they read each matrix of B from DRAM at one time by a multicast, where a product of many rows finds it in L2.
const PAIRED: ScaledTile = TILES[0].0;

/// The tile of products of `groups` groups, which have M rows together and results of so many bytes an element, and the number of programs.
pub(super) fn best_of_groups(
    [m, n, k]: [usize; 3],
    groups: usize,
    result_bytes: usize,
) -> (ScaledTile, usize) {
    let of_group = m.div_ceil(groups);
    let (tile, _) = best_of_many([of_group, n, k], groups, result_bytes);
    let is_pair = tile == PAIRED && of_group > tile.shape()[0] && of_group <= 2 * tile.shape()[0];
    let tile = if is_pair {
        tile.sharing(Shared::Columns)
    } else {
        tile
    };
    let [rows, columns] = tile.of_cluster();
    // Each group may end with a tile of one row.
    let tiles = (m.div_ceil(rows) + groups) * n.div_ceil(columns);
    let clusters = tiles.min(MULTIPROCESSORS / tile.ctas());
    let tile = tile.fitted(result_bytes).expect("it was chosen for it");
    (tile, clusters * tile.ctas())
}

#[cfg(test)]
mod tests {
    use tilekit::prelude::*;

    use super::super::grouped::{GroupedForm, block_scaled_grouped};
    use super::{ScaledPlan, TILES, best, best_of_groups};

    #[track_caller]
    fn check(size: [usize; 3], expected: &str) {
        let plan = match best(size) {
            ScaledPlan::Many(tile, programs) => format!("{tile}, {programs}"),
            ScaledPlan::Few(tile, [x, y]) => format!("few {tile}, {x} by {y}"),
        };
        assert_eq!(plan, expected, "{size:?}");
    }

    #[test]
    fn tiles_follow_whole_waves_and_few_rows() {
        check([8192, 8192, 8192], "3x64x128x4+rows, 132");
        check([4096, 4096, 7168], "2x128x128x3+rows, 128");
        check([4096, 7168, 16384], "2x128x128x3+rows, 128");
        check([4096, 2112, 7168], "3x64x128x4+rows, 132");
        check([128, 24576, 1536], "2x64x192x4, 128");
        check([128, 4096, 7168], "1x64x64x12+ahead+columns, 128");
        check([64, 7168, 2048], "few 1x1x64x12, 1 by 112");
        check([64, 2112, 7168], "few 2x1x32x16, 2 by 66");
        check([1, 1, 1], "few 1x1x32x17, 1 by 1");
    }

    #[test]
    fn groups_have_clusters_of_whole_tiles() {
        let of = |size, groups| {
            let (tile, programs) = best_of_groups(size, groups, 2);
            format!("{tile}, {programs}")
        };
        assert_eq!(of([32768, 4096, 7168], 8), "3x64x128x4+rows, 132");
        assert_eq!(of([8192, 4096, 7168], 32), "2x128x128x3+rows, 132");
        assert_eq!(of([8192, 4096, 7168], 64), "2x64x128x5+ahead, 132");
        assert_eq!(of([60, 40, 144], 3), "1x64x64x12+ahead, 4");
    }

    /// Found by random calls: 256x128 did not fit beside results of 4 bytes.
    #[test]
    fn groups_have_tiles_with_room_for_results_of_4_bytes() {
        let of = |size, groups| best_of_groups(size, groups, 4).0.to_string();
        assert_eq!(of([8, 18864, 8], 1), "2x64x192x3");
        let compiler = Compiler::default();
        for tile in TILES.into_iter().filter_map(|(tile, _)| tile.fitted(4)) {
            let form = GroupedForm {
                tile,
                is_counted: false,
            };
            let compiled = fixed(block_scaled_grouped::<E4m3, f32>, form).compile(&compiler);
            let error = compiled.err().map(|error| error.to_string());
            assert_eq!(error, None, "{tile}");
        }
    }
}
