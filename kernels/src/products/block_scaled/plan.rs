//! Which tile computes a product with scales for blocks, in how many CTAs: by a model of its time.

use super::tile::{BLOCK, Overlap, ScaledTile};
use crate::products::plan::MULTIPROCESSORS;

const fn tile([groups, rows, columns, width, stages]: [usize; 5], overlap: Overlap) -> ScaledTile {
    ScaledTile {
        groups,
        rows,
        columns,
        width,
        stages,
        overlap,
    }
}

/// A tile, and its measured cycles for each that its products would take at the full rate of the tensor cores, relative to the tile of 128x128
/// (`bench/results/products.md`).
pub(super) const TILES: [(ScaledTile, f64); 6] = [
    (tile([2, 64, 128, 128, 5], Overlap::Ahead), 1.0),
    (tile([3, 64, 128, 128, 4], Overlap::Others), 0.96),
    (tile([2, 64, 192, 192, 4], Overlap::Others), 0.99),
    (tile([2, 128, 128, 128, 3], Overlap::Others), 1.06),
    (tile([2, 64, 64, 64, 8], Overlap::Ahead), 1.85),
    (tile([1, 64, 64, 64, 12], Overlap::Ahead), 2.19),
];

/// The tile of products with a scale for each row of both factors.
pub const ALONG_K: ScaledTile = tile([2, 64, 128, 128, 4], Overlap::Others);

/// Cycles of a tile: of its steps along K, and of the part of its end that other warps do not hide.
fn cycles((tile, pace): (ScaledTile, f64), k: usize) -> f64 {
    let [rows, columns] = tile.shape();
    let area = (rows * columns) as f64;
    k.div_ceil(BLOCK) as f64 * area / 32.0 * pace + 900.0 + 0.03 * area
}

/// The tile with the least time for `groups` products of this M, N, K, and the number of programs: the fewest with as many waves.
pub fn best([m, n, k]: [usize; 3], groups: usize) -> (ScaledTile, usize) {
    let tiles = |tile: ScaledTile| {
        let [rows, columns] = tile.shape();
        (groups * m.div_ceil(rows) * n.div_ceil(columns)).max(1)
    };
    let waves = |tile: ScaledTile| tiles(tile).div_ceil(MULTIPROCESSORS);
    let time = |paced: (ScaledTile, f64)| waves(paced.0) as f64 * cycles(paced, k);
    let better = |x, y| if time(y) < time(x) { y } else { x };
    let (best, _) = TILES.into_iter().fold(TILES[0], better);
    (best, tiles(best).div_ceil(waves(best)))
}

#[cfg(test)]
mod tests {
    use super::best;

    #[track_caller]
    fn check(size: [usize; 3], groups: usize, expected: &str) {
        let (tile, programs) = best(size, groups);
        assert_eq!(format!("{tile}, {programs}"), expected, "{size:?}");
    }

    #[test]
    fn tiles_follow_whole_waves_and_few_rows() {
        check([8192, 8192, 8192], 1, "3x64x128x4, 132");
        check([4096, 4096, 7168], 1, "2x64x128x5+ahead, 128");
        check([4096, 2112, 7168], 1, "3x64x128x4, 125");
        check([64, 2112, 7168], 1, "1x64x64x12+ahead, 33");
        check([1, 1, 1], 1, "1x64x64x12+ahead, 1");
    }
}
