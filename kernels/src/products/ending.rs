//! The end of a tile whose steps along K the CTAs of a cluster share: they add their parts through distributed shared memory, each CTA some
//! columns, in a fixed order, so that the sum is bit-identical in every run, and store what the epilogue makes of it.

use std::ops::Range;

use tilekit::prelude::*;

use super::blocks::store_blocks;
use super::epilogue::{Data, Epilogue, Named, Place, by_pairs};
use super::factor::{INSTRUCTION_ROWS, Stored, WARPGROUP_THREADS};
use super::output_handles::OutputHandles;

/// Columns of one register pair of an accumulator over its four lanes, which are not divided.
const INSTRUCTION_COLUMNS: usize = 8;

/// CTAs, of `ctas` that share a tile of `columns`, that add up and store columns of it: as many as have equal numbers of register pairs.
pub(crate) fn adders(columns: usize, ctas: usize) -> usize {
    let pairs = columns / INSTRUCTION_COLUMNS;
    let divide = |count: &usize| pairs.is_multiple_of(*count);
    (1..=ctas).rev().find(divide).unwrap_or(1)
}

/// A warpgroup over a part of `[rows, columns]`, whose elements follow each other in memory along `axis`: `each` of them a thread.
fn along(axis: usize, [rows, columns]: [usize; 2], each: usize) -> Blocked {
    let length = if axis == 0 { rows } else { columns };
    let each = length.min(each);
    // Of 14 runs, 2: lanes are a power of two.
    let lanes = (1 << (length / each).trailing_zeros()).min(32);
    if axis == 0 {
        let others = 32 / lanes;
        Blocked::new([each, 1], [lanes, others], [1, 4], [0, 1])
    } else {
        Blocked::new([1, each], [32 / lanes, lanes], [4, 1], [1, 0])
    }
}

/// Rows and columns of a tensor.
fn extents(shape: &Dims) -> [usize; 2] {
    [shape[0], shape[1]].map(|extent| extent as usize)
}

/// Parts of a tile that CTAs of a cluster send to those that add them.
#[derive(Clone, Copy, Aggregate)]
pub(super) struct Exchange<S> {
    /// Of each warpgroup, for each CTA that adds, 64 rows of its columns.
    own: Smem<S>,
    /// Of each warpgroup, from each CTA, 64 rows of the columns that this CTA adds up.
    parts: Smem<S>,
    /// A phase completes when the copies of all parts of a warpgroup have completed.
    received: Mbarriers,
    /// Columns follow each other in shared memory, and not rows.
    turned: bool,
    /// Tiles of the cluster, each of which as many CTAs share: ranks of those that share one are so far apart.
    tiles: usize,
}

impl<S: Numeric> Exchange<S> {
    /// Of `groups` warpgroups in `ctas` CTAs of each of the cluster's `tiles`, of which `adders` add `width` columns each. All CTAs of the
    /// cluster synchronize, so that they observe the initialized mbarriers; they do so again before one ends.
    #[device]
    pub(super) fn new(
        [groups, ctas, adders, width]: [usize; 4],
        tiles_of_cluster: usize,
        turned: bool,
    ) -> Self {
        let [rows, columns] = if turned {
            [width, INSTRUCTION_ROWS]
        } else {
            [INSTRUCTION_ROWS, width]
        };
        let tiles = |count| {
            let shape = [groups, count, rows, columns];
            Smem::<S>::alloc(shape, Swizzled::plain([3, 2, 1, 0]))
        };
        let (own, parts) = (tiles(adders), tiles(ctas));
        let adds = part_of_tile(tiles_of_cluster) < adders;
        let received = Mbarriers::alloc(groups, Arrivals(1));
        for group in 0..groups {
            let bytes = parts.bytes() / groups;
            received.index(group).expect_when(adds, bytes);
        }
        cluster_barrier_relaxed();
        Exchange {
            own,
            parts,
            received,
            turned,
            tiles: tiles_of_cluster,
        }
    }

