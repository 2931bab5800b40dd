//! The tiles of all kernels that a plan chooses among, a list for each kernel, by rows and columns; [`instances`](super::instances) makes instances of them.

use super::any_rows::AnyTile;
use super::cluster_tiles::ClusterTile;
use super::copied_tiles::CopiedTile;
use super::dense::ManyTile;
use super::factor::INSTRUCTION_ROWS;
use super::few_tiles::FewTile;
use super::persistent_tile::PersistentTile;
use super::precise::PreciseTile;
use super::split_k::SplitTile;

/// Tiles of `dense`: warpgroups, rows of each, columns, stages. Of 256x152, 3000 x 5000 is three whole waves of 132; of 256x192 one wave holds what is two of smaller ones: 1163 x 4624 is 125 of it; two
/// waves of 1472 x 4864 are all of 132 tiles of 128x224.
pub(super) const MANY: [ManyTile; 17] = [
    ManyTile::of([2, 64, 128, 6]),
    ManyTile::of([2, 64, 144, 5]),
    ManyTile::of([2, 64, 160, 5]).by_pairs(),
    ManyTile::of([2, 64, 192, 4]),
    ManyTile::of([2, 64, 192, 4]).by_pairs(),
    ManyTile::of([2, 64, 208, 4]).by_pairs(),
    ManyTile::of([2, 64, 224, 4]),
    ManyTile::of([2, 64, 224, 4]).by_pairs(),
    ManyTile::of([2, 64, 256, 4]),
    ManyTile::of([2, 64, 256, 4]).by_pairs(),
    ManyTile::of([3, 64, 176, 3]),
    ManyTile::of([3, 64, 192, 3]),
    ManyTile::of([3, 64, 192, 3]).by_pairs(),
    ManyTile::of([2, 128, 152, 3]),
    ManyTile::of([2, 128, 160, 3]),
    ManyTile::of([2, 128, 160, 3]).by_pairs(),
    ManyTile::of([2, 128, 192, 3]),
];

/// Tiles of `alternating`: columns, stages, buffers of results. Exchanged they are for M that multiples of 8 divide better than those of 64, 128x168 for 1163 rows, whose seven tiles waste 1 %.
pub(super) const ALTERNATING: [PersistentTile; 21] = [
    PersistentTile::of([2, 128, 6, 2]),
    PersistentTile::of([2, 128, 6, 2]).by_pairs(),
    PersistentTile::of([2, 128, 6, 2]).exchanged(),
    PersistentTile::of([2, 128, 6, 2]).exchanged().by_pairs(),
    PersistentTile::of([2, 144, 5, 2]).exchanged(),
    PersistentTile::of([2, 160, 5, 1]),
    PersistentTile::of([2, 160, 5, 1]).exchanged(),
    PersistentTile::of([2, 160, 5, 1]).exchanged().by_pairs(),
    PersistentTile::of([2, 168, 5, 1]).exchanged(),
    PersistentTile::of([2, 176, 5, 1]).by_pairs(),
    PersistentTile::of([2, 176, 5, 1]).exchanged(),
    PersistentTile::of([2, 176, 5, 1]).exchanged().by_pairs(),
    PersistentTile::of([2, 192, 4, 2]),
    PersistentTile::of([2, 192, 4, 2]).by_pairs(),
    PersistentTile::of([3, 112, 5, 2]),
    PersistentTile::of([3, 112, 5, 2]).by_pairs(),
    PersistentTile::of([3, 112, 5, 2]).by_clusters([1, 2]),
    PersistentTile::of([3, 112, 5, 2]).exchanged(),
    PersistentTile::of([3, 112, 5, 2]).exchanged().by_pairs(),
    PersistentTile::of([3, 112, 5, 2])
        .exchanged()
        .by_clusters([1, 2]),
    PersistentTile::of([3, 112, 5, 2])
        .exchanged()
        .by_clusters([2, 4]),
];

