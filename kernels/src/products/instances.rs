//! The kernels of products that a plan chooses among, by their tiles.

use std::fmt;

use super::any_rows::AnyTile;
use super::dense::ManyTile;
use super::factor::INSTRUCTION_ROWS;
use super::few_tiles::FewTile;
use super::plan::{Loose, Need};
use super::split_k::SplitTile;

/// A kernel of this module, by its tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instance {
    /// [`dense`](super::dense::dense).
    Many(ManyTile),
    /// [`one_wave`](super::one_wave::one_wave).
    Wave(ManyTile),
    /// [`few_tiles`](super::few_tiles::few_tiles).
    Few(FewTile),
    /// [`split_k`](super::split_k::split_k).
    Split(SplitTile),
    /// [`any_rows`](super::any_rows::any_rows).
    Any(AnyTile),
    /// [`dense_pairs`](super::dense::dense_pairs).
    ManyPairs(ManyTile),
    /// [`one_wave_pairs`](super::one_wave::one_wave_pairs).
    WavePairs(ManyTile),
    /// [`split_k_pairs`](super::split_k::split_k_pairs).
    SplitPairs(SplitTile),
}

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
const FEW: [(usize, usize, [usize; 2], bool); 8] = [
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

/// Tiles of `dense_pairs`.
const MANY_PAIRS: [[usize; 4]; 4] = [
    [2, 64, 256, 4],
    [3, 64, 192, 3],
    [2, 128, 160, 3],
    [2, 64, 192, 4],
];

/// Tiles of `one_wave_pairs`.
const WAVE_PAIRS: [[usize; 3]; 6] = [
    [1, 64, 14],
    [1, 128, 9],
    [2, 96, 8],
    [2, 128, 7],
    [2, 192, 5],
    [2, 256, 4],
];

/// Tiles of `split_k_pairs`.
const SPLIT_PAIRS: [[usize; 3]; 3] = [[2, 128, 7], [2, 256, 4], [1, 128, 9]];

/// How many instances are not of `split_k`, `one_wave`, `any_rows` and of pairs.
const WHOLE: usize = MANY.len() + FEW.len() * CLUSTERS.len();

/// How many are not of `one_wave` and `any_rows`.
const BEFORE: usize = WHOLE + SPLIT.len();

/// How many are not of `any_rows` and of pairs.
const MAPPED: usize = BEFORE + WAVE.len();

/// How many are not of pairs.
const ALONE: usize = MAPPED + ANY.len();

/// How many are not of `one_wave_pairs` and `split_k_pairs`.
const OF_MANY: usize = ALONE + MANY_PAIRS.len();

/// How many are not of `split_k_pairs`.
const OF_WAVE: usize = OF_MANY + WAVE_PAIRS.len();

/// All instances, in the order in which a benchmark names them, from 1.
pub const INSTANCES: [Instance; OF_WAVE + SPLIT_PAIRS.len()] = {
    let mut all = [many(MANY[0]); OF_WAVE + SPLIT_PAIRS.len()];
    let mut at = 0;
    while at < MANY.len() {
        all[at] = many(MANY[at]);
        at += 1;
    }
    while at < WHOLE {
        let index = at - MANY.len();
        let (groups, columns, stages, turned) = FEW[index / CLUSTERS.len()];
        let ctas = CLUSTERS[index % CLUSTERS.len()];
        all[at] = Instance::Few(FewTile {
            ctas,
            groups,
            columns,
            stages: stages[(ctas > 1) as usize],
            turned,
        });
        at += 1;
    }
    while at < BEFORE {
        let [groups, columns, stages] = SPLIT[at - WHOLE];
        all[at] = Instance::Split(SplitTile {
            groups,
            columns,
            stages,
        });
        at += 1;
    }
    while at < MAPPED {
        let [groups, columns, stages] = WAVE[at - BEFORE];
        all[at] = Instance::Wave(ManyTile {
            groups,
            rows: INSTRUCTION_ROWS,
            columns,
            stages,
        });
        at += 1;
    }
    while at < ALONE {
        let [groups, columns] = ANY[at - MAPPED];
        all[at] = Instance::Any(AnyTile {
            groups,
            columns,
            units: [1; 3],
        });
        at += 1;
    }
    while at < OF_MANY {
        if let Instance::Many(tile) = many(MANY_PAIRS[at - ALONE]) {
            all[at] = Instance::ManyPairs(tile);
        }
        at += 1;
    }
    while at < OF_WAVE {
        let [groups, columns, stages] = WAVE_PAIRS[at - OF_MANY];
        all[at] = Instance::WavePairs(ManyTile {
            groups,
            rows: INSTRUCTION_ROWS,
            columns,
            stages,
        });
        at += 1;
    }
    while at < all.len() {
        let [groups, columns, stages] = SPLIT_PAIRS[at - OF_WAVE];
        all[at] = Instance::SplitPairs(SplitTile {
            groups,
            columns,
            stages,
        });
        at += 1;
    }
    all
};

const fn many([groups, rows, columns, stages]: [usize; 4]) -> Instance {
    Instance::Many(ManyTile {
        groups,
        rows,
        columns,
        stages,
    })
}

impl Instance {
    /// The instance with as many stages as there is room for beside results of so many bytes; `None` where it cannot compute what is needed.
    pub fn fitted(self, need: &Need) -> Option<Instance> {
        let fits = |is_mn_major: bool, extent: usize| !is_mn_major || extent.is_multiple_of(64);
        match self {
            Instance::Many(tile) => {
                // Results are staged, and those of 4 bytes take the room of a stage or more.
                let stages = if need.element_bytes[1] < 4 {
                    tile.stages
                } else {
                    tile.stages - 1
                };
                let [rows, columns] = tile.shape();
                let [a, b] = need.is_mn_major;
                let is_able = stages >= 3 && fits(a, rows) && fits(b, columns);
                is_able.then_some(Instance::Many(ManyTile { stages, ..tile }))
            }
            Instance::Wave(tile) => {
                // The results of a warpgroup take the room of a stage of B.
                let [rows, columns] = tile.shape();
                let [a, b] = need.is_mn_major;
                let is_able = need.element_bytes[1] <= 2 && fits(a, rows) && fits(b, columns);
                is_able.then_some(self)
            }
            Instance::Few(_) => Some(self),
            Instance::Split(tile) => {
                let [rows, columns] = tile.shape();
                let [a, b] = need.is_mn_major;
                let is_able = need.batches == 1 && fits(a, rows) && fits(b, columns);
                is_able.then_some(self)
            }
            Instance::ManyPairs(tile) => {
                let Instance::Many(tile) = Instance::Many(tile).fitted(need)? else {
                    return None;
                };
                pairs(tile.shape(), need).then_some(Instance::ManyPairs(tile))
            }
            Instance::SplitPairs(tile) => {
                Instance::Split(tile).fitted(need)?;
                pairs(tile.shape(), need).then_some(self)
            }
            Instance::WavePairs(tile) => {
                Instance::Wave(tile).fitted(need)?;
                pairs(tile.shape(), need).then_some(self)
            }
            Instance::Any(tile) => {
                let Loose { units, .. } = need.loose?;
                Some(Instance::Any(AnyTile { units, ..tile }))
            }
        }
    }
}

/// Whether pairs of tiles one above the other compute it: CTAs share columns of one matrix along K.
fn pairs([rows, _]: [usize; 2], need: &Need) -> bool {
    need.batches == 1 && !need.is_mn_major[1] && need.size[0] > rows
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Instance::Many(tile) => {
                let [rows, columns] = tile.shape();
                write!(f, "{rows}x{columns}")
            }
            Instance::Wave(tile) => {
                let [rows, columns] = tile.shape();
                write!(f, "{rows}x{columns} in one wave")
            }
            Instance::ManyPairs(tile) => {
                let [rows, columns] = tile.shape();
                write!(f, "{rows}x{columns} by pairs")
            }
            Instance::WavePairs(tile) => {
                let [rows, columns] = tile.shape();
                write!(f, "{rows}x{columns} in one wave by pairs")
            }
            Instance::Few(tile) => {
                let rows = tile.groups * INSTRUCTION_ROWS;
                let turned = if tile.turned {
                    ", A and B exchanged"
                } else {
                    ""
                };
                let (columns, ctas) = (tile.columns, tile.ctas);
                write!(f, "{rows}x{columns} by {ctas} CTAs along K{turned}")
            }
            Instance::Split(tile) => {
                let [rows, columns] = tile.shape();
                write!(f, "{rows}x{columns} in parts along K")
            }
            Instance::SplitPairs(tile) => {
                let [rows, columns] = tile.shape();
                write!(f, "{rows}x{columns} in parts along K by pairs")
            }
            Instance::Any(tile) => {
                let [rows, columns] = tile.shape();
                write!(f, "{rows}x{columns} of rows that begin anywhere")
            }
        }
    }
}
