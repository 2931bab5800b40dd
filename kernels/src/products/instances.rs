//! The kernels of products that a plan chooses among, by their tiles.

use std::fmt;

use super::any_rows::{AnyTile, DEEP};
use super::cluster_tiles::{ClusterTile, TILES};
use super::copied_tiles::CopiedTile;
use super::dense::ManyTile;
use super::factor::INSTRUCTION_ROWS;
use super::few_tiles::FewTile;
use super::options::Precision;
use super::plan::{Loose, Need};
use super::precise::PreciseTile;
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
    /// [`precise`](super::precise::precise).
    Precise(PreciseTile),
    /// [`cluster_tiles`](super::cluster_tiles::cluster_tiles).
    Cluster(ClusterTile),
    /// [`precise_parts`](super::precise_parts::precise_parts).
    PreciseParts(PreciseTile),
    /// [`copied_tiles`](super::copied_tiles::copied_tiles).
    Copied(CopiedTile),
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

/// Tiles of `dense` alone and by pairs, which were added last: two waves of 1472 x 4864 are all of 132 tiles.
const MANY_LAST: [usize; 4] = [2, 64, 224, 4];

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

/// How many instances are not of `split_k`, `one_wave`, `any_rows` and of pairs.
const WHOLE: usize = MANY.len() + FEW.len() * CLUSTERS.len();

/// How many are not of `one_wave` and `any_rows`.
const BEFORE: usize = WHOLE + SPLIT.len();

/// How many are not of `any_rows` and of pairs.
const MAPPED: usize = BEFORE + WAVE.len();

/// How many are not of pairs.
const ALONE: usize = MAPPED + ANY.len();

/// How many are not of `one_wave` and `split_k` by pairs.
const OF_MANY: usize = ALONE + MANY_PAIRS.len();

/// How many are not of `split_k` by pairs and of `precise`.
const OF_WAVE: usize = OF_MANY + WAVE_PAIRS.len();

/// How many are not of `precise`.
const ROUNDED: usize = OF_WAVE + SPLIT_PAIRS.len();

/// How many are not of `cluster_tiles`.
const BY_ONE: usize = ROUNDED + PRECISE.len();

/// How many are not of `precise` with A and B exchanged and of `precise_parts`.
const OF_CLUSTERS: usize = BY_ONE + TILES.len();

/// How many are not of `precise_parts`.
const UNDIVIDED: usize = OF_CLUSTERS + PRECISE_FEW.len();

/// How many are not of the last of `dense`.
const DIVIDED: usize = UNDIVIDED + PRECISE_PARTS.len();

/// How many are not of `copied_tiles`.
const MAPPED_LAST: usize = DIVIDED + 2;

/// All instances, in the order in which a benchmark names them, from 1.
pub const INSTANCES: [Instance; MAPPED_LAST + COPIED.len()] = {
    let mut all = [Instance::Many(ManyTile::of(MANY_LAST)); MAPPED_LAST + COPIED.len()];
    let mut at = 0;
    while at < MANY.len() {
        all[at] = Instance::Many(ManyTile::of(MANY[at]));
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
        all[at] = Instance::Split(SplitTile::of(SPLIT[at - WHOLE]));
        at += 1;
    }
    while at < MAPPED {
        all[at] = Instance::Wave(wave(WAVE[at - BEFORE]));
        at += 1;
    }
    while at < ALONE {
        let [groups, columns] = ANY[at - MAPPED];
        all[at] = Instance::Any(AnyTile {
            groups,
            columns,
            units: [1; 3],
            depth: DEEP,
        });
        at += 1;
    }
    while at < OF_MANY {
        all[at] = Instance::Many(ManyTile::of(MANY_PAIRS[at - ALONE]).by_pairs());
        at += 1;
    }
    while at < OF_WAVE {
        all[at] = Instance::Wave(wave(WAVE_PAIRS[at - OF_MANY]).by_pairs());
        at += 1;
    }
    while at < ROUNDED {
        all[at] = Instance::Split(SplitTile::of(SPLIT_PAIRS[at - OF_WAVE]).by_pairs());
        at += 1;
    }
    while at < BY_ONE {
        let (tile, in_turns) = PRECISE[at - ROUNDED];
        let tile = PreciseTile::of(tile);
        let tile = if in_turns { tile.in_turns() } else { tile };
        all[at] = Instance::Precise(tile);
        at += 1;
    }
    while at < OF_CLUSTERS {
        all[at] = Instance::Cluster(TILES[at - BY_ONE]);
        at += 1;
    }
    while at < UNDIVIDED {
        let tile = PreciseTile::of(PRECISE_FEW[at - OF_CLUSTERS]);
        all[at] = Instance::Precise(tile.exchanged());
        at += 1;
    }
    while at < DIVIDED {
        let (tile, turned) = PRECISE_PARTS[at - UNDIVIDED];
        let tile = PreciseTile::of(tile);
        let tile = if turned { tile.exchanged() } else { tile };
        all[at] = Instance::PreciseParts(tile);
        at += 1;
    }
    all[DIVIDED + 1] = Instance::Many(ManyTile::of(MANY_LAST).by_pairs());
    at = MAPPED_LAST;
    while at < all.len() {
        let (columns, ctas, turned) = COPIED[at - MAPPED_LAST];
        all[at] = Instance::Copied(CopiedTile::of(columns, ctas, turned));
        at += 1;
    }
    all
};

const fn wave([groups, columns, stages]: [usize; 3]) -> ManyTile {
    ManyTile::of([groups, INSTRUCTION_ROWS, columns, stages])
}

