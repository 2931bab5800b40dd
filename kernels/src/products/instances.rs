//! The kernels of products that a plan chooses among, by their tiles.

use std::fmt;

use super::any_rows::AnyTile;
use super::cluster_tiles::ClusterTile;
use super::copied_tiles::CopiedTile;
use super::dense::{ManyTile, PAIR};
use super::epilogue_kind::{Finishing, Together};
use super::factor::{BLOCK, INSTRUCTION_ROWS, UNIT_BYTES};
use super::few_tiles::FewTile;
use super::need::{Loose, Need};
use super::options::Precision;
use super::persistent_tile::PersistentTile;
use super::precise::PreciseTile;
use super::split_k::SplitTile;
use super::tiles::{
    ALTERNATING, ANY, CLUSTER, COOPERATIVE, COPIED, EVERY_OTHER_ROW, FEW, MANY, PRECISE,
    PRECISE_PARTS, SPLIT, SPLIT_BY_CLUSTERS, WAVE,
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
    /// [`alternating`](super::alternating::alternating), or [`cooperative`](super::cooperative::cooperative) of tiles of two or three warpgroups; of every other row [`every_other_row`](super::every_other_row::every_other_row).
    Persistent(PersistentTile),
}

/// The instances of all tiles of these lists, one list after the other.
macro_rules! instances {
    ($($list:ident by $kernel:ident),* $(,)?) => {
        /// All instances, a kernel after the other. Cases and benchmarks count them from 1 ([`number`](Instance::number)); records of `tune` name them by their text.
        pub const INSTANCES: [Instance; 0 $(+ $list.len())*] = {
            let mut all = [Instance::Many(MANY[0]); 0 $(+ $list.len())*];
            let mut at = 0;
            $(
                let mut index = 0;
                while index < $list.len() {
                    all[at] = Instance::$kernel($list[index]);
                    at += 1;
                    index += 1;
                }
            )*
            all
        };
    };
}

instances! {
    MANY by Many,
    WAVE by Wave,
    FEW by Few,
    SPLIT by Split,
    CLUSTER by Cluster,
    COPIED by Copied,
    ANY by Any,
    PRECISE by Precise,
    PRECISE_PARTS by PreciseParts,
    ALTERNATING by Persistent,
    COOPERATIVE by Persistent,
    EVERY_OTHER_ROW by Persistent,
    SPLIT_BY_CLUSTERS by Split,
}

impl Instance {
    /// Its number, from 1: its place in [`INSTANCES`].
    ///
    /// # Panics
    /// If it is not there: a case that names such a tile does not compile.
    pub const fn number(self) -> usize {
        let mut at = 0;
        while at < INSTANCES.len() {
            if self.is(INSTANCES[at]) {
                return at + 1;
            }
            at += 1;
        }
        panic!("no instance has this tile")
    }

    /// Equality of constants, which `PartialEq` is not for.
    const fn is(self, other: Instance) -> bool {
        let (ours, others) = (self.fields(), other.fields());
        let mut at = 0;
        while at < ours.len() {
            if ours[at] != others[at] {
                return false;
            }
            at += 1;
        }
        true
    }

    /// Its kernel, and the fields of its tile by which instances of that kernel differ.
    const fn fields(self) -> [usize; 10] {
        match self {
            Instance::Many(t) => [0, t.groups, t.rows, t.columns, t.stages, t.ctas, 0, 0, 0, 0],
            Instance::Wave(t) => [1, t.groups, t.rows, t.columns, t.stages, t.ctas, 0, 0, 0, 0],
            Instance::Few(t) => {
                let turned = t.turned as usize;
                [2, t.groups, t.columns, t.stages, t.ctas, turned, 0, 0, 0, 0]
            }
            Instance::Split(t) => {
                let turned = t.turned as usize;
                let [x, y] = t.along;
                [3, t.groups, t.columns, t.stages, x, y, turned, 0, 0, 0]
            }
            Instance::Cluster(t) => {
                let ([x, y], turned) = (t.along, t.turned as usize);
                [
                    4, x, y, t.parts, t.groups, t.columns, t.stages, turned, 0, 0,
                ]
            }
            Instance::Copied(CopiedTile { tile: t, .. }) => {
                let turned = t.turned as usize;
                [5, t.groups, t.columns, t.stages, t.ctas, turned, 0, 0, 0, 0]
            }
            Instance::Any(t) => [6, t.groups, t.columns, 0, 0, 0, 0, 0, 0, 0],
            Instance::Precise(t) => {
                let [turns, turned] = [t.turns as usize, t.turned as usize];
                [
                    7, t.groups, t.columns, t.stages, t.rests, turns, turned, 0, 0, 0,
                ]
            }
            Instance::PreciseParts(t) => {
                let [turns, turned] = [t.turns as usize, t.turned as usize];
                [
                    8, t.groups, t.columns, t.stages, t.rests, turns, turned, 0, 0, 0,
                ]
            }
            Instance::Persistent(t) => {
                let turned = t.turned as usize;
                [
                    9,
                    t.groups,
                    t.instructions,
                    t.columns,
                    t.stages,
                    t.buffers,
                    t.along[0],
                    t.along[1],
                    turned,
                    t.every_other_row as usize,
                ]
            }
        }
    }

