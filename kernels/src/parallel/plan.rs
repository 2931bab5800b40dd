//! Which tile computes a product over several ranks, in how many CTAs, and the memory it takes on each rank.

use tilekit::target::SM_90A;

use crate::products::dense::ManyTile;
use crate::products::factor::STAGE_BYTES;
use crate::products::plan::{Instance, MANY, Need, Plan};

use super::gather::{PIECE_ROWS, RING, SEGMENT};
use super::mail::MOST_RANKS;

/// Memory that all ranks access, of each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shared {
    /// Of the type of the operands.
    pub(super) elements: usize,
    /// Flags.
    pub(super) flags: usize,
}

/// Steps along K, for 16-bit types.
fn steps(k: usize) -> usize {
    (k * 2).div_ceil(STAGE_BYTES)
}

/// What `gather_product` takes for `[m, k]` of each rank.
pub(super) struct Gathering;

impl Gathering {
    pub(super) fn of(tile: ManyTile, ranks: usize, [m, k]: [usize; 2]) -> Shared {
        let [rows, _] = tile.shape();
        let blocks = (ranks - 1) * m.div_ceil(rows);
        Shared {
            elements: blocks * steps(k) * rows * STAGE_BYTES / 2,
            flags: MOST_RANKS + blocks * steps(k).div_ceil(SEGMENT),
        }
    }
}

/// What `product_scatter` takes for `[m, n]` of each rank.
pub(super) struct Scattering;

impl Scattering {
    pub(super) fn of(tile: ManyTile, ranks: usize, [m, n]: [usize; 2]) -> Shared {
        let [rows, columns] = tile.shape();
        let tiles = (ranks - 1) * m.div_ceil(rows) * n.div_ceil(columns);
        Shared {
            elements: tiles * rows * columns,
            flags: MOST_RANKS + tiles * tile.groups,
        }
    }
}

/// Bytes of mbarriers and what aligns buffers.
const BESIDES: usize = 2048;

/// What a kernel has in shared memory beside its stages.
#[derive(Clone, Copy)]
pub(super) enum Beside {
    /// Results of one warpgroup, and pieces that are sent.
    Pieces,
    /// Results of all warpgroups.
    Results,
}

impl Beside {
    fn bytes(self, tile: ManyTile) -> usize {
        let results = tile.rows * tile.columns * 2;
        match self {
            Beside::Pieces => results + RING * PIECE_ROWS * STAGE_BYTES,
            Beside::Results => tile.groups * results,
        }
    }

    /// The tile with as many stages as there is room for, if that is enough of them.
    fn fitted(self, [groups, rows, columns, most]: [usize; 4]) -> Option<ManyTile> {
        let tile = ManyTile {
            groups,
            rows,
            columns,
            stages: most,
        };
        // A bulk copy takes a power of two of elements.
        let copied = match self {
            Beside::Pieces => groups * rows,
            Beside::Results => rows * columns,
        };
        let room = SM_90A.cta.shared_bytes as usize - BESIDES - self.bytes(tile);
        let stage = (groups * rows + columns) * STAGE_BYTES;
        let stages = (room / stage).min(most);
        (stages >= 3 && copied.is_power_of_two()).then_some(ManyTile { stages, ..tile })
    }
}

/// The tile, and CTAs on each of the ranks: of the tiles that fit, that with the least time by the model of products, where each rank has `ranks` products of `[m, n, k]`.
pub(super) fn plan(
    beside: Beside,
    ranks: usize,
    size: [usize; 3],
    is_mn_major: [bool; 2],
    multiprocessors: usize,
) -> (ManyTile, usize) {
    let need = Need {
        batches: ranks,
        is_mn_major,
        ..Need::of_16_bits(size)
    };
    let tiles = MANY.into_iter().filter_map(|tile| beside.fitted(tile));
    let plans = tiles.filter_map(|tile| Some((tile, Plan::able(Instance::Many(tile), &need)?)));
    let best = plans.min_by(|(_, x), (_, y)| x.microseconds.total_cmp(&y.microseconds));
    let (tile, plan) = best.expect("tiles of 128 x 256 take operands of any order");
    (tile, plan.grid[0].clamp(1, multiprocessors))
}
