//! Products whose tiles fill no whole wave: the steps along K of each tile are divided into parts (split-K), which programs compute in turn and add through memory, in a fixed
//! order. Other than in a cluster, any number of parts on any multiprocessors share a tile.
//!
//! Parts of all tiles at one place along K follow each other, so that what runs at a time reads the same rows of A and B. Shares of equal length that begin anywhere (stream-K) read them at
//! different times, which took up to twice as long (`bench/results/products/split_k.md`).

use std::fmt;

use tilekit::prelude::*;
use tilekit::target::SM_90A;

use super::dense::{PAIR, rows_of_group};
use super::ending::Ending;
use super::epilogue::{DataOf, Epilogue};
use super::factor::{
    INSTRUCTION_ROWS, MBARRIER_BYTES, Operand, ResultOf, STAGE_BYTES, depth, unit,
};
use super::form::{Form, Source};
use super::multicast::{Shared, is_divided, tile_of_cluster};
use super::raster;
use super::registers::registers_of;
use super::ring::Ring;
use super::split_workspace::{ADDED, Exchange, MOST_PARTS};

/// A tile of [`split_k`]: `[groups * 64, columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SplitTile {
    /// Consumer warpgroups.
    pub groups: usize,
    /// Columns.
    pub columns: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// Tiles of a cluster along rows and along columns: CTAs whose tiles are beside each other load a share of their rows each and multicast it, and those whose tiles are one above the other the same of their columns.
    pub along: [usize; 2],
    /// A and B are exchanged: rows of the tile are columns of C.
    pub turned: bool,
}

impl SplitTile {
    /// Of warpgroups, columns and stages, for CTAs without clusters.
    pub const fn of([groups, columns, stages]: [usize; 3]) -> Self {
        SplitTile {
            groups,
            columns,
            stages,
            along: [1; 2],
            turned: false,
        }
    }

    /// Of warpgroups and columns, with as many stages as there is room for beside what each warpgroup adds at a time, whose layout is converted in shared memory.
    pub fn filled([groups, columns]: [usize; 2]) -> Self {
        let converted = groups * ADDED * size_of::<f32>();
        let room = SM_90A.cta.shared_bytes as usize - MBARRIER_BYTES - converted;
        let stage = (groups * INSTRUCTION_ROWS + columns) * STAGE_BYTES;
        SplitTile::of([groups, columns, room / stage])
    }

    /// The same of A and B exchanged.
    #[must_use]
    pub const fn exchanged(self) -> Self {
        SplitTile {
            turned: true,
            ..self
        }
    }

    /// The same for each CTA of pairs that share columns.
    #[must_use]
    pub const fn by_pairs(self) -> Self {
        self.by_clusters([PAIR, 1])
    }

    /// The same for each CTA of clusters of so many tiles along rows and along columns.
    #[must_use]
    pub const fn by_clusters(self, along: [usize; 2]) -> Self {
        SplitTile { along, ..self }
    }

    /// CTAs of a cluster.
    pub(crate) const fn ctas(self) -> usize {
        self.along[0] * self.along[1]
    }

    /// Rows of either operand that a CTA loads.
    pub fn shares(self) -> [usize; 2] {
        let ([rows, columns], [along_rows, along_columns]) = (self.shape(), self.along);
        [rows / along_columns, columns / along_rows]
    }

    /// Whether CTAs of a cluster load as many rows of each operand.
    pub(super) fn is_divided(self) -> bool {
        is_divided(self.shape(), self.along)
    }

    /// Rows and columns.
    pub fn shape(self) -> [usize; 2] {
        [self.groups * INSTRUCTION_ROWS, self.columns]
    }

    /// Elements of `sums` and of `counts` that so many tiles in so many parts need, at least one of each.
    pub fn workspace(self, [tiles, parts]: [usize; 2]) -> [usize; 2] {
        let [rows, columns] = self.shape();
        let sums = tiles * parts * rows * columns;
        [sums.max(1), (tiles * self.groups).max(1)]
    }
}

