//! What persistent kernels of tiles of any width share: which tiles a program has, its ring of stages, and how results leave. [`alternating`](super::alternating::alternating) has a tile for each of two warpgroups
//! (pingpong), [`cooperative`](super::cooperative::cooperative) one for all.

use std::ops;

use tilekit::prelude::*;

use super::epilogue::{DataOf, Epilogue};
use super::factor::{Operand, ResultOf, Stored, depth, unit};
use super::finished::Finished;
use super::form::Form;
use super::multicast::{Share, load_boxes, tile_of_cluster};
use super::persistent_tile::PersistentTile;
use super::raster;
use super::registers::registers_of;
use super::settled::are_settled;

/// Consumer warpgroups that take turns.
pub(super) const GROUPS: usize = 2;

/// The tiles of this program.
#[derive(Clone, Copy)]
pub(super) struct Own {
    tile: PersistentTile,
    /// Columns of C that 16 bytes hold.
    unit: usize,
    order: GroupedRows,
    first: Scalar<i32>,
    /// Programs, or clusters, and so how far its tiles are apart.
    pub(super) by: Scalar<i32>,
    pub(super) all: Scalar<i32>,
}

impl Own {
    #[device]
    fn new((tile, unit): (PersistentTile, usize), size: [Scalar<i32>; 2]) -> Self {
        let ([rows, columns], [along_rows, along_columns]) = (tile.shape(), tile.along);
        let of_cluster = [along_rows * rows, along_columns * columns];
        let [m, n] = size;
        let size = match (tile.every_other_row, tile.turned) {
            (false, _) => [m, n],
            (true, false) => [cdiv(m, 2), n],
            (true, true) => [m, cdiv(n, 2)],
        };
        let order = raster::ordered(size, of_cluster, tile.ctas());
        let (first, by) = if tile.ctas() > 1 {
            (cluster_id(0), num_clusters(0))
        } else {
            (program_id(0), num_programs(0))
        };
        Own {
            tile,
            unit,
            order,
            first,
            by,
            all: order.count() * tile.rows_apart(),
        }
    }

    #[track_caller]
    fn of_program(self) -> Range<i32> {
        range(self.first, self.all).step(self.by)
    }

    /// Those of a warpgroup: every other one, or all that they multiply together.
    #[track_caller]
    pub(super) fn of_group(self, group: usize) -> Range<i32> {
        if self.tile.groups > 1 {
            return self.of_program();
        }
        range(self.first + self.by * group, self.all).step(self.by * GROUPS)
    }

    /// Row and column where a tile begins.
    #[device]
    pub(super) fn place(self, number: Scalar<i32>) -> [Scalar<i32>; 2] {
        let [rows, columns] = self.tile.shape();
        if self.tile.every_other_row {
            // Those of even and of odd rows take turns, so that rows of C that follow each other leave at about the same time.
            let is_odd = number % 2;
            let [row, column] = self.place_in_order(number / 2);
            let in_front = |first: Scalar<i32>| maximum(first - is_odd * self.unit, 0);
            if self.tile.turned {
                [in_front(row * rows), column * (2 * columns) + is_odd]
            } else {
                [row * (2 * rows) + is_odd, in_front(column * columns)]
            }
        } else {
            let [row, column] = self.place_in_order(number);
            [row * rows, column * columns]
        }
    }

    /// Row and column of a tile among those of as many rows.
    #[device]
    fn place_in_order(self, number: Scalar<i32>) -> [Scalar<i32>; 2] {
        tile_of_cluster(self.order.place(number), self.tile.along)
    }
}

/// A product and what the partitions of a CTA share.
#[derive(Clone, Copy)]
pub(super) struct Persistent<T: Operand, O: Stored, E: Epilogue<O>> {
    form: Form<PersistentTile, E>,
    maps: (TensorMap<T>, TensorMap<T>, TensorMap<O>),
    /// M and N, or in a turned tile N and M.
    size: [Scalar<i32>; 2],
    data: DataOf<O, E>,
    pub(super) pipeline: Pipeline<(Smem<T>, Smem<T>)>,
    epilogue: EpilogueStore<O>,
    /// The map by which the first tiles of odd rows are stored, which ends where the next tiles begin.
    first: Option<TensorMap<O>>,
    pub(super) own: Own,
    pub(super) steps: Scalar<i32>,
}

impl<T: Operand, O: ResultOf<T>, E: Epilogue<O>> Persistent<T, O, E> {
    #[device]
    pub(super) fn new(
        form: Form<PersistentTile, E>,
        maps: (TensorMap<T>, TensorMap<T>, TensorMap<O>),
        [m, n, k]: [Scalar<i32>; 3],
        data: DataOf<O, E>,
    ) -> Self {
        let (tile, (x, y, c)) = (form.tile, maps);
        let [rows, columns] = tile.loaded();
        let buffers = (
            Smem::<T>::alloc([tile.stages, rows, depth::<T>()], x.layout()),
            Smem::<T>::alloc([tile.stages, columns, depth::<T>()], y.layout()),
        );
        let mut readers = Consumers::warpgroups(tile.groups);
        if tile.ctas() > 1 {
            readers = readers.of_grid(tile.along);
        }
        let pipeline = Pipeline::new(buffers, Producers::Tma, readers);
        if tile.ctas() > 1 {
            // Others arrive at its mbarriers.
            cluster_barrier_relaxed();
        }
        let parts = Turns::of_warpgroups(tile.parts()).with_buffers(tile.buffers);
        Persistent {
            form,
            maps,
            size: [m, n],
            data,
            pipeline,
            epilogue: EpilogueStore::alloc(c, parts),
            first: None,
            own: Own::new((tile, unit::<O>()), [m, n]),
            steps: steps_along(k, depth::<T>()),
        }
    }