    /// Whether the threads that finish a row of its tiles have all columns of C that are finished together.
    fn has_together(self, columns: Together) -> bool {
        let of_block = match columns {
            Together::HalvedBlocks => 2 * BLOCK,
            _ => BLOCK,
        };
        let whole_blocks = |columns: usize| columns.is_multiple_of(of_block);
        match columns {
            Together::One => true,
            Together::Pairs => !self.turned(),
            // Buffers of results of persistent tiles are as wide as what is multiplied.
            Together::Halves => !self.turned() && !matches!(self, Instance::Persistent(_)),
            Together::Blocks | Together::HalvedBlocks => match self {
                Instance::Many(tile) | Instance::Wave(tile) => whole_blocks(tile.columns),
                Instance::Few(tile) | Instance::Copied(CopiedTile { tile, .. }) => {
                    !tile.turned && tile.ctas == 1 && whole_blocks(tile.columns)
                }
                Instance::Cluster(tile) => {
                    !tile.turned && tile.parts == 1 && whole_blocks(tile.columns)
                }
                // Parts of a tile, some of its columns each, are finished apart, or registers do not hold those of a block.
                _ => false,
            },
        }
    }

    /// Whether TMA stores, if there are such, are of rows of whole units.
    fn stores_whole_units(self, need: &Need) -> bool {
        let columns = match self {
            Instance::Many(tile) | Instance::Wave(tile) => tile.columns,
            Instance::Persistent(tile) => tile.stored()[1],
            _ => return true,
        };
        let columns = match need.together {
            Together::Halves | Together::HalvedBlocks => columns / 2,
            Together::One | Together::Pairs | Together::Blocks => columns,
        };
        (columns * need.element_bytes[1]).is_multiple_of(UNIT_BYTES)
    }

    /// Whether rows of its tiles are columns of the result.
    fn turned(self) -> bool {
        match self {
            Instance::Many(_) | Instance::Wave(_) | Instance::Any(_) => false,
            Instance::Few(tile) | Instance::Copied(CopiedTile { tile, .. }) => tile.turned,
            Instance::Split(tile) => tile.turned,
            Instance::Cluster(tile) => tile.turned,
            Instance::Precise(tile) | Instance::PreciseParts(tile) => tile.turned,
            Instance::Persistent(tile) => tile.turned,
        }
    }

    /// Whether results leave through shared memory by TMA.
    pub(super) fn stores_by_tma(self) -> bool {
        matches!(
            self,
            Instance::Many(_) | Instance::Wave(_) | Instance::Persistent(_)
        )
    }