    /// The rank of the CTA that has part `number` of this CTA's tile.
    #[track_caller]
    fn cta_of(self, number: usize) -> Scalar<i32> {
        if self.tiles == 1 {
            scalar(number as i32)
        } else {
            cluster_rank() % self.tiles + number * self.tiles
        }
    }

    /// A part as `[64, width]`.
    #[track_caller]
    fn by_rows(self, part: Smem<S>) -> Smem<S> {
        if self.turned {
            part.permute([1, 0])
        } else {
            part
        }
    }

    /// Sends what this CTA has of the columns of CTA `to`, by a bulk copy that completes on its mbarrier: from registers (`st.async`) it takes
    /// three times as long.
    #[track_caller]
    fn send(self, group: usize, to: usize, part: Tensor<S>) {
        let own = self.own.index(group).index(to);
        self.by_rows(own).store(part);
        let part = self.parts.index(group).index(part_of_tile(self.tiles));
        let place = part.in_cta(self.cta_of(to));
        place.bulk().store(own, self.received.index(group));
    }

    /// Waits for the parts of all `ctas` CTAs and adds them in the order of ranks.
    #[track_caller]
    fn receive(self, group: usize, ctas: usize, layout: &Blocked) -> Tensor<S> {
        self.received.index(group).wait(0);
        let parts = self.parts.index(group);
        let part = |cta: usize| self.by_rows(parts.index(cta)).load(layout.clone());
        (1..ctas).fold(part(0), |sum, cta| sum + part(cta))
    }
}

/// Which part along K this CTA has of its tile, of a cluster with so many tiles: CTAs of part 0 come first.
#[track_caller]
pub(super) fn part_of_tile(tiles: usize) -> Scalar<i32> {
    if tiles == 1 {
        cluster_rank()
    } else {
        cluster_rank() / tiles
    }
}

/// What becomes of the sums of a tile: an epilogue, or what precedes one.
pub(crate) trait Finish<O: Stored>: Copy {
    /// What it stores beside the results.
    type Outputs: OutputHandles;

    /// What it does beside the mainloop, in the partition of the consumers.
    #[must_use]
    fn begun(self) -> Self;

    /// The results.
    fn finish(self, sums: Tensor<f32>, at: Place<O, Self::Outputs>) -> Tensor<f32>;

    /// Sums are stored as they are.
    fn is_plain(&self) -> bool;

    /// Columns that it finishes at a time, at most.
    fn columns(&self) -> usize {
        usize::MAX
    }

    /// Each result is of two columns of the product.
    fn halves(&self) -> bool {
        false
    }

    /// Results are divided by a scale for each block of a row.
    fn has_scales(&self) -> bool {
        false
    }

    /// Stores the scales of blocks of which the largest magnitudes are these, and returns them.
    #[track_caller]
    fn store_scale(self, _magnitudes: Tensor<f32>, _at: Place<O, Self::Outputs>) -> Tensor<f32> {
        unreachable!("blocks have no scales")
    }

    /// Elements of a row of the result that a thread gets at a time, at most.
    fn run(&self) -> usize {
        8
    }
}

impl<O: Stored, E: Epilogue<O>> Finish<O> for E {
    type Outputs = E::Outputs;

    fn begun(self) -> Self {
        self
    }

    #[track_caller]
    fn finish(self, sums: Tensor<f32>, at: Place<O, E::Outputs>) -> Tensor<f32> {
        Epilogue::finish(self, sums, at)
    }

    fn is_plain(&self) -> bool {
        Epilogue::is_plain(self)
    }

    fn columns(&self) -> usize {
        Epilogue::columns(self)
    }

    fn halves(&self) -> bool {
        Named::halves(self)
    }

    fn has_scales(&self) -> bool {
        Epilogue::has_scales(self)
    }

    #[track_caller]
    fn store_scale(self, magnitudes: Tensor<f32>, at: Place<O, E::Outputs>) -> Tensor<f32> {
        Epilogue::store_scale(self, magnitudes, at)
    }
}