/// Tiles of `cooperative`: instructions of a warpgroup, columns, stages, buffers of results. Those of two warpgroups are, of the tiles that were timed at 1354 sizes, nine of the twelve that gain most, one after the other
/// (`bench/results/products/tiles.md`), and 256x152 of operands as they are; 256x152 is the largest of 256 rows with four stages. Those of three are, of those timed at 897 sizes, five of the seven that gain most, and 192x208 of operands as they are.
pub(super) const COOPERATIVE: [PersistentTile; 16] = [
    PersistentTile::cooperative([1, 192, 5, 2])
        .exchanged()
        .by_pairs(),
    PersistentTile::cooperative([1, 208, 4, 4])
        .exchanged()
        .by_pairs(),
    PersistentTile::cooperative([2, 112, 4, 4])
        .exchanged()
        .by_clusters([1, 2]),
    PersistentTile::cooperative([2, 112, 4, 4])
        .exchanged()
        .by_clusters([1, 4]),
    PersistentTile::cooperative([2, 136, 4, 1]).by_clusters([1, 2]),
    PersistentTile::cooperative([2, 136, 4, 1])
        .exchanged()
        .by_clusters([1, 2]),
    PersistentTile::cooperative([2, 152, 4, 1]).by_clusters([1, 2]),
    PersistentTile::cooperative([2, 152, 4, 1])
        .exchanged()
        .by_clusters([1, 2]),
    PersistentTile::cooperative([2, 184, 3, 2]).by_clusters([1, 2]),
    PersistentTile::cooperative([2, 184, 3, 2])
        .exchanged()
        .by_clusters([1, 2]),
    PersistentTile::of_three([112, 5, 3])
        .exchanged()
        .by_clusters([1, 4]),
    PersistentTile::of_three([160, 4, 3])
        .exchanged()
        .by_clusters([1, 2]),
    PersistentTile::of_three([176, 4, 3]).exchanged().by_pairs(),
    PersistentTile::of_three([192, 4, 2]).exchanged().by_pairs(),
    PersistentTile::of_three([208, 4, 1]).by_pairs(),
    PersistentTile::of_three([208, 4, 2])
        .exchanged()
        .by_clusters([1, 2]),
];

/// Tiles of `every_other_row`: those that were the fastest most often of 380 sizes on an H200 (`bench/results/products/memory.md`), and others so that there is one of each kind.
pub(super) const EVERY_OTHER_ROW: [PersistentTile; 10] = [
    PersistentTile::of([2, 128, 6, 2]).of_every_other_row(),
    PersistentTile::of([2, 128, 6, 2])
        .by_pairs()
        .of_every_other_row(),
    PersistentTile::of([2, 128, 6, 2])
        .exchanged()
        .of_every_other_row(),
    PersistentTile::of([2, 160, 5, 1])
        .by_clusters([4, 2])
        .of_every_other_row(),
    PersistentTile::of([2, 192, 4, 2]).of_every_other_row(),
    PersistentTile::of([2, 192, 4, 2])
        .by_pairs()
        .of_every_other_row(),
    PersistentTile::of([2, 192, 4, 2])
        .by_clusters([2, 4])
        .of_every_other_row(),
    PersistentTile::of([3, 112, 5, 2])
        .exchanged()
        .by_clusters([2, 4])
        .of_every_other_row(),
    PersistentTile::cooperative([1, 192, 5, 2]).of_every_other_row(),
    PersistentTile::cooperative([1, 256, 4, 2]).of_every_other_row(),
];

/// Tiles of `one_wave`: warpgroups of 64 rows, columns, stages. 64x96 is for few rows by some 12000 columns.
pub(super) const WAVE: [ManyTile; 25] = [
    wave([1, 64, 14]),
    wave([1, 64, 14]).by_pairs(),
    wave([1, 96, 10]),
    wave([1, 128, 9]),
    wave([1, 128, 9]).by_pairs(),
    wave([1, 192, 7]),
    wave([1, 256, 5]),
    wave([2, 32, 11]),
    wave([2, 64, 9]),
    wave([2, 96, 8]),
    wave([2, 96, 8]).by_pairs(),
    wave([2, 128, 7]),
    wave([2, 128, 7]).by_pairs(),
    wave([2, 160, 6]),
    wave([2, 192, 5]),
    wave([2, 192, 5]).by_pairs(),
    wave([2, 224, 4]),
    wave([2, 256, 4]),
    wave([2, 256, 4]).by_pairs(),
    wave([3, 64, 7]),
    wave([3, 80, 6]),
    wave([3, 96, 6]),
    wave([3, 112, 5]),
    wave([3, 128, 5]),
    wave([3, 192, 3]).by_pairs(),
];