    /// The instance with as many stages as there is room for beside results of so many bytes; `None` where it cannot compute what is needed.
    pub fn fitted(self, need: &Need) -> Option<Instance> {
        let fits = |is_mn_major: bool, extent: usize| !is_mn_major || extent.is_multiple_of(64);
        // Those of i8 are products of 16 columns, of which 8-bit floats are not told apart here.
        let multiplies = |columns: usize| need.element_bytes[0] > 1 || columns.is_multiple_of(16);
        let takes = |[rows, columns]: [usize; 2], ctas: usize| {
            let [a, b] = need.is_mn_major;
            // CTAs of a cluster share columns of one matrix along K.
            let are_shared = need.batches == 1 && !b && need.size[0] > rows;
            let lie_so = fits(a, rows) && fits(b, columns) && multiplies(columns);
            lie_so && (ctas == 1 || are_shared)
        };
        let is_precise = matches!(self, Instance::Precise(_) | Instance::PreciseParts(_));
        if is_precise != (need.precision == Precision::Tf32x3) || !self.has_together(need.together)
        {
            return None;
        }
        if !self.stores_whole_units(need) {
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
                // Exchanged, either operand may be shared, and both are along K.
                let is_along_k = need.is_mn_major == [false; 2];
                let is_taken = if tile.turned || tile.along[1] > 1 {
                    is_along_k
                } else {
                    takes(tile.shape(), tile.along[0])
                };
                let is_able = is_taken && tile.is_divided() && multiplies(tile.columns);
                (need.batches == 1 && is_able).then_some(self)
            }
            Instance::Cluster(tile) => {
                let is_along_k = need.batches == 1 && need.is_mn_major == [false; 2];
                let tile = tile.fitted(need.element_bytes);
                let is_able = is_along_k && multiplies(tile.columns_of_instruction());
                is_able.then_some(Instance::Cluster(tile))
            }
            Instance::PreciseParts(_) => (need.batches == 1).then_some(self),
            Instance::Persistent(tile) => {
                let is_along_k = need.batches == 1 && need.is_mn_major == [false; 2];
                let [m, n, _] = need.size;
                let size = tile.divided([m, n]);
                // No CTA of a cluster has tiles that are all outside of the matrix.
                let is_inside =
                    |axis: usize| size[axis] > (tile.along[axis] - 1) * tile.shape()[axis];
                let are_shared = tile.ctas() == 1 || (is_inside(0) && is_inside(1));
                // Results of 4 bytes have no room.
                let has_room =
                    need.element_bytes[1] <= 2 && multiplies(tile.columns_of_instruction());
                let has_registers =
                    need.finishing == Finishing::Nothing || tile.fits_beside_epilogue();
                let takes_rows = !tile.every_other_row || tile.takes_every_other_row(need);
                let is_able = is_along_k && are_shared && has_room && has_registers && takes_rows;
                is_able.then_some(self)
            }
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

/// The same of tiles of clusters along rows and along columns.
fn write_clusters(f: &mut fmt::Formatter<'_>, [x, y]: [usize; 2]) -> fmt::Result {
    match [x, y] {
        [1, 1] => Ok(()),
        [PAIR, 1] => f.write_str(by_pairs(PAIR)),
        _ => write!(f, " by clusters of {x}x{y}"),
    }
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
                let [rows, columns] = tile.shape();
                write!(f, "{rows}x{columns} in parts along K")?;
                write_clusters(f, tile.along)?;
                f.write_str(exchanged(tile.turned))
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
            Instance::Persistent(tile) => {
                let [rows, columns] = tile.shape();
                let schedule = if tile.groups > 1 {
                    "cooperative"
                } else {
                    "in turns"
                };
                write!(f, "{rows}x{columns} {schedule}")?;
                write_clusters(f, tile.along)?;
                if tile.every_other_row {
                    f.write_str(", every other row")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// So no two are alike in what `number` compares.
    #[test]
    fn every_instance_has_the_number_of_its_place() {
        let numbers = INSTANCES.map(Instance::number);
        assert_eq!(numbers.to_vec(), (1..=INSTANCES.len()).collect::<Vec<_>>());
    }

    /// There is no product of 152 columns of i8: a call of i8 with results of 16 bits failed where 256x152 was planned.
    #[test]
    fn products_of_bytes_have_multiples_of_16_columns() {
        let need = Need {
            element_bytes: [1, 2],
            ..Need::of_16_bits([3000, 5000, 4096])
        };
        let of_words = Need::of_16_bits(need.size);
        let odd = |need: &Need| {
            let fitted = INSTANCES
                .iter()
                .filter_map(|instance| instance.fitted(need));
            let columns = fitted.filter_map(|instance| match instance {
                Instance::Many(tile) => Some(tile.columns),
                Instance::Persistent(tile) => Some(tile.columns),
                _ => None,
            });
            columns
                .filter(|columns| !columns.is_multiple_of(16))
                .count()
        };
        assert_eq!(odd(&need), 0);
        assert!(odd(&of_words) > 0);
    }

    /// Records and benchmarks name instances by their text.
    #[test]
    fn every_instance_has_a_text_of_its_own() {
        let mut texts = INSTANCES.map(|instance| instance.to_string()).to_vec();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), INSTANCES.len());
    }
}