impl fmt::Display for SplitTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SplitTile {
            groups,
            columns,
            stages,
            along: [x, y],
            turned,
        } = self;
        write!(f, "{groups}x{columns}x{stages}")?;
        match [x, y] {
            [1, 1] => {}
            [ctas, 1] => write!(f, "+{ctas}_ctas")?,
            _ => write!(f, "+{x}x{y}_ctas")?,
        }
        f.write_str(if *turned { "+turned" } else { "" })
    }
}

/// A product in parts of `each` steps along K, of which each tile has `count`.
#[derive(Clone, Copy)]
struct Parts<T: Operand> {
    ring: Ring<T>,
    order: GroupedRows,
    steps: Scalar<i32>,
    count: Scalar<i32>,
    each: Scalar<i32>,
    exchange: Exchange<T::Sum>,
}

impl<T: Operand> Parts<T> {
    /// The numbers of this program, of all parts of all tiles.
    #[track_caller]
    fn of_program(self) -> Range<i32> {
        let all = self.exchange.tiles * self.count;
        range(program_id(0), all).step(num_programs(0))
    }

    /// The row and column of a tile: CTAs of a cluster have the same part of neighbours.
    #[device]
    fn place(self, number: Scalar<i32>) -> [Scalar<i32>; 2] {
        let tile = self.exchange.tile;
        if tile.ctas() > 1 {
            tile_of_cluster(self.order.place(number / tile.ctas()), tile.along)
        } else {
            self.order.place(number)
        }
    }

    /// The first step along K of a part, and the one behind its last.
    #[track_caller]
    fn of_part(self, part: Scalar<i32>) -> [Scalar<i32>; 2] {
        let first = part * self.each;
        [first, minimum(first + self.each, self.steps)]
    }

    /// The sums of the rows of warpgroup `group`, and the first stage of the next part.
    #[device]
    fn sums(
        self,
        (group, part): (usize, Scalar<i32>),
        at: PipelineState,
    ) -> (Tensor<T::Sum>, PipelineState) {
        let own = group * INSTRUCTION_ROWS..(group + 1) * INSTRUCTION_ROWS;
        let columns = self.exchange.tile.columns;
        let [first, end] = self.of_part(part);
        if self.exchange.tile.groups == 1 {
            // A warpgroup that is alone keeps the tensor cores busy only if a product runs while it starts the next.
            self.ring.overlapped_sums(own, columns, [first, end], at)
        } else {
            self.ring.sums(own, columns, || range(first, end), at)
        }
    }
}

/// Multiplies, adds parts through memory, and gives `store` the sums of some rows with the row and column where they begin.  All programs run at a time.
#[device]
fn multiply_parts<T: Operand>(of: Parts<T>, store: impl Fn([Scalar<i32>; 2], Tensor<T::Sum>)) {
    let Parts { ring, exchange, .. } = of;
    let (tile, tiles) = (exchange.tile, exchange.tiles);
    let [rows, columns] = tile.shape();
    let multiply = |group: usize| {
        let mut at = ring.pipeline.start();
        // The launch before may still read the workspace.
        launch_wait();
        for number in of.of_program() {
            let (part, tile) = (number / tiles, number % tiles);
            let (sums, next) = of.sums((group, part), at);
            at = next;
            let [row, column] = of.place(tile);
            exchange.add_up([tile, part], group, sums, |[i, j], sums| {
                store([row * rows + i, column * columns + j], sums);
            });
        }
    };
    let load = || {
        let mut at = ring.pipeline.start();
        launch_wait();
        for number in of.of_program() {
            let (part, place) = (number / tiles, number % tiles);
            let [row, column] = of.place(place);
            let [first, end] = of.of_part(part);
            for step in range(first, end) {
                let of_a = || [scalar(0), row * rows, step];
                at = ring.load(at, || [of_a(), [scalar(0), column * columns, step]]);
            }
        }
        ring.end(at); // mutate: equivalent(mbarrier.wait): warps release stages in their order, so that the wait for the last stage suffices here
    };
    let [of_consumers, of_others] = registers_of(tile.groups);
    // The TMA loads come first in the code too: all warps wait for them, and the first instructions miss the instruction cache.
    warp_specialize()
        .registers(of_others)
        .main(load)
        .workers(0..tile.groups, Warps(4).registers(of_consumers), multiply)
        .run();
}