/// Where the sums of a tile go. Rows and columns are those of the tile.
#[derive(Clone, Copy)]
pub(crate) struct Ending<O: Stored, E: Finish<O>> {
    pub(crate) epilogue: E,
    /// Columns of the tile, and CTAs that share it.
    pub(crate) columns: usize,
    pub(crate) ctas: usize,
    /// Rows of the tile are columns of the result.
    pub(crate) turned: bool,
    pub(crate) is_batched: bool,
    pub(crate) out: Ptr<O>,
    pub(crate) stride: Scalar<i32>,
    pub(crate) batch_stride: Scalar<i64>,
    pub(crate) size: [Scalar<i32>; 2],
    pub(crate) batch: Scalar<i32>,
    pub(crate) data: Data<O, E::Outputs>,
}

impl<O: Stored, E: Finish<O>> Ending<O, E> {
    /// The same, behind what it does beside the mainloop.
    pub(super) fn begun(self) -> Self {
        Ending {
            epilogue: self.epilogue.begun(),
            ..self
        }
    }

    /// What CTAs of a cluster need to add up their parts, if there are several, for `groups` warpgroups.
    #[track_caller]
    pub(super) fn exchange<S: Numeric>(self, groups: usize) -> Option<Exchange<S>> {
        self.exchange_among::<S>(groups, 1)
    }

    /// The same in a cluster that has so many tiles.
    #[track_caller]
    pub(super) fn exchange_among<S: Numeric>(
        self,
        groups: usize,
        tiles: usize,
    ) -> Option<Exchange<S>> {
        let adders = adders(self.columns, self.ctas);
        let shape = [groups, self.ctas, adders, self.columns / adders];
        (self.ctas > 1).then(|| Exchange::<S>::new(shape, tiles, self.turned))
    }

    /// Adds up the parts of warpgroup `group`, whose sums begin at `row` and `column`, and stores the results.
    #[device]
    pub(super) fn store<S: Numeric>(
        self,
        exchange: Option<Exchange<S>>,
        group: usize,
        [row, column]: [Scalar<i32>; 2],
        sums: Tensor<S>,
    ) {
        let adders = adders(self.columns, self.ctas);
        let width = self.columns / adders;
        let axis = if self.turned { 0 } else { 1 };
        if let Some(exchange) = exchange {
            for adder in 0..adders {
                let columns = sums.slice(1, adder * width..(adder + 1) * width);
                exchange.send(group, adder, columns);
            }
            let rank = part_of_tile(exchange.tiles);
            if rank < adders {
                let layout = along(axis, [INSTRUCTION_ROWS, width], 4);
                let sum = exchange.receive(group, self.ctas, &layout);
                let at = self.place(sum.layout(), [row, column + rank * width], width);
                self.write(self.finish(sum, at), at);
            }
        } else {
            let layout = |shape: [usize; 2]| along(axis, shape, self.run(shape[1]));
            self.store_in_parts(layout, [row, column], sums);
        }
    }

    /// Elements of a row of the result that a thread gets at a time, of a part of so many columns. Sums that an epilogue finishes have one owner each: of two threads that hold the
    /// same one, the second would read the source where the first has stored the result.
    fn run(&self, width: usize) -> usize {
        let run = self.epilogue.run();
        if self.epilogue.is_plain() {
            run
        } else {
            run.min(INSTRUCTION_ROWS * width / WARPGROUP_THREADS)
        }
    }

