//! Which kernel and tile compute a product over several ranks, in how many CTAs, and the memory it takes on each rank.

use std::fmt;

use tilekit::target::SM_90A;

use crate::collectives::plan::{BYTES_PER_US, START_US};
use crate::products::dense::ManyTile;
use crate::products::ending::adders;
use crate::products::factor::{INSTRUCTION_ROWS, STAGE_BYTES};
use crate::products::few_tiles::FewTile;
use crate::products::instances::Instance;
use crate::products::need::Need;
use crate::products::plan::{MULTIPROCESSORS, Plan, resident};

use super::across::{SLOTS, is_in_two_steps, sent_packets};
use super::check::Kind;
use super::gather::{PIECE_ROWS, RING, SEGMENT};
use super::mail::MOST_RANKS;
use super::one_shot::{packets_of_part, parts_of};
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
    fn fitted(self, tile: [usize; 4]) -> Option<ManyTile> {
        let ([groups, rows, columns, most], tile) = (tile, ManyTile::of(tile));
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

    /// Bytes that a rank sends.
    fn sent_bytes(self, need: &Need) -> usize {
        let ([m, n, k], others) = (need.size, need.batches - 1);
        match self {
            Kind::Gather => 2 * others * m * k,
            Kind::Scatter => 2 * others * m * n,
            Kind::Reduce => 4 * others * m * n,
        }
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

/// Of the time until it is needed, the part in which all has to be sent, rests and the time of the link together.
const LATEST: f64 = 0.9;

/// What a piece takes of the warp that sends it, rests aside, in microseconds: measured between four H100 (`bench/results/several_gpus.md`).
const PIECE_US: f64 = 1.3;

/// The part of a product that belongs to other ranks.
fn share_of_others(ranks: usize) -> f64 {
    (ranks - 1) as f64 / ranks as f64
}

/// Tiles of a rank's rows that each CTA computes at least where sending is spread: where there are fewer, what is sent is needed sooner than that.
const WAVES: usize = 2;

/// In place of a rest: until a piece has been stored, so that a link that is busy all the time has no more of a CTA to do than that piece.
pub(super) const UNTIL_STORED: i32 = -1;

/// How a product over ranks is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Planned {
    pub(super) tile: ManyTile,
    /// CTAs on each of the ranks.
    pub(super) ctas: usize,
    /// Nanoseconds for which a warp that sends rests behind each piece, or [`UNTIL_STORED`].
    pub(super) pause: i32,
    /// What the product takes by the model.
    product_us: f64,
}

/// By which kernel ranks add up their products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Each rank sends all it has to every other one, which adds it ([`product_one_shot`](super::product_one_shot)): few rows.
    OneShot(FewTile),
    /// Sums pass from rank to rank, and then results ([`product_scatter`](super::product_scatter)).
    TwoShot(ManyTile),
}

/// How [`multiply_reduce`](super::Parallel::multiply_reduce) computes a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReducePlan {
    /// Which kernel, with its tile.
    pub variant: Variant,
    /// CTAs on each rank.
    pub ctas: usize,
    /// Bytes that each rank sends.
    pub sent_bytes: usize,
    /// What the model expects, in microseconds.
    pub modelled_us: f64,
}

impl fmt::Display for ReducePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.variant {
            Variant::OneShot(tile) => write!(f, "OneShot {tile}")?,
            Variant::TwoShot(tile) => write!(f, "TwoShot {tile}")?,
        }
        let ReducePlan {
            ctas,
            sent_bytes,
            modelled_us,
            ..
        } = self;
        write!(
            f,
            " in {ctas} CTAs, {sent_bytes} bytes sent by each rank, {modelled_us:.1} us by the model"
        )
    }
}

/// Columns and stages of tiles of [`product_one_shot`](super::product_one_shot), of 64 rows.
const ONE_SHOT: [(usize, usize); 4] = [(16, 8), (32, 8), (64, 8), (128, 6)];

/// What a launch that copies a matrix takes at least, in microseconds.
const COPY_US: f64 = 4.0;