/// Tiles of `few_tiles`, each by a CTA and by clusters of 2, 4 and 8 that share the steps along K: warpgroups, columns, stages. Beside what a cluster sends, 128x128 has room for three.
/// Of plans that are equally fast by the model the first is chosen: that with A and B exchanged.
pub(super) const FEW: [FewTile; 32] = by_clusters(&[
    (FewTile::of([1, 16, 8]).exchanged(), 8),
    (FewTile::of([1, 16, 8]), 8),
    (FewTile::of([1, 32, 8]).exchanged(), 8),
    (FewTile::of([1, 32, 8]), 8),
    (FewTile::of([1, 64, 8]).exchanged(), 8),
    (FewTile::of([1, 64, 8]), 8),
    (FewTile::of([1, 128, 6]), 6),
    (FewTile::of([2, 128, 6]), 3),
]);

/// Tiles of `split_k`: warpgroups, columns, stages. Of 48 that were timed on an H200 at 39 products of few tiles with long K they are those that gain most, one after the
/// other (`bench/results/products/split_k.md`).
pub(super) const SPLIT: [SplitTile; 19] = [
    SplitTile::of([1, 64, 14]),
    SplitTile::of([1, 128, 9]),
    SplitTile::of([1, 128, 9]).by_pairs(),
    SplitTile::of([1, 192, 7]).by_pairs(),
    SplitTile::of([2, 64, 9]),
    SplitTile::of([2, 128, 7]),
    SplitTile::of([2, 128, 7]).by_pairs(),
    SplitTile::of([2, 256, 4]),
    SplitTile::of([2, 256, 4]).by_pairs(),
    SplitTile::of([3, 64, 7]),
    SplitTile::of([1, 112, 10]).by_pairs().exchanged(),
    SplitTile::of([1, 144, 8]).by_pairs().exchanged(),
    SplitTile::of([1, 176, 7]).exchanged(),
    SplitTile::of([1, 176, 7]).by_pairs().exchanged(),
    SplitTile::of([1, 208, 6]).exchanged(),
    SplitTile::of([1, 208, 6]).by_pairs().exchanged(),
    SplitTile::of([2, 160, 6]).by_pairs().exchanged(),
    SplitTile::of([2, 176, 5]).exchanged(),
    SplitTile::of([2, 176, 5]).by_pairs().exchanged(),
];

/// Those of clusters that share one operand by fours, or both. They are among those that gain most over 230 products on an H200, one after the other (`bench/results/products/split_k.md`).
pub(super) const SPLIT_BY_CLUSTERS: [SplitTile; 9] = [
    SplitTile::of([1, 80, 12]).by_clusters([2, 2]),
    SplitTile::of([2, 80, 8]).by_clusters([2, 2]),
    SplitTile::of([2, 112, 7]).by_clusters([2, 2]),
    SplitTile::of([2, 144, 6]).by_clusters([2, 2]),
    SplitTile::of([1, 96, 11]).by_clusters([4, 1]),
    SplitTile::of([1, 160, 7]).by_clusters([4, 1]),
    SplitTile::of([2, 96, 7]).by_clusters([4, 2]),
    SplitTile::of([1, 160, 7]).by_clusters([4, 1]).exchanged(),
    SplitTile::of([2, 96, 7]).by_clusters([2, 2]).exchanged(),
];

