//! The tiles of all kernels that a plan chooses among.

use super::any_rows::{AnyTile, DEEP};
use super::cluster_tiles::{ClusterTile, IN_PARTS, TILE_LAST, TILES};
use super::copied_tiles::CopiedTile;
use super::dense::ManyTile;
use super::factor::INSTRUCTION_ROWS;
use super::few_tiles::FewTile;
use super::instances::Instance;
use super::precise::PreciseTile;
use super::split_k::SplitTile;

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
const SPLIT: [[usize; 3]; 5] = [
    [2, 128, 7],
    [2, 64, 9],
    [2, 256, 4],
    [1, 128, 9],
    [1, 64, 14],
];

/// Tiles of `one_wave`: warpgroups of 64 rows, columns, stages.
const WAVE: [[usize; 3]; 13] = [
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
const ANY: [[usize; 2]; 5] = [[1, 32], [1, 64], [1, 128], [2, 64], [2, 128]];

/// Tiles of `dense` by pairs.
const MANY_PAIRS: [[usize; 4]; 4] = [
    [2, 64, 256, 4],
    [3, 64, 192, 3],
    [2, 128, 160, 3],
    [2, 64, 192, 4],
];

/// Tiles of `one_wave` by pairs.
const WAVE_PAIRS: [[usize; 3]; 6] = [
    [1, 64, 14],
    [1, 128, 9],
    [2, 96, 8],
    [2, 128, 7],
    [2, 192, 5],
    [2, 256, 4],
];

/// Tiles of `split_k` by pairs.
const SPLIT_PAIRS: [[usize; 3]; 3] = [[2, 128, 7], [2, 256, 4], [1, 128, 9]];

/// Tiles of `precise`: warpgroups, columns, stages, stages of small parts of B; whether warpgroups take turns.
const PRECISE: [([usize; 4], bool); 6] = [
    ([2, 128, 5, 2], false),
    ([2, 160, 4, 2], false),
    ([2, 64, 6, 3], false),
    ([2, 32, 8, 4], false),
    ([2, 128, 5, 2], true),
    ([2, 160, 4, 2], true),
];

/// Tiles of `precise` with A and B exchanged, for few rows.
const PRECISE_FEW: [[usize; 4]; 2] = [[2, 32, 8, 4], [2, 16, 10, 4]];

/// Tiles of `precise_parts`, and whether A and B are exchanged.
const PRECISE_PARTS: [([usize; 4], bool); 5] = [
    ([2, 128, 5, 2], false),
    ([2, 64, 6, 3], false),
    ([2, 64, 6, 3], true),
    ([2, 32, 8, 4], true),
    ([2, 16, 10, 4], true),
];

/// Tiles of `dense` alone and by pairs: two waves of 1472 x 4864 are all of 132 tiles.
const MANY_LAST: [([usize; 4], bool); 2] = [([2, 64, 224, 4], false), ([2, 64, 224, 4], true)];

/// Tiles of `copied_tiles`: columns, CTAs of a cluster, and whether A and B are exchanged.
const COPIED: [(usize, usize, bool); 7] = [
    (128, 1, false),
    (64, 1, false),
    (64, 2, false),
    (64, 4, false),
    (64, 8, false),
    (32, 8, true),
    (32, 8, false),
];

/// The tile of `dense` of which one wave holds what is two of smaller ones: 1163 x 4624 is 125 of it.
const MANY_LARGE: [[usize; 4]; 1] = [[2, 128, 192, 3]];

/// The tile of `one_wave` for few rows by some 12000 columns.
const WAVE_FEW: [[usize; 3]; 1] = [[1, 96, 10]];

/// All tiles of `few_tiles`: each by as many CTAs as share steps along K.
const FEW: [FewTile; SHARED_ALONG_K.len() * CLUSTERS.len()] = {
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

const fn many(tile: [usize; 4]) -> Instance {
    Instance::Many(ManyTile::of(tile))
}

const fn many_by_pairs(tile: [usize; 4]) -> Instance {
    Instance::Many(ManyTile::of(tile).by_pairs())
}

const fn many_by((tile, by_pairs): ([usize; 4], bool)) -> Instance {
    if by_pairs {
        many_by_pairs(tile)
    } else {
        many(tile)
    }
}

const fn wave([groups, columns, stages]: [usize; 3]) -> Instance {
    Instance::Wave(ManyTile::of([groups, INSTRUCTION_ROWS, columns, stages]))
}

const fn wave_by_pairs([groups, columns, stages]: [usize; 3]) -> Instance {
    let tile = ManyTile::of([groups, INSTRUCTION_ROWS, columns, stages]);
    Instance::Wave(tile.by_pairs())
}

const fn few(tile: FewTile) -> Instance {
    Instance::Few(tile)
}

const fn split(tile: [usize; 3]) -> Instance {
    Instance::Split(SplitTile::of(tile))
}

const fn split_by_pairs(tile: [usize; 3]) -> Instance {
    Instance::Split(SplitTile::of(tile).by_pairs())
}

const fn any([groups, columns]: [usize; 2]) -> Instance {
    Instance::Any(AnyTile {
        groups,
        columns,
        units: [1; 3],
        depth: DEEP,
    })
}

const fn precise((tile, in_turns): ([usize; 4], bool)) -> Instance {
    let tile = PreciseTile::of(tile);
    Instance::Precise(if in_turns { tile.in_turns() } else { tile })
}

const fn precise_exchanged(tile: [usize; 4]) -> Instance {
    Instance::Precise(PreciseTile::of(tile).exchanged())
}

const fn precise_parts((tile, turned): ([usize; 4], bool)) -> Instance {
    let tile = PreciseTile::of(tile);
    Instance::PreciseParts(if turned { tile.exchanged() } else { tile })
}

const fn cluster(tile: ClusterTile) -> Instance {
    Instance::Cluster(tile)
}

const fn copied((columns, ctas, turned): (usize, usize, bool)) -> Instance {
    Instance::Copied(CopiedTile::of(columns, ctas, turned))
}

/// The instances of all tiles of these lists, one list after the other.
macro_rules! instances {
    ($($list:ident by $instance:ident),* $(,)?) => {
        /// All instances, in the order in which a benchmark names them, from 1.
        pub const INSTANCES: [Instance; 0 $(+ $list.len())*] = {
            let mut all = [many(MANY[0]); 0 $(+ $list.len())*];
            let mut at = 0;
            $(
                let mut index = 0;
                while index < $list.len() {
                    all[at] = $instance($list[index]);
                    at += 1;
                    index += 1;
                }
            )*
            all
        };
    };
}

// New lists come last, since cases name instances by number.
instances! {
    MANY by many,
    FEW by few,
    SPLIT by split,
    WAVE by wave,
    ANY by any,
    MANY_PAIRS by many_by_pairs,
    WAVE_PAIRS by wave_by_pairs,
    SPLIT_PAIRS by split_by_pairs,
    PRECISE by precise,
    TILES by cluster,
    PRECISE_FEW by precise_exchanged,
    PRECISE_PARTS by precise_parts,
    MANY_LAST by many_by,
    COPIED by copied,
    MANY_LARGE by many,
    WAVE_FEW by wave,
    IN_PARTS by cluster,
    TILE_LAST by cluster,
}