/// The way of a word to another rank, its poll and its sum, in microseconds.
const STEP_US: f64 = START_US[4] - START_US[3];

/// CTAs of a cluster.
const CLUSTERS: [usize; 4] = [1, 2, 4, 8];

/// Bytes of a multiprocessor's shared memory that a CTA of [`product_one_shot`](super::product_one_shot) takes.
fn shared_bytes(tile: FewTile) -> usize {
    let stages = tile.stages * (INSTRUCTION_ROWS + tile.columns) * STAGE_BYTES;
    let adders = adders(tile.columns, tile.ctas);
    // Columns for each CTA that adds, and what it gets; alone it changes the layout of its sums.
    let exchanged = if tile.ctas > 1 {
        tile.columns + tile.ctas * (tile.columns / adders)
    } else {
        tile.columns
    };
    stages + exchanged * INSTRUCTION_ROWS * size_of::<f32>() + BESIDES
}

/// A sum over ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summed {
    /// Rows of the sum, N and K of a rank.
    pub(super) size: [usize; 3],
    pub(super) ranks: usize,
    /// Elements of A follow each other along M, those of B along N.
    pub(super) is_mn_major: [bool; 2],
    pub(super) multiprocessors: usize,
}

impl Summed {
    /// Every way, that with the least time by the model first.
    pub(super) fn plans(self) -> Vec<ReducePlan> {
        let mut plans: Vec<ReducePlan> = self.one_shot().chain([self.two_shot()]).collect();
        plans.sort_by(|x, y| x.modelled_us.total_cmp(&y.modelled_us));
        plans
    }

    /// All CTAs of a launch wait for those of other ranks, and so are resident.
    fn one_shot(self) -> impl Iterator<Item = ReducePlan> {
        let [m, n, _] = self.size;
        let need = Need {
            is_mn_major: self.is_mn_major,
            ..Need::of_16_bits(self.size)
        };
        let tiles = ONE_SHOT.into_iter();
        let tiles = tiles.flat_map(|tile| CLUSTERS.into_iter().map(move |ctas| (tile, ctas)));
        tiles.filter_map(move |((columns, stages), ctas)| {
            let tile = FewTile {
                ctas,
                groups: 1,
                columns,
                stages,
                turned: true,
            };
            let plan = Plan::able(Instance::Few(tile), &need)?;
            let of_one = SM_90A.sm.shared_bytes as usize / shared_bytes(tile);
            let room = resident(ctas) * self.multiprocessors / MULTIPROCESSORS * of_one.min(2);
            let all = plan.grid.iter().product();
            // The columns of a part are those that one CTA adds up.
            let of_part = columns / adders(columns, ctas);
            let sent_bytes = 8 * sent_packets(m * n, of_part, self.ranks);
            let start_us = if is_in_two_steps(of_part, self.ranks) {
                START_US[0] + STEP_US
            } else {
                START_US[0]
            };
            (all <= room).then_some(ReducePlan {
                variant: Variant::OneShot(tile),
                ctas: all,
                sent_bytes,
                modelled_us: plan.microseconds + start_us + sent_bytes as f64 / BYTES_PER_US,
            })
        })
    }

    /// As many rows for each rank; where they are not divided evenly, A and C are copied.
    fn two_shot(self) -> ReducePlan {
        let ([m, n, k], peers) = (self.size, self.ranks - 1);
        let is_even = m.is_multiple_of(self.ranks);
        let [a_is_mn_major, b_is_mn_major] = self.is_mn_major;
        let need = Need {
            batches: self.ranks,
            is_mn_major: [a_is_mn_major && is_even, b_is_mn_major],
            ..Need::of_16_bits([m.div_ceil(self.ranks), n, k])
        };
        let planned = Planned::best(Kind::Reduce, &need, self.multiprocessors);
        let sent_bytes = 4 * m * n * peers / self.ranks;
        // Sums are hidden, and some of the results are not (`bench/results/several_gpus.md`); of products of one wave of tiles nothing is.
        let link_us = sent_bytes as f64 / BYTES_PER_US;
        let [rows, columns] = planned.tile.shape();
        let tiles = self.ranks * need.size[0].div_ceil(rows) * n.div_ceil(columns);
        let waves = tiles as f64 / planned.ctas as f64;
        let behind_us = link_us * (1.0 / waves).clamp(0.25, 1.0);
        let copies_us = if is_even { 0.0 } else { 2.0 * COPY_US };
        ReducePlan {
            variant: Variant::TwoShot(planned.tile),
            ctas: planned.ctas,
            sent_bytes,
            modelled_us: START_US[2] + planned.product_us.max(link_us) + behind_us + copies_us,
        }
    }
}

