//! Which tile computes a product over several ranks, in how many CTAs, and the memory it takes on each rank.

use tilekit::target::SM_90A;

use crate::products::dense::ManyTile;
use crate::products::factor::STAGE_BYTES;
use crate::products::plan::{Instance, MANY, Need, Plan};

use super::check::Kind;
use super::gather::{PIECE_ROWS, RING, SEGMENT};
use super::mail::MOST_RANKS;
use super::scatter::PIECES;

/// Memory that all ranks access, of each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    /// Of the type of the operands.
    pub(crate) elements: usize,
    /// Flags.
    pub(crate) flags: usize,
}

/// Steps along K, for 16-bit types.
fn steps(k: usize) -> usize {
    (k * 2).div_ceil(STAGE_BYTES)
}

impl Kind {
    /// What its kernel takes for `[m, n, k]` of each rank.
    pub(super) fn shared(self, tile: ManyTile, ranks: usize, [m, n, k]: [usize; 3]) -> Shared {
        let [rows, columns] = tile.shape();
        let (of_one, others) = (m.div_ceil(rows), ranks - 1);
        match self {
            Kind::Gather => Shared {
                elements: others * of_one * steps(k) * rows * STAGE_BYTES / 2,
                flags: MOST_RANKS + others * of_one * steps(k).div_ceil(SEGMENT),
            },
            Kind::Scatter | Kind::Reduce => {
                // Results are sent too.
                let times = if self == Kind::Reduce { 2 } else { 1 };
                let tiles = times * others * of_one * n.div_ceil(columns);
                Shared {
                    elements: tiles * rows * columns,
                    flags: MOST_RANKS + tiles * tile.groups,
                }
            }
        }
    }
}

/// Bytes of mbarriers and what aligns buffers.
const BESIDES: usize = 2048;

impl Kind {
    /// Bytes of shared memory beside the stages of a tile.
    fn bytes_beside(self, tile: ManyTile) -> usize {
        let results = tile.rows * tile.columns * 2;
        match self {
            // Results of one warpgroup, and pieces that are sent.
            Kind::Gather => results + RING * PIECE_ROWS * STAGE_BYTES,
            Kind::Scatter | Kind::Reduce => tile.groups * results,
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
            Kind::Gather => groups * rows,
            Kind::Scatter | Kind::Reduce => rows * columns,
        };
        let room = SM_90A.cta.shared_bytes as usize - BESIDES - self.bytes_beside(tile);
        let stage = (groups * rows + columns) * STAGE_BYTES;
        let stages = (room / stage).min(most);
        (stages >= 3 && copied.is_power_of_two()).then_some(ManyTile { stages, ..tile })
    }

    /// How often a warp rests in a launch, at most.
    fn rests(self, plan: &Planned, need: &Need) -> usize {
        let ([m, n, k], others) = (need.size, need.batches - 1);
        let [rows, columns] = plan.tile.shape();
        match self {
            Kind::Gather => {
                let pieces = others * m.div_ceil(PIECE_ROWS) * steps(k);
                pieces.div_ceil(plan.ctas)
            }
            Kind::Scatter | Kind::Reduce => {
                let tiles = others * m.div_ceil(rows) * n.div_ceil(columns);
                tiles.div_ceil(plan.ctas) * PIECES
            }
        }
    }
}

/// Of the time in which something is sent, the part over which it is spread. A link that is full holds up the loads of the multiprocessors that send.
const SENDING: f64 = 0.6;

/// Tiles of a rank's rows that each CTA computes at least where sending is spread: where there are fewer, what is sent is needed sooner than that.
const WAVES: usize = 2;

/// How a product over ranks is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) tile: ManyTile,
    /// CTAs on each of the ranks.
    pub(super) ctas: usize,
    /// Nanoseconds for which a warp that sends rests behind each piece.
    pub(super) pause: i32,
}

impl Planned {
    /// Of the tiles that fit, that with the least time by the model of products, where each rank has a batch of as many products as there are ranks.
    pub(super) fn best(kind: Kind, need: &Need, multiprocessors: usize) -> Planned {
        let tiles = MANY.into_iter().filter_map(|tile| kind.fitted(tile));
        let plans = tiles.filter_map(|tile| Some((tile, Plan::able(Instance::Many(tile), need)?)));
        let best = plans.min_by(|(_, x), (_, y)| x.microseconds.total_cmp(&y.microseconds));
        let (tile, plan) = best.expect("tiles of 128 x 256 take operands of any order");
        let planned = Planned {
            tile,
            ctas: plan.grid[0].clamp(1, multiprocessors),
            pause: 0,
        };
        let rests = kind.rests(&planned, need);
        let [m, n, _] = need.size;
        let [rows, columns] = tile.shape();
        let of_a_rank = m.div_ceil(rows) * n.div_ceil(columns);
        if rests == 0 || of_a_rank < WAVES * planned.ctas {
            return planned;
        }
        // What is sent is needed when this rank has multiplied for all others.
        let share = (need.batches - 1) as f64 / need.batches as f64;
        let pause = plan.microseconds * 1e3 * share * SENDING / rests as f64;
        Planned {
            pause: pause as i32,
            ..planned
        }
    }
}
