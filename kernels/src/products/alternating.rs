//! Products with many tiles whose end would show: a persistent kernel in which each of two warpgroups has a tile of its own. They take turns at the tensor cores, so that one multiplies all steps of its tile
//! while the other stores. Tiles may be exchanged, so that their columns, in steps of 8, are rows of C.

use std::fmt;

use tilekit::prelude::*;

use super::dense::{PAIR, rows_of_group, write_ctas};
use super::epilogue::{Data, Epilogue};
use super::factor::{INSTRUCTION_ROWS, Operand, ResultOf, depth};
use super::finished::Finished;
use super::form::{Form, inside, swizzle_of};
use super::settled::are_settled;

/// Warpgroups that take turns.
const GROUPS: usize = 2;

/// Instructions along the rows of a tile. Results of one are stored at a time.
const HALVES: usize = 2;

/// A tile of [`alternating`]: `[128, columns]` of one warpgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AlternatingTile {
    /// Columns.
    pub columns: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// Buffers for results of 64 rows, of which a tile has two.
    pub buffers: usize,
    /// CTAs of a cluster, whose tiles are one above the other: each loads its share of the columns and multicasts it to all.
    pub ctas: usize,
    /// A and B are exchanged: rows of the tile are columns of C.
    pub turned: bool,
}

impl AlternatingTile {
    /// Of columns, stages and buffers, for CTAs without clusters.
    pub const fn of([columns, stages, buffers]: [usize; 3]) -> Self {
        AlternatingTile {
            columns,
            stages,
            buffers,
            ctas: 1,
            turned: false,
        }
    }

    /// The same of A and B exchanged.
    #[must_use]
    pub const fn exchanged(self) -> Self {
        AlternatingTile {
            turned: true,
            ..self
        }
    }

    /// The same for each CTA of pairs.
    #[must_use]
    pub const fn by_pairs(self) -> Self {
        AlternatingTile { ctas: PAIR, ..self }
    }

    /// The same beside an epilogue. What it reads of an exchanged result fits the registers beside the sums of 96 columns; programs of a grid for fewer tiles take more of them each.
    pub(crate) fn fitted_beside(self, is_plain: bool) -> Self {
        if is_plain || !self.turned || self.columns <= 96 {
            return self;
        }
        AlternatingTile {
            columns: 96,
            stages: 7,
            buffers: 2,
            ..self
        }
    }

    /// Rows and columns.
    pub fn shape(self) -> [usize; 2] {
        [HALVES * INSTRUCTION_ROWS, self.columns]
    }

    /// Tiles of results of M by N, those of a cluster one by one.
    pub(super) fn count(self, [m, n]: [usize; 2]) -> usize {
        let ([x, y], [rows, columns]) = (if self.turned { [n, m] } else { [m, n] }, self.shape());
        x.div_ceil(rows).next_multiple_of(self.ctas) * y.div_ceil(columns)
    }

    /// Rows of X and of Y that a TMA load takes: those outside of a matrix are filled with zeros slower than others are loaded, and boxes that are outside as a whole need not be.
    pub fn boxes(self) -> [usize; 2] {
        // CTAs of a cluster load as many boxes each.
        let of_columns = if self.columns.is_multiple_of(32) {
            self.columns / 4
        } else if self.columns.is_multiple_of(24 * self.ctas) {
            self.columns / (3 * self.ctas)
        } else {
            self.columns / 2
        };
        [INSTRUCTION_ROWS / 2, of_columns]
    }

    /// Rows and columns of C that leave at a time.
    pub fn stored(self) -> [usize; 2] {
        if self.turned {
            [self.columns, INSTRUCTION_ROWS]
        } else {
            [INSTRUCTION_ROWS, self.columns]
        }
    }

    /// Where half of a tile that begins at `row` and `column` begins in C.
    #[track_caller]
    fn place(self, half: usize, [row, column]: [Scalar<i32>; 2]) -> [Scalar<i32>; 2] {
        let row = row + half * INSTRUCTION_ROWS;
        if self.turned {
            [column, row]
        } else {
            [row, column]
        }
    }
}

impl fmt::Display for AlternatingTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AlternatingTile {
            columns,
            stages,
            buffers,
            ctas,
            turned,
        } = self;
        write!(f, "128x{columns}x{stages}x{buffers}")?;
        write_ctas(f, *ctas)?;
        f.write_str(if *turned { "+turned" } else { "" })
    }
}