    /// Stores the results of sums that begin at `row` and `column`, as many columns at a time as the epilogue finishes, by threads that have those which `layout` says.
    #[track_caller]
    pub(super) fn store_in_parts<S: Numeric>(
        self,
        layout: impl Fn([usize; 2]) -> Blocked,
        [row, column]: [Scalar<i32>; 2],
        sums: Tensor<S>,
    ) {
        let [rows, columns] = extents(&sums.shape());
        let width = self.epilogue.columns();
        if self.epilogue.has_scales() {
            // What it reads may be of the launch before.
            launch_wait();
            let part = |range: Range<usize>| {
                let (layout, first) = (layout([rows, range.len()]), range.start);
                let part = sums.slice(1, range).convert_layout(layout).cast::<f32>();
                let shape = extents(&part.shape());
                (
                    part,
                    self.place_of(shape, part.layout(), [row, column + first]),
                )
            };
            let store = |_, results: Tensor<f32>, at| self.write(results.cast::<O>(), at);
            return store_blocks(self.epilogue, [columns, width], part, store);
        }
        if columns <= width {
            return self.store_as(layout([rows, columns]), [row, column], sums);
        }
        for first in (0..columns).step_by(width) {
            let range = first..(first + width).min(columns);
            let (layout, part) = (layout([rows, range.len()]), sums.slice(1, range));
            self.store_as(layout, [row, column + first], part);
        }
    }

    /// Stores the results of sums that begin at `row` and `column` by threads that have those which `layout` says.
    #[device]
    fn store_as<S: Numeric>(self, layout: Blocked, place: [Scalar<i32>; 2], sums: Tensor<S>) {
        let shape = extents(&sums.shape());
        if self.epilogue.is_plain() {
            let results = sums.cast::<O>().convert_layout(layout);
            self.write(results, self.place_of(shape, results.layout(), place));
        } else {
            let sums = sums.convert_layout(layout);
            let at = self.place_of(shape, sums.layout(), place);
            self.write(self.finish(sums, at), at);
        }
    }

    /// Stores the results of sums that begin at `row` and `column`, as they lie: a thread has neighbours of a row.
    #[device]
    pub(super) fn store_rows<S: Numeric>(self, [row, column]: [Scalar<i32>; 2], sums: Tensor<S>) {
        let at = self.place_of(extents(&sums.shape()), sums.layout(), [row, column]);
        self.write(self.finish(sums, at), at);
    }

    /// Where elements of a part of the tile stand in the result.
    #[track_caller]
    fn place(self, layout: Layout, place: [Scalar<i32>; 2], width: usize) -> Place<O, E::Outputs> {
        self.place_of([INSTRUCTION_ROWS, width], layout, place)
    }

    #[track_caller]
    fn place_of(
        self,
        [rows, columns]: [usize; 2],
        layout: Layout,
        [row, column]: [Scalar<i32>; 2],
    ) -> Place<O, E::Outputs> {
        let i = rows_of(layout.clone(), row, rows);
        let j = columns_of(layout, column, columns);
        let [m, n] = self.size;
        let (row, column, size) = if self.turned {
            (j, i, [n, m])
        } else {
            (i, j, [m, n])
        };
        Place {
            row,
            column,
            batch: self.batch,
            size,
            data: self.data,
            given: None,
            stored: None,
            measures: false,
            loaded: None,
        }
    }

    #[track_caller]
    fn finish<S: Numeric>(self, sums: Tensor<S>, at: Place<O, E::Outputs>) -> Tensor<O> {
        if self.epilogue.is_plain() {
            return sums.cast::<O>();
        }
        // What it reads may be of the launch before.
        launch_wait();
        let results = self.epilogue.finish(sums.cast::<f32>(), at);
        results.cast::<O>()
    }

    #[device]
    fn write(self, results: Tensor<O>, at: Place<O, E::Outputs>) {
        let inside = (at.row < at.size[0]) & (at.column < at.size[1]);
        let out = if self.is_batched {
            self.out + self.batch.cast::<i64>() * self.batch_stride
        } else {
            self.out
        };
        if self.epilogue.halves() {
            let (place, _) = by_pairs(at.row * self.stride + at.column / 2);
            let (inside, _) = by_pairs(inside);
            out.at(place).mask(inside).store(results);
        } else {
            out.at(at.row * self.stride + at.column)
                .mask(inside)
                .store(results);
        }
    }
}