/// Packets of all slots of [`product_one_shot`](super::product_one_shot).
pub(super) fn packets(tile: FewTile, ranks: usize, size: [usize; 2]) -> usize {
    SLOTS * ranks * parts_of(tile, size) * packets_of_part(tile)
}

/// The products of the rows of all ranks as one, if the tile can compute them: a rank's rows begin at a tile, and all of them share B.
fn whole_product(tile: ManyTile, need: &Need) -> Option<Plan> {
    let (instance, [m, n, k]) = (Instance::Many(tile), need.size);
    let rows = tile.shape()[0];
    Plan::able(instance, need)?;
    let whole = Need {
        size: [need.batches * m.next_multiple_of(rows), n, k],
        batches: 1,
        ..*need
    };
    let plan = Plan::of(instance, &whole);
    // Loads of boxes half of which are outside of a matrix are slow.
    let times = if 2 * m <= rows { 2.0 } else { 1.0 };
    Some(Plan {
        microseconds: times * plan.microseconds,
        ..plan
    })
}

/// Tiles of products with a collective: warpgroups, rows of each, columns, stages.
const TILES: [[usize; 4]; 6] = [
    [2, 64, 256, 4],
    [3, 64, 192, 3],
    [2, 128, 160, 3],
    [2, 64, 192, 4],
    [3, 64, 176, 3],
    [2, 64, 128, 6],
];