/// The tiles of this program, whose warpgroups have every other one of them.
#[derive(Clone, Copy)]
struct Own {
    tile: AlternatingTile,
    order: GroupedRows,
    first: Scalar<i32>,
    /// Programs, or clusters, and so how far its tiles are apart.
    by: Scalar<i32>,
    all: Scalar<i32>,
}

impl Own {
    #[device]
    fn new(tile: AlternatingTile, size: [Scalar<i32>; 2]) -> Self {
        let [rows, columns] = tile.shape();
        let of_cluster = [tile.ctas * rows, columns];
        let order = GroupedRows::new(size, of_cluster, rows_of_group(of_cluster));
        let (first, by) = if tile.ctas > 1 {
            (cluster_id(0), num_clusters(0))
        } else {
            (program_id(0), num_programs(0))
        };
        Own {
            tile,
            order,
            first,
            by,
            all: order.count(),
        }
    }

    #[track_caller]
    fn of_program(self) -> Range<i32> {
        range(self.first, self.all).step(self.by)
    }

    #[track_caller]
    fn of_group(self, group: usize) -> Range<i32> {
        range(self.first + self.by * group, self.all).step(self.by * GROUPS)
    }

    /// Row and column where a tile begins.
    #[device]
    fn place(self, number: Scalar<i32>) -> [Scalar<i32>; 2] {
        let ([rows, columns], [row, column]) = (self.tile.shape(), self.order.place(number));
        let row = if self.tile.ctas > 1 {
            row * self.tile.ctas + cluster_rank()
        } else {
            row
        };
        [row * rows, column * columns]
    }
}

/// `D[M, N] = X[M, K] · Y[N, K]ᵀ`; in a turned tile `C` is the transpose of `D`: the product with X and Y exchanged. TMA loads read zeros outside of a tensor, and TMA stores drop what is written there. Both operands are along K.
#[kernel(warps = 4, cluster = form.tile.ctas, min_ctas_per_sm = 1)]
pub fn alternating<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: Form<AlternatingTile, E>,
    #[block([form.tile.boxes()[0], depth::<T>()], Nvmma::B128)] x: TensorMap<T>,
    #[block([form.tile.boxes()[1], depth::<T>()], Nvmma::B128)] y: TensorMap<T>,
    #[block(form.tile.stored(), swizzle_of::<O>(form.tile.stored()[1]))] c: TensorMap<O>,
    m: i32,
    n: i32,
    k: i32,
    data: Data<O>,
) {
    launch_dependents();
    multiply_in_turns(form, (x, y, c), [m, n, k], data);
}