/// `C[M, N] = A[M, K] · B[N, K]ᵀ` in parts of `each` steps along K, of which each tile has `parts`, none empty. `sums` and `counts` are as [`SplitTile::workspace`] says; counts are 0 before the first launch. The
/// programs of a tile wait for each other: where a tile has several parts, there are no more programs than are resident at a time
/// (`kernels/src/products/division.rs` plans no more), one for each part. Element `[i, j]` of the result is at `out + i * stride + j`, or in a turned tile
/// at `out + j * stride + i`: the product with A and B exchanged. What CTAs of a cluster share is along K.
#[kernel(warps = 4, cluster = form.tile.ctas(), min_ctas_per_sm = 1)]
pub fn split_k<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: Form<SplitTile, E>,
    #[block(form.sides[0].block::<T>(form.tile.shares()[0]), form.sides[0].swizzle::<T>(form.tile.shares()[0]))]
    a: TensorMap<T>,
    #[block(form.sides[1].block::<T>(form.tile.shares()[1]), form.sides[1].swizzle::<T>(form.tile.shares()[1]))]
    b: TensorMap<T>,
    out: Ptr<O>,
    #[multiple_of(unit::<O>())] stride: i32,
    m: i32,
    n: i32,
    k: i32,
    parts: i32,
    each: i32,
    data: DataOf<O, E>,
    sums: Ptr<T::Sum>,
    counts: Ptr<u32>,
) {
    launch_dependents();
    let of_parts = [parts, each];
    divide(
        form,
        (a, b),
        (out, stride),
        [m, n, k],
        of_parts,
        data,
        (sums, counts),
    );
}

/// How many tiles there are, those of a cluster one by one.
#[track_caller]
fn tiles_of(order: GroupedRows, ctas: usize) -> Scalar<i32> {
    if ctas > 1 {
        order.count() * ctas
    } else {
        order.count()
    }
}

/// The part of this program, or of the tiles that the CTAs of a cluster have.
#[device]
fn divide<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    form: Form<SplitTile, E>,
    (a, b): (TensorMap<T>, TensorMap<T>),
    (out, stride): (Ptr<O>, Scalar<i32>),
    [m, n, k]: [Scalar<i32>; 3],
    [parts, each]: [Scalar<i32>; 2],
    data: DataOf<O, E>,
    (sums, counts): (Ptr<T::Sum>, Ptr<u32>),
) {
    let tile = form.tile;
    let ([rows, columns], ctas) = (tile.shape(), tile.ctas());
    let [along_rows, along_columns] = tile.along;
    let [of_a, of_b] = Shared::of_operands(tile.along);
    let a = Source::new(a, form.sides[0], rows).of_clusters(of_a, m);
    let b = Source::new(b, form.sides[1], columns).of_clusters(of_b, n);
    let ring = Ring::new(a, b, tile.stages, tile.groups);
    let of_cluster = [along_rows * rows, along_columns * columns];
    let of_group = if ctas == 1 {
        raster::rows_of_group(of_cluster)
    } else {
        rows_of_group(of_cluster)
    };
    let order = GroupedRows::new([m, n], of_cluster, of_group);
    let (tiles, steps) = (tiles_of(order, ctas), steps_along(k, depth::<T>()));
    let ending = Ending {
        epilogue: form.epilogue,
        columns,
        ctas: 1,
        turned: tile.turned,
        is_batched: false,
        out,
        stride,
        batch_stride: scalar(0),
        size: [m, n],
        batch: scalar(0),
        data,
    };
    let exchange = Exchange {
        tile,
        tiles,
        loaded: MOST_PARTS / 2,
        parts,
        sums,
        counts,
    };
    let parts = Parts {
        ring,
        order,
        steps,
        count: parts,
        each,
        exchange,
    };
    let store = |place, sums| ending.store_rows(place, sums);
    multiply_parts(parts, store);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products::tiles::SPLIT_BY_CLUSTERS;

    #[test]
    fn listed_tiles_of_clusters_fill_shared_memory_and_are_divided() {
        for tile in SPLIT_BY_CLUSTERS {
            let filled = SplitTile {
                turned: tile.turned,
                ..SplitTile::filled([tile.groups, tile.columns]).by_clusters(tile.along)
            };
            assert_eq!(tile, filled);
            assert!(tile.is_divided(), "{tile}");
        }
    }
}