impl Planned {
    /// Of the tiles that fit, that with the least time by the model of products.
    pub(super) fn best(kind: Kind, need: &Need, multiprocessors: usize) -> Planned {
        let tiles = TILES.into_iter().filter_map(|tile| kind.fitted(tile));
        let plans = tiles.filter_map(|tile| Some((tile, whole_product(tile, need)?)));
        let best = plans.min_by(|(_, x), (_, y)| x.microseconds.total_cmp(&y.microseconds));
        let (tile, plan) = best.expect("tiles of 128 x 256 take operands of any order");
        let planned = Planned {
            tile,
            ctas: plan.grid[0].clamp(1, multiprocessors),
            pause: 0,
            product_us: plan.microseconds,
        };
        let rests = kind.rests(&planned, need);
        let [m, n, _] = need.size;
        let [rows, columns] = tile.shape();
        let of_a_rank = m.div_ceil(rows) * n.div_ceil(columns);
        if rests == 0 || of_a_rank < planned.ctas {
            return planned;
        }
        // What is sent is needed when this rank has multiplied for all others.
        let until_needed = plan.microseconds * share_of_others(need.batches);
        let link_us = kind.sent_bytes(need) as f64 / BYTES_PER_US;
        let left = until_needed * LATEST - link_us;
        let spread = if of_a_rank < WAVES * planned.ctas {
            0.0
        } else {
            (until_needed * SENDING).min(left)
        };
        let pause = match kind {
            // A link that takes as long as the product is kept just below what it can take.
            Kind::Gather => spread.max(link_us - rests as f64 * PIECE_US),
            // Sums have no time for that: a tile is sent once it is done, from the buffer of the next one.
            Kind::Scatter | Kind::Reduce if left <= 0.0 => {
                return Planned {
                    pause: UNTIL_STORED,
                    ..planned
                };
            }
            Kind::Scatter | Kind::Reduce => spread,
        };
        let pause = pause.max(0.0) * 1e3 / rests as f64;
        Planned {
            pause: pause as i32,
            ..planned
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::ACTIVATIONS;

    /// Python makes the memory that the kernels access.
    #[test]
    fn python_has_the_same_sizes() {
        let python = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../python");
        // A package of this crate alone is without it.
        if !python.exists() {
            return;
        }
        let path = python.join("emulate/python/tilekit/kernels/parallel.py");
        let text = std::fs::read_to_string(path).expect("the functions of Python");
        let depth = STAGE_BYTES / 2;
        let said = format!(
            "DEPTH, SEGMENT, PACKET_ROWS, PACKET_SLOTS = {depth}, {SEGMENT}, {INSTRUCTION_ROWS}, {SLOTS}"
        );
        assert!(text.contains(&said), "{said}");
        let names =
            ACTIVATIONS.map(|activation| format!("{:?}", format!("{activation:?}").to_lowercase()));
        let said = format!("_ACTIVATIONS = ({})", names.join(", "));
        assert!(text.contains(&said), "{said}");
    }

    fn plans(size: [usize; 3], ranks: usize) -> Vec<ReducePlan> {
        let summed = Summed {
            size,
            ranks,
            is_mn_major: [false; 2],
            multiprocessors: 132,
        };
        summed.plans()
    }

    fn is_one_shot(plan: &ReducePlan) -> bool {
        matches!(plan.variant, Variant::OneShot(_))
    }

    /// Rests that were measured to be the best of six, where the link takes 0.7 of the product's time, and those where there is time enough.
    #[test]
    fn senders_of_rows_rest_even_where_the_link_is_busy_all_the_time() {
        let pause = |kind, size, batches| {
            let need = Need {
                batches,
                ..Need::of_16_bits(size)
            };
            Planned::best(kind, &need, 132).pause
        };
        assert!((1600..2000).contains(&pause(Kind::Gather, [2048, 2560, 8192], 4)));
        assert!((2500..4500).contains(&pause(Kind::Gather, [4096, 5120, 8192], 2)));
        assert_eq!(pause(Kind::Scatter, [2048, 8192, 2048], 4), UNTIL_STORED);
        assert!(pause(Kind::Scatter, [2048, 8192, 7168], 4) > 2500);
    }

    #[test]
    fn few_rows_are_added_at_once_and_many_pass_from_rank_to_rank() {
        for ranks in [2, 4, 8] {
            for (n, k) in [(8192, 8192 / ranks), (8192, 28672 / ranks), (5120, 2048)] {
                for m in [1, 16, 24, 64] {
                    assert!(is_one_shot(&plans([m, n, k], ranks)[0]), "{m} {n} {k}");
                }
                assert!(!is_one_shot(&plans([8192, n, k], ranks)[0]), "{n} {k}");
            }
        }
    }

    /// B is read once for the rows of all ranks: narrow tiles, of which there are enough for all CTAs, took 56 us and wide ones 77.
    #[test]
    fn all_ctas_have_tiles_of_few_hundred_rows() {
        let plans = plans([256, 8192, 4096], 2);
        let two_shot = plans.iter().find(|plan| !is_one_shot(plan));
        let two_shot = two_shot.expect("sums of any size pass from rank to rank");
        assert_eq!(two_shot.ctas, 128, "{two_shot}");
    }

    /// 45 and not 64 us: a launch of one wave of tiles hides nothing of what it sends.
    #[test]
    fn tiles_that_are_half_outside_are_not_taken_for_a_hundred_rows() {
        assert!(is_one_shot(&plans([128, 8192, 4096], 2)[0]));
    }

    #[test]
    fn rows_need_not_be_divided_evenly() {
        assert!(is_one_shot(&plans([7, 512, 64], 2)[0]));
        let many = plans([4099, 8192, 64], 2);
        assert!(!many.is_empty() && !many.iter().any(is_one_shot));
        assert!(!is_one_shot(&plans([33, 16384, 512], 8)[0]));
    }

    #[test]
    fn no_launch_has_more_ctas_than_are_resident() {
        for m in 1..=256 {
            for n in [64, 8192, 16384, 30000] {
                for plan in plans([m, n, 512], 2) {
                    assert!((1..=264).contains(&plan.ctas), "{plan}");
                }
            }
        }
    }
}