    /// The same of tiles of every other row.
    pub(super) fn with_first(self, first: TensorMap<O>) -> Self {
        Persistent {
            first: Some(first),
            ..self
        }
    }

    /// Runs `multiply` by the consumer warpgroups, beside a warp that loads and one for each of them that stores.
    #[track_caller]
    pub(super) fn run(self, multiply: impl Fn(usize)) {
        let groups = self.form.tile.warpgroups();
        let [of_consumers, of_others] = registers_of(groups);
        warp_specialize()
            .registers(of_consumers)
            .main(|| multiply(0))
            .workers(1..groups, Warps(4).registers(of_consumers), &multiply)
            .worker(Warps(1).registers(of_others), || self.load())
            .workers(0..groups, Warps(1).registers(of_others), |group| {
                self.store(group);
            })
            .run();
    }

    /// Rows of a tile that a warpgroup multiplies.
    pub(super) fn rows(self, group: usize) -> ops::Range<usize> {
        self.form.tile.rows(group)
    }

    /// Waits where the epilogue reads what may be of the launch before.
    #[track_caller]
    pub(super) fn wait_for_epilogue(self) {
        if !self.form.epilogue.is_plain() {
            launch_wait();
        }
    }

    /// The first turn of any warpgroup.
    #[track_caller]
    pub(super) fn start(self) -> EpilogueTurn {
        self.epilogue.start()
    }

    /// The sums of some rows of a tile over all steps, behind fill number `fill`, of which the last product may not have completed, and the stage that it reads. The first product of the next tile follows it.
    #[device]
    pub(super) fn sums(
        self,
        rows: ops::Range<usize>,
        fill: Scalar<i32>,
    ) -> (Accumulator<T::Sum>, Held) {
        let (pipeline, tile) = (self.pipeline, self.form.tile);
        let mut at = pipeline.of_fill(fill);
        let mut before = pipeline.nothing_held(&at);
        let mut acc = T::zeros([rows.len(), tile.columns], tile.columns_of_instruction());
        for step in range(0, self.steps) {
            let stage = pipeline.consumer_wait(at);
            let (of_x, of_y) = stage.tiles;
            acc = acc
                .mma(
                    of_x.slice(0, rows.clone()),
                    of_y.slice(0, 0..tile.columns).transpose(),
                )
                .wait(1);
            let held = stage.hold();
            at = held.next();
            let done = std::mem::replace(&mut before, held);
            pipeline.consumer_release_when(step > 0, done);
        }
        (acc, before)
    }

    /// Fills buffers with what the epilogue makes of a warpgroup's sums of a tile, a part after the other.
    #[device]
    pub(super) fn finish(
        self,
        group: usize,
        sums: Tensor<T::Sum>,
        number: Scalar<i32>,
        turn: EpilogueTurn,
    ) -> EpilogueTurn {
        let (tile, [m, n]) = (self.form.tile, self.size);
        let place = self.own.place(number);
        let (parity, mut turn) = (turn.parity(), turn);
        for part in tile.parts_of(group) {
            let [rows, columns] = tile.within_sums(part);
            let of_part = sums.slice(0, rows).slice(1, columns);
            let finished = Finished {
                first: tile.place(part, place),
                batch: scalar(0),
                size: if tile.turned { [n, m] } else { [m, n] },
                rows_apart: tile.rows_apart(),
                turned: tile.turned,
                data: self.data,
            };
            let at = self.epilogue.turn(parity);
            turn = self.epilogue.fill_by(tile.part(part), at, |buffer| {
                finished.store_part(self.form.epilogue, of_part, buffer);
            });
        }
        turn
    }

    /// The warp that stores for a warpgroup.
    #[device]
    fn store(self, group: usize) {
        let (tile, epilogue, (_, _, c)) = (self.form.tile, self.epilogue, self.maps);
        if are_settled(self.form.sides) {
            // What it writes, launches in front may read or write.
            launch_wait();
        }
        let mut turn = epilogue.start();
        for number in self.own.of_group(group) {
            let place = self.own.place(number);
            let is_first = tile.is_first_of_odd(place);
            let parity = turn.parity();
            for part in tile.parts_of(group) {
                let (at, to) = (epilogue.turn(parity), tile.place(part, place));
                let part = tile.part(part);
                turn = match self.first {
                    None => epilogue.store(part, at, c, to),
                    Some(first) => epilogue.store_by(part, at, |buffer| {
                        if is_first {
                            first.store(to, buffer);
                        } else {
                            c.store(to, buffer);
                        }
                    }),
                };
            }
        }
    }

    /// The producer warp.
    #[device]
    fn load(self) {
        let (tile, pipeline, (x, y, _)) = (self.form.tile, self.pipeline, self.maps);
        let [m, n] = self.size;
        if !are_settled(self.form.sides) {
            launch_wait();
        }
        let (shares, apart) = (Share::of_operands(tile.along), tile.loads_apart());
        let mut at = pipeline.start();
        for number in self.own.of_program() {
            let [row, column] = self.own.place(number);
            for step in range(0, self.steps) {
                let stage = pipeline.producer_acquire(at);
                let (of_x, of_y) = stage.tiles;
                let ([of_row, of_column], [x_apart, y_apart]) = (shares, apart);
                load_boxes((x, of_x), (of_row, x_apart), [row, step], m, stage.full);
                load_boxes(
                    (y, of_y),
                    (of_column, y_apart),
                    [column, step],
                    n,
                    stage.full,
                );
                at = pipeline.commit(stage).advance();
            }
        }
        if tile.ctas() > 1 {
            pipeline.producer_tail(at);
        }
    }
}
