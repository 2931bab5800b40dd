//! The tiles of all kernels that a plan chooses among; [`instances`](super::instances) makes instances of them.

use super::few_tiles::FewTile;

/// Tiles of `dense`: warpgroups, rows of each, columns, stages.
pub(crate) const MANY: [[usize; 4]; 6] = [
    [2, 64, 256, 4],
    [3, 64, 192, 3],
    [2, 128, 160, 3],
    [2, 64, 192, 4],
    [3, 64, 176, 3],
    [2, 64, 128, 6],
];

/// Tiles of `few_tiles`: warpgroups, columns, stages of one CTA and of those of clusters; whether A and B are exchanged.
const SHARED_ALONG_K: [(usize, usize, [usize; 2], bool); 8] = [
    (1, 16, [8, 8], true),
    (1, 32, [8, 8], true),
    (1, 64, [8, 8], true),
    (1, 16, [8, 8], false),
    (1, 32, [8, 8], false),
    (1, 64, [8, 8], false),
    (1, 128, [6, 6], false),
    (2, 128, [6, 3], false),
];

/// CTAs that share the steps along K of a tile.
const CLUSTERS: [usize; 4] = [1, 2, 4, 8];

/// Tiles of `split_k`: warpgroups, columns, stages.
pub(super) const SPLIT: [[usize; 3]; 5] = [
    [2, 128, 7],
    [2, 64, 9],
    [2, 256, 4],
    [1, 128, 9],
    [1, 64, 14],
];

/// Tiles of `one_wave`: warpgroups of 64 rows, columns, stages.
pub(super) const WAVE: [[usize; 3]; 13] = [
    [1, 64, 14],
    [1, 128, 9],
    [1, 192, 7],
    [1, 256, 5],
    [2, 32, 11],
    [2, 64, 9],
    [2, 96, 8],
    [2, 128, 7],
    [2, 160, 6],
    [2, 192, 5],
    [2, 256, 4],
    [3, 64, 7],
    [3, 128, 5],
];

/// Tiles of `any_rows`: warpgroups, columns.
pub(super) const ANY: [[usize; 2]; 5] = [[1, 32], [1, 64], [1, 128], [2, 64], [2, 128]];

/// Tiles of `dense` by pairs.
pub(super) const MANY_PAIRS: [[usize; 4]; 4] = [
    [2, 64, 256, 4],
    [3, 64, 192, 3],
    [2, 128, 160, 3],
    [2, 64, 192, 4],
];

/// Tiles of `one_wave` by pairs.
pub(super) const WAVE_PAIRS: [[usize; 3]; 6] = [
    [1, 64, 14],
    [1, 128, 9],
    [2, 96, 8],
    [2, 128, 7],
    [2, 192, 5],
    [2, 256, 4],
];

/// Tiles of `split_k` by pairs.
pub(super) const SPLIT_PAIRS: [[usize; 3]; 3] = [[2, 128, 7], [2, 256, 4], [1, 128, 9]];

/// Tiles of `precise`: warpgroups, columns, stages, stages of small parts of B; whether warpgroups take turns.
pub(super) const PRECISE: [([usize; 4], bool); 6] = [
    ([2, 128, 5, 2], false),
    ([2, 160, 4, 2], false),
    ([2, 64, 6, 3], false),
    ([2, 32, 8, 4], false),
    ([2, 128, 5, 2], true),
    ([2, 160, 4, 2], true),
];

/// Tiles of `precise` with A and B exchanged, for few rows.
pub(super) const PRECISE_FEW: [[usize; 4]; 2] = [[2, 32, 8, 4], [2, 16, 10, 4]];

/// Tiles of `precise_parts`, and whether A and B are exchanged.
pub(super) const PRECISE_PARTS: [([usize; 4], bool); 5] = [
    ([2, 128, 5, 2], false),
    ([2, 64, 6, 3], false),
    ([2, 64, 6, 3], true),
    ([2, 32, 8, 4], true),
    ([2, 16, 10, 4], true),
];

/// Tiles of `dense` alone and by pairs: two waves of 1472 x 4864 are all of 132 tiles.
pub(super) const MANY_LAST: [([usize; 4], bool); 2] =
    [([2, 64, 224, 4], false), ([2, 64, 224, 4], true)];

/// Tiles of `copied_tiles`: columns, CTAs of a cluster, and whether A and B are exchanged.
pub(super) const COPIED: [(usize, usize, bool); 7] = [
    (128, 1, false),
    (64, 1, false),
    (64, 2, false),
    (64, 4, false),
    (64, 8, false),
    (32, 8, true),
    (32, 8, false),
];

/// The tile of `dense` of which one wave holds what is two of smaller ones: 1163 x 4624 is 125 of it.
pub(super) const MANY_LARGE: [[usize; 4]; 1] = [[2, 128, 192, 3]];

/// The tile of `dense` of which 3000 x 5000 is three whole waves of 132.
pub(crate) const MANY_BETWEEN: [[usize; 4]; 1] = [[2, 128, 152, 3]];

/// The tile of `one_wave` for few rows by some 12000 columns.
pub(super) const WAVE_FEW: [[usize; 3]; 1] = [[1, 96, 10]];

/// All tiles of `few_tiles`: each by as many CTAs as share steps along K.
pub(super) const FEW: [FewTile; SHARED_ALONG_K.len() * CLUSTERS.len()] = {
    let [first, ..] = SHARED_ALONG_K;
    let mut all = [few_tile(first, 1); SHARED_ALONG_K.len() * CLUSTERS.len()];
    let mut at = 0;
    while at < all.len() {
        let ctas = CLUSTERS[at % CLUSTERS.len()];
        all[at] = few_tile(SHARED_ALONG_K[at / CLUSTERS.len()], ctas);
        at += 1;
    }
    all
};

const fn few_tile(
    (groups, columns, [alone, in_cluster], turned): (usize, usize, [usize; 2], bool),
    ctas: usize,
) -> FewTile {
    FewTile {
        ctas,
        groups,
        columns,
        stages: if ctas > 1 { in_cluster } else { alone },
        turned,
    }
}