/// Tiles of `cluster_tiles`: tiles of a cluster along rows and columns; warpgroups, columns, stages. Of some 500 that fit they are those that gain most over 135 shapes by what was timed on an H200, one after the other
/// (`bench/results/products/clusters.md`); those in parts are for few tiles of few rows with long K, 128x160 for N of 257 to 320 and thousands of rows.
pub(super) const CLUSTER: [ClusterTile; 80] = [
    ClusterTile::of([2, 2], [1, 16, 16]).exchanged(),
    ClusterTile::of([2, 4], [1, 16, 16]),
    ClusterTile::of([4, 1], [1, 32, 16]),
    ClusterTile::of([2, 4], [1, 32, 16]),
    ClusterTile::of([4, 1], [1, 32, 12]).in_parts(2),
    ClusterTile::of([1, 8], [1, 48, 15]),
    ClusterTile::of([2, 2], [1, 48, 15]).exchanged(),
    ClusterTile::of([4, 1], [1, 48, 15]).exchanged(),
    ClusterTile::of([4, 2], [1, 48, 15]).exchanged(),
    ClusterTile::of([4, 2], [1, 48, 15]),
    ClusterTile::of([1, 2], [1, 48, 14]).exchanged().in_parts(4),
    ClusterTile::of([1, 1], [1, 48, 14]).exchanged().in_parts(8),
    ClusterTile::of([1, 1], [1, 64, 13]).exchanged(),
    ClusterTile::of([2, 1], [1, 64, 13]).exchanged(),
    ClusterTile::of([1, 8], [1, 64, 13]).exchanged(),
    ClusterTile::of([4, 2], [1, 64, 13]).exchanged(),
    ClusterTile::of([1, 8], [1, 80, 12]),
    ClusterTile::of([2, 4], [1, 80, 12]),
    ClusterTile::of([1, 1], [1, 80, 12]).exchanged(),
    ClusterTile::of([4, 1], [1, 80, 12]).exchanged(),
    ClusterTile::of([2, 4], [1, 80, 12]).exchanged(),
    ClusterTile::of([4, 2], [1, 80, 12]).exchanged(),
    ClusterTile::of([1, 2], [1, 80, 9]).exchanged().in_parts(4),
    ClusterTile::of([1, 1], [1, 80, 9]).in_parts(8),
    ClusterTile::of([1, 2], [1, 96, 11]),
    ClusterTile::of([4, 1], [1, 96, 11]),
    ClusterTile::of([2, 4], [1, 96, 11]),
    ClusterTile::of([2, 4], [1, 96, 11]).exchanged(),
    ClusterTile::of([4, 2], [1, 96, 11]).exchanged(),
    ClusterTile::of([4, 2], [1, 96, 11]),
    ClusterTile::of([2, 1], [1, 96, 8]).in_parts(4),
    ClusterTile::of([2, 1], [1, 96, 8]).exchanged().in_parts(4),
    ClusterTile::of([1, 4], [1, 112, 10]),
    ClusterTile::of([2, 4], [1, 112, 10]),
    ClusterTile::of([4, 1], [1, 112, 10]).exchanged(),
    ClusterTile::of([2, 4], [1, 112, 10]).exchanged(),
    ClusterTile::of([2, 2], [1, 112, 7]).exchanged().in_parts(2),
    ClusterTile::of([1, 1], [1, 112, 7]).exchanged().in_parts(8),
    ClusterTile::of([8, 1], [1, 128, 9]).exchanged(),
    ClusterTile::of([2, 2], [1, 144, 8]),
    ClusterTile::of([2, 4], [1, 144, 8]),
    ClusterTile::of([4, 2], [1, 144, 8]),
    ClusterTile::of([4, 2], [1, 144, 8]).exchanged(),
    ClusterTile::of([8, 1], [1, 144, 8]).exchanged(),
    ClusterTile::of([2, 4], [1, 144, 8]).exchanged(),
    ClusterTile::of([4, 1], [2, 32, 11]).exchanged(),
    ClusterTile::of([4, 1], [2, 48, 10]).exchanged(),
    ClusterTile::of([1, 1], [2, 64, 9]).exchanged(),
    ClusterTile::of([1, 2], [2, 64, 9]).exchanged(),
    ClusterTile::of([2, 1], [2, 64, 9]).exchanged(),
    ClusterTile::of([4, 1], [2, 64, 9]).exchanged(),
    ClusterTile::of([1, 4], [2, 80, 8]),
    ClusterTile::of([2, 2], [2, 80, 8]),
    ClusterTile::of([2, 4], [2, 80, 8]),
    ClusterTile::of([8, 1], [2, 80, 8]).exchanged(),
    ClusterTile::of([4, 2], [2, 80, 8]).exchanged(),
    ClusterTile::of([2, 4], [2, 112, 7]),
    ClusterTile::of([1, 4], [2, 112, 7]).exchanged(),
    ClusterTile::of([4, 2], [2, 112, 7]).exchanged(),
    ClusterTile::of([1, 2], [2, 160, 6]),
    ClusterTile::of([2, 2], [2, 160, 6]),
    ClusterTile::of([2, 1], [2, 176, 5]).exchanged(),
    ClusterTile::of([4, 1], [2, 192, 5]),
    ClusterTile::of([1, 2], [3, 16, 8]).exchanged(),
    ClusterTile::of([1, 4], [3, 32, 7]).exchanged(),
    ClusterTile::of([1, 2], [3, 48, 7]).exchanged(),
    ClusterTile::of([2, 4], [3, 48, 7]).exchanged(),
    ClusterTile::of([4, 2], [3, 48, 7]),
    ClusterTile::of([1, 2], [3, 80, 6]).exchanged(),
    ClusterTile::of([1, 4], [3, 80, 6]).exchanged(),
    ClusterTile::of([2, 2], [3, 80, 6]).exchanged(),
    ClusterTile::of([4, 2], [3, 80, 6]).exchanged(),
    ClusterTile::of([2, 2], [3, 112, 5]).exchanged(),
    ClusterTile::of([1, 2], [3, 128, 5]).exchanged(),
    ClusterTile::of([1, 1], [3, 144, 5]),
    ClusterTile::of([1, 2], [3, 176, 4]),
    ClusterTile::of([1, 2], [3, 176, 4]).exchanged(),
    ClusterTile::of([1, 1], [3, 208, 4]).exchanged(),
    ClusterTile::of([1, 1], [3, 224, 4]),
    ClusterTile::of([1, 2], [3, 224, 4]).exchanged(),
];

