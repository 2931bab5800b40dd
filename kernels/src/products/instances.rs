//! The kernels of products that a plan chooses among, by their tiles.

use std::fmt;

use super::any_rows::{AnyTile, DEEP};
use super::cluster_tiles::{ClusterTile, IN_PARTS, TILE_LAST, TILES};
use super::copied_tiles::CopiedTile;
use super::dense::ManyTile;
use super::factor::INSTRUCTION_ROWS;
use super::few_tiles::FewTile;
use super::options::Precision;
use super::plan::{Loose, Need};
use super::precise::PreciseTile;
use super::split_k::SplitTile;
use super::tiles::{
    ANY, COPIED, FEW, MANY, MANY_BETWEEN, MANY_LARGE, MANY_LAST, MANY_PAIRS, PRECISE, PRECISE_FEW,
    PRECISE_PARTS, SPLIT, SPLIT_PAIRS, WAVE, WAVE_FEW, WAVE_PAIRS,
};

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
    MANY_BETWEEN by many,
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
                if tile.parts > 1 {
                    write!(f, " and {} along K", tile.parts)?;
                }
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
