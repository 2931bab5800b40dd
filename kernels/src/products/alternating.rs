//! Products with many tiles whose end would show: a persistent kernel in which each of two warpgroups has a tile of its own. They take turns at the tensor cores, so that one multiplies all steps of its tile
//! while the other stores. Tiles may be exchanged, so that their columns, in steps of 8, are rows of C.

use tilekit::prelude::*;

pub use super::alternating_tile::AlternatingTile;
use super::dense::rows_of_group;
use super::epilogue::{Data, Epilogue};
use super::factor::{INSTRUCTION_ROWS, Operand, ResultOf, depth};
use super::finished::Finished;
use super::form::{Form, inside, swizzle_of};
use super::settled::are_settled;

/// Warpgroups that take turns.
const GROUPS: usize = 2;

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
        let ([rows, columns], [along_rows, along_columns]) = (tile.shape(), tile.along);
        let of_cluster = [along_rows * rows, along_columns * columns];
        let order = GroupedRows::new(size, of_cluster, rows_of_group(of_cluster));
        let (first, by) = if tile.ctas() > 1 {
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
        let [along_rows, along_columns] = self.tile.along;
        let [of_row, of_column] = ranks(self.tile.along);
        let row = of_row.map_or(row, |rank| row * along_rows + rank);
        let column = of_column.map_or(column, |rank| column * along_columns + rank);
        [row * rows, column * columns]
    }
}

/// Row and column of this CTA in its cluster, of dimensions with more than one. Ranks of a row are neighbours.
#[track_caller]
fn ranks([along_rows, along_columns]: [usize; 2]) -> [Option<Scalar<i32>>; 2] {
    match [along_rows > 1, along_columns > 1] {
        [false, false] => [None, None],
        [true, false] => [Some(cluster_rank()), None],
        [false, true] => [None, Some(cluster_rank())],
        [true, true] => {
            let rank = cluster_rank();
            [Some(rank / along_columns), Some(rank % along_columns)]
        }
    }
}

/// `D[M, N] = X[M, K] · Y[N, K]ᵀ`; in a turned tile `C` is the transpose of `D`: the product with X and Y exchanged. TMA loads read zeros outside of a tensor, and TMA stores drop what is written there. Both operands are along K.
#[kernel(warps = 4, cluster = form.tile.ctas(), min_ctas_per_sm = 1)]
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
    let mut readers = Consumers::warpgroups(1);
    if tile.ctas() > 1 {
        readers = readers.of_grid(tile.along);
    }
    let pipeline = Pipeline::new(buffers, Producers::Tma, readers);
    if tile.ctas() > 1 {
        // Others arrive at its mbarriers.
        cluster_barrier_relaxed();
    }
    let parts = Turns::of_warpgroups(GROUPS * tile.instructions).with_buffers(tile.buffers);
    let epilogue = EpilogueStore::alloc(c, parts);
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
            for number in 0..tile.instructions {
                let rows = number * INSTRUCTION_ROWS..(number + 1) * INSTRUCTION_ROWS;
                let part = sums.slice(0, rows);
                let finished = Finished {
                    first: tile.place(number, place),
                    batch: scalar(0),
                    size: if tile.turned { [n, m] } else { [m, n] },
                    turned: tile.turned,
                    data,
                };
                let at = epilogue.turn(parity);
                turn = epilogue.fill_by(group * tile.instructions + number, at, |buffer| {
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
            for part in 0..tile.instructions {
                let (at, to) = (epilogue.turn(parity), tile.place(part, place));
                turn = epilogue.store(group * tile.instructions + part, at, c, to);
            }
        }
    };
    let load = || {
        if !are_settled(form.sides) {
            launch_wait();
        }
        let [of_row, of_column] = Share::of_operands(tile.along);
        let mut at = pipeline.start();
        for number in own.of_program() {
            let [row, column] = own.place(number);
            for step in range(0, steps) {
                let stage = pipeline.producer_acquire(at);
                let (of_x, of_y) = stage.tiles;
                load_boxes((x, of_x), of_row, [row, step], m, stage.full);
                load_boxes((y, of_y), of_column, [column, step], n, stage.full);
                at = pipeline.commit(stage).advance();
            }
        }
        if tile.ctas() > 1 {
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

/// Which part of an operand's rows a CTA loads, and to whom: of `ctas` CTAs with the same rows that of `rank`, to all of `mask`.
#[derive(Clone, Copy)]
struct Share {
    ctas: usize,
    rank: Scalar<i32>,
    mask: Scalar<i32>,
}

impl Share {
    /// Of X, which CTAs beside each other have in common, and of Y, which those one above the other have: none where a CTA has it to itself.
    #[track_caller]
    fn of_operands(along @ [along_rows, along_columns]: [usize; 2]) -> [Option<Share>; 2] {
        let [of_row, of_column] = ranks(along);
        let of_x = of_column.map(|rank| {
            let beside = scalar((1 << along_columns) - 1);
            Share {
                ctas: along_columns,
                rank,
                mask: of_row.map_or(beside, |row| beside << (row * along_columns)),
            }
        });
        let of_y = of_row.map(|rank| {
            let below = (0..along_rows).fold(0, |all, row| all | 1 << (row * along_columns));
            let below = scalar(below);
            Share {
                ctas: along_rows,
                rank,
                mask: of_column.map_or(below, |column| below << column),
            }
        });
        [of_x, of_y]
    }
}

/// Loads the rows of a tile from `first` on, in boxes, or this CTA's share of them for all that have them. Where a box would lie behind the `end` of the matrix another is loaded, which others wait for.
#[track_caller]
fn load_boxes<T: Operand>(
    (map, tile): (TensorMap<T>, Smem<T>),
    share: Option<Share>,
    [first, step]: [Scalar<i32>; 2],
    end: Scalar<i32>,
    full: Mbarrier,
) {
    let (along_k, rows) = (step * depth::<T>(), map.block()[0] as usize);
    let count = tile.shape()[0] as usize / rows;
    let boxes = tile.reinterpret::<T>([count, rows, depth::<T>()], map.layout());
    let Some(Share { ctas, rank, mask }) = share else {
        for number in 0..count {
            let row = inside(first + number * rows, rows, end);
            map.load([row, along_k], boxes.index(number), full);
        }
        return;
    };
    for number in 0..count / ctas {
        let number = rank * (count / ctas) + number;
        let row = inside(first + number * rows, rows, end);
        let to_all = map.copy().multicast(mask);
        to_all.load([row, along_k], boxes.index(number), full);
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