/// Tiles of `copied_tiles`: columns, CTAs of a cluster, and whether A and B are exchanged. Of 96 columns some twice as many warps copy.
pub(super) const COPIED: [CopiedTile; 11] = [
    CopiedTile::of(32, 8, true),
    CopiedTile::of(32, 8, false),
    CopiedTile::of(64, 1, false),
    CopiedTile::of(64, 2, false),
    CopiedTile::of(64, 4, false),
    CopiedTile::of(64, 8, false),
    CopiedTile::of(96, 1, false),
    CopiedTile::of(96, 2, false),
    CopiedTile::of(96, 4, false),
    CopiedTile::of(96, 8, false),
    CopiedTile::of(128, 1, false),
];

/// Tiles of `any_rows`: warpgroups, columns.
pub(super) const ANY: [AnyTile; 5] = [
    AnyTile::of([1, 32]),
    AnyTile::of([1, 64]),
    AnyTile::of([1, 128]),
    AnyTile::of([2, 64]),
    AnyTile::of([2, 128]),
];

/// Tiles of `precise`: warpgroups, columns, stages, stages of small parts of B. Those with A and B exchanged are for few rows.
pub(super) const PRECISE: [PreciseTile; 8] = [
    PreciseTile::of([2, 16, 10, 4]).exchanged(),
    PreciseTile::of([2, 32, 8, 4]),
    PreciseTile::of([2, 32, 8, 4]).exchanged(),
    PreciseTile::of([2, 64, 6, 3]),
    PreciseTile::of([2, 128, 5, 2]),
    PreciseTile::of([2, 128, 5, 2]).in_turns(),
    PreciseTile::of([2, 160, 4, 2]),
    PreciseTile::of([2, 160, 4, 2]).in_turns(),
];

/// Tiles of `precise_parts`.
pub(super) const PRECISE_PARTS: [PreciseTile; 5] = [
    PreciseTile::of([2, 16, 10, 4]).exchanged(),
    PreciseTile::of([2, 32, 8, 4]).exchanged(),
    PreciseTile::of([2, 64, 6, 3]),
    PreciseTile::of([2, 64, 6, 3]).exchanged(),
    PreciseTile::of([2, 128, 5, 2]),
];

const fn wave([groups, columns, stages]: [usize; 3]) -> ManyTile {
    ManyTile::of([groups, INSTRUCTION_ROWS, columns, stages])
}

/// CTAs that share the steps along K of a tile.
const CLUSTERS: [usize; 4] = [1, 2, 4, 8];

/// Each of these tiles by one CTA, and by clusters with so many stages a CTA.
const fn by_clusters(tiles: &[(FewTile, usize); 8]) -> [FewTile; 32] {
    let mut all = [tiles[0].0; 32];
    let mut at = 0;
    while at < all.len() {
        let (tile, in_cluster) = tiles[at / CLUSTERS.len()];
        let ctas = CLUSTERS[at % CLUSTERS.len()];
        all[at] = if ctas > 1 {
            tile.by(ctas, in_cluster)
        } else {
            tile
        };
        at += 1;
    }
    all
}