/// The product, in tiles of one warpgroup each.
#[device]
fn multiply_in_turns<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    form: Form<AlternatingTile, E>,
    (x, y, c): (TensorMap<T>, TensorMap<T>, TensorMap<O>),
    [m, n, k]: [Scalar<i32>; 3],
    data: Data<O>,
) {
    let tile = form.tile;
    let [rows, columns] = tile.shape();
    let buffers = (
        Smem::<T>::alloc([tile.stages, rows, depth::<T>()], x.layout()),
        Smem::<T>::alloc([tile.stages, columns, depth::<T>()], y.layout()),
    );
    // One warpgroup of each CTA reads a stage.
    let readers = Consumers::warpgroups(1).of_ctas(tile.ctas);
    let pipeline = Pipeline::new(buffers, Producers::Tma, readers);
    if tile.ctas > 1 {
        // Others arrive at its mbarriers.
        cluster_barrier_relaxed();
    }
    let halves = Turns::of_warpgroups(GROUPS * HALVES).with_buffers(tile.buffers);
    let epilogue = EpilogueStore::alloc(c, halves);
    let turns = NamedTurns::<GROUPS>::new(128);
    let own = Own::new(tile, [m, n]);
    let steps = steps_along(k, depth::<T>());

    let multiply = |group: usize| {
        if !form.epilogue.is_plain() {
            // What it reads may be of the launch before.
            launch_wait();
        }
        turns.begin(group);
        let mut fill = steps * group;
        let mut turn = epilogue.start();
        for number in own.of_group(group) {
            // Each program has a tile, and so warpgroup 0 its first turn.
            turns.wait(group);
            let (sums, held) = started(pipeline, steps, fill);
            if number + own.by < own.all {
                turns.pass(group);
            }
            let sums = sums.wait_all();
            pipeline.consumer_release_when(steps > 0, held);
            fill += steps * GROUPS;
            let place = own.place(number);
            let parity = turn.parity();
            for half in 0..HALVES {
                let part = sums.slice(0, half * INSTRUCTION_ROWS..(half + 1) * INSTRUCTION_ROWS);
                let finished = Finished {
                    first: tile.place(half, place),
                    batch: scalar(0),
                    size: if tile.turned { [n, m] } else { [m, n] },
                    turned: tile.turned,
                    data,
                };
                let at = epilogue.turn(parity);
                turn = epilogue.fill_by(group * HALVES + half, at, |buffer| {
                    finished.store_part(form.epilogue, part, buffer);
                });
            }
        }
    };
    let store = |group: usize| {
        if are_settled(form.sides) {
            // What it writes, launches in front may read or write.
            launch_wait();
        }
        let mut turn = epilogue.start();
        for number in own.of_group(group) {
            let place = own.place(number);
            let parity = turn.parity();
            for half in 0..HALVES {
                let (at, to) = (epilogue.turn(parity), tile.place(half, place));
                turn = epilogue.store(group * HALVES + half, at, c, to);
            }
        }
    };
    let load = || {
        if !are_settled(form.sides) {
            launch_wait();
        }
        let mut at = pipeline.start();
        for number in own.of_program() {
            let [row, column] = own.place(number);
            for step in range(0, steps) {
                let stage = pipeline.producer_acquire(at);
                let (of_x, of_y) = stage.tiles;
                load_boxes((x, of_x, 1), [row, step], m, stage.full);
                load_boxes((y, of_y, tile.ctas), [column, step], n, stage.full);
                at = pipeline.commit(stage).advance();
            }
        }
        if tile.ctas > 1 {
            pipeline.producer_tail(at);
        }
    };
    warp_specialize()
        .registers(232)
        .main(|| multiply(0))
        .workers(1..GROUPS, Warps(4).registers(232), multiply)
        .worker(Warps(1).registers(40), load)
        .workers(0..GROUPS, Warps(1).registers(40), store)
        .run();
}

/// Loads the rows of a tile from `first` on, in boxes, of which each of `ctas` CTAs loads its share for all. Where a box would lie behind the `end` of the matrix another is loaded, which others wait for.
#[track_caller]
fn load_boxes<T: Operand>(
    (map, tile, ctas): (TensorMap<T>, Smem<T>, usize),
    [first, step]: [Scalar<i32>; 2],
    end: Scalar<i32>,
    full: Mbarrier,
) {
    let (along_k, rows) = (step * depth::<T>(), map.block()[0] as usize);
    let count = tile.shape()[0] as usize / rows;
    let boxes = tile.reinterpret::<T>([count, rows, depth::<T>()], map.layout());
    for number in 0..count / ctas {
        if ctas == 1 {
            let row = inside(first + number * rows, rows, end);
            map.load([row, along_k], boxes.index(number), full);
        } else {
            let number = cluster_rank() * (count / ctas) + number;
            let row = inside(first + number * rows, rows, end);
            let to_all = map.copy().multicast((1 << ctas) - 1);
            to_all.load([row, along_k], boxes.index(number), full);
        }
    }
}

/// The sums of a tile over so many steps, behind fill number `fill`, of which the last product may not have completed, and the stage that it reads. The first product of the next tile follows it.
#[device]
fn started<T: Operand>(
    pipeline: Pipeline<(Smem<T>, Smem<T>)>,
    steps: Scalar<i32>,
    fill: Scalar<i32>,
) -> (Accumulator<T::Sum>, Held) {
    let (of_x, of_y) = pipeline.payload();
    let [rows, columns] = [of_x, of_y].map(|tiles| tiles.shape()[1] as usize);
    let mut at = pipeline.of_fill(fill);
    let mut before = pipeline.nothing_held(&at);
    let mut acc = T::zeros([rows, columns], columns);
    for step in range(0, steps) {
        let stage = pipeline.consumer_wait(at);
        let (of_x, of_y) = stage.tiles;
        acc = acc.mma(of_x, of_y.transpose()).wait(1);
        let held = stage.hold();
        at = held.next();
        let done = std::mem::replace(&mut before, held);
        pipeline.consumer_release_when(step > 0, done);
    }
    (acc, before)
}