impl Instance {
    /// Whether results leave through shared memory by TMA.
    pub(super) fn stores_by_tma(self) -> bool {
        matches!(self, Instance::Many(_) | Instance::Wave(_))
    }

    /// The instance with as many stages as there is room for beside results of so many bytes; `None` where it cannot compute what is needed.
    pub fn fitted(self, need: &Need) -> Option<Instance> {
        let fits = |is_mn_major: bool, extent: usize| !is_mn_major || extent.is_multiple_of(64);
        let takes = |[rows, columns]: [usize; 2], ctas: usize| {
            let [a, b] = need.is_mn_major;
            // CTAs of a cluster share columns of one matrix along K.
            let are_shared = need.batches == 1 && !b && need.size[0] > rows;
            fits(a, rows) && fits(b, columns) && (ctas == 1 || are_shared)
        };
        let is_precise = matches!(self, Instance::Precise(_) | Instance::PreciseParts(_));
        if is_precise != (need.precision == Precision::Tf32x3) {
            return None;
        }
        match self {
            Instance::Many(tile) => {
                // Results are staged, and those of 4 bytes take the room of a stage or more.
                let stages = if need.element_bytes[1] < 4 {
                    tile.stages
                } else {
                    tile.stages - 1
                };
                let is_able = stages >= 3 && takes(tile.shape(), tile.ctas);
                is_able.then_some(Instance::Many(ManyTile { stages, ..tile }))
            }
            Instance::Wave(tile) => {
                // The results of a warpgroup take the room of a stage of B.
                let is_able = need.element_bytes[1] <= 2 && takes(tile.shape(), tile.ctas);
                is_able.then_some(self)
            }
            Instance::Few(_) | Instance::Precise(_) => Some(self),
            Instance::Split(tile) => {
                let is_able = need.batches == 1 && takes(tile.shape(), tile.ctas);
                is_able.then_some(self)
            }
            Instance::Cluster(tile) => {
                let is_along_k = need.batches == 1 && need.is_mn_major == [false; 2];
                let tile = tile.fitted(need.element_bytes);
                is_along_k.then_some(Instance::Cluster(tile))
            }
            Instance::PreciseParts(_) => (need.batches == 1).then_some(self),
            Instance::Copied(tile) => {
                let Loose {
                    units, is_mn_major, ..
                } = need.loose?;
                let is_along_k = need.batches == 1 && is_mn_major == [false; 2];
                let tile = tile.with_units(units);
                // `cp.async` copies 4 bytes or more.
                let goes_by_pairs = tile.units[..2].iter().all(|&unit| unit > 1);
                let [m, n, _] = need.size;
                let is_measured = tile.is_for([m, n], need.steps());
                let is_able = is_along_k && goes_by_pairs && is_measured;
                is_able.then_some(Instance::Copied(tile))
            }
            Instance::Any(tile) => {
                let Loose { units, .. } = need.loose?;
                Some(Instance::Any(tile.fitted(units, need.size[2])))
            }
        }
    }
}

/// What is said of tiles whose CTAs share columns.
fn by_pairs(ctas: usize) -> &'static str {
    if ctas > 1 { " by pairs" } else { "" }
}

/// What is said of tiles whose rows are columns of C.
fn exchanged(is_turned: bool) -> &'static str {
    if is_turned { ", A and B exchanged" } else { "" }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Instance::Many(tile) => {
                let ([rows, columns], pairs) = (tile.shape(), by_pairs(tile.ctas));
                write!(f, "{rows}x{columns}{pairs}")
            }
            Instance::Wave(tile) => {
                let ([rows, columns], pairs) = (tile.shape(), by_pairs(tile.ctas));
                write!(f, "{rows}x{columns} in one wave{pairs}")
            }
            Instance::Few(tile) => {
                let rows = tile.groups * INSTRUCTION_ROWS;
                let (columns, ctas, turned) = (tile.columns, tile.ctas, exchanged(tile.turned));
                write!(f, "{rows}x{columns} by {ctas} CTAs along K{turned}")
            }
            Instance::Split(tile) => {
                let ([rows, columns], pairs) = (tile.shape(), by_pairs(tile.ctas));
                write!(f, "{rows}x{columns} in parts along K{pairs}")
            }
            Instance::Precise(tile) => {
                let [rows, columns] = tile.shape();
                let turns = if tile.turns { " in turns" } else { "" };
                write!(f, "{rows}x{columns} by three products of tf32{turns}")?;
                f.write_str(exchanged(tile.turned))
            }
            Instance::PreciseParts(tile) => {
                let ([rows, columns], turned) = (tile.shape(), exchanged(tile.turned));
                let by = "by three products of tf32 in parts along K";
                write!(f, "{rows}x{columns} {by}{turned}")
            }
            Instance::Cluster(tile) => {
                let ([rows, columns], [x, y]) = (tile.shape(), tile.along);
                write!(f, "{rows}x{columns} by clusters of {x}x{y}")?;
                f.write_str(exchanged(tile.turned))
            }
            Instance::Copied(tile) => {
                let ([rows, columns], ctas) = (tile.shape(), tile.tile.ctas);
                let turned = exchanged(tile.tile.turned);
                write!(
                    f,
                    "{rows}x{columns} by {ctas} CTAs along K of rows that begin anywhere{turned}"
                )
            }
            Instance::Any(tile) => {
                let [rows, columns] = tile.shape();
                write!(f, "{rows}x{columns} of rows that begin anywhere")
            }
        }
    }
}
