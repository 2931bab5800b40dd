//! Products with many tiles, of any layout, type and epilogue: a persistent kernel, warp-specialized. A producer warp issues TMA loads into a ring of stages, consumer
//! warpgroups multiply some rows of a tile each, and a warp for each of them issues the TMA store of its rows, so that the next tile is
//! loaded and multiplied while the last one is stored.

use std::{fmt, ops};

use tilekit::prelude::*;

use super::epilogue::{DataOf, Epilogue, Named};
use super::factor::{MULTIPROCESSORS, Operand, ResultOf, depth};
use super::finished::Finished;
use super::form::{Form, Source, block_of, swizzle_of_results};
use super::multicast::Shared;
use super::registers::registers_of;
use super::ring::Ring;
use super::settled::are_settled;

/// CTAs of the clusters of instances by pairs.
pub(super) const PAIR: usize = 2;

/// A tile of [`dense`]: `[groups * rows, columns]`, one of `ctas` of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ManyTile {
    /// Consumer warpgroups.
    pub groups: usize,
    /// Rows of each.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// CTAs of a cluster, whose tiles are one above the other: each loads its share of the columns and multicasts it to all, so that L2 is asked for them once.
    pub ctas: usize,
}

impl ManyTile {
    /// Of warpgroups, rows of each, columns and stages, for CTAs without clusters.
    pub const fn of([groups, rows, columns, stages]: [usize; 4]) -> Self {
        ManyTile {
            groups,
            rows,
            columns,
            stages,
            ctas: 1,
        }
    }

    /// The same for each CTA of pairs.
    #[must_use]
    pub const fn by_pairs(self) -> Self {
        ManyTile { ctas: PAIR, ..self }
    }

    /// Rows and columns.
    pub fn shape(self) -> [usize; 2] {
        [self.groups * self.rows, self.columns]
    }

    /// The rows of a warpgroup.
    pub(crate) fn rows_of(self, group: usize) -> ops::Range<usize> {
        group * self.rows..(group + 1) * self.rows
    }

    /// Columns of B that a CTA loads.
    pub fn share(self) -> usize {
        self.columns / self.ctas
    }
}

impl<E: Named> Form<ManyTile, E> {
    /// Columns of the result of a tile.
    pub(super) fn columns(&self) -> usize {
        self.epilogue.result_columns(self.tile.columns)
    }
}

impl fmt::Display for ManyTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ManyTile {
            groups,
            rows,
            columns,
            stages,
            ctas,
        } = self;
        write!(f, "{groups}x{rows}x{columns}x{stages}")?;
        write_ctas(f, *ctas)
    }
}

/// What a tile of a cluster's CTA is displayed with behind its numbers.
pub(super) fn write_ctas(f: &mut fmt::Formatter<'_>, ctas: usize) -> fmt::Result {
    if ctas > 1 {
        write!(f, "+{ctas}_ctas")
    } else {
        Ok(())
    }
}

/// Rows of tiles in a group, such that a wave of tiles reads the fewest rows of A and B.
pub(crate) fn rows_of_group([rows, columns]: [usize; 2]) -> usize {
    let read = |group: usize| group * rows + MULTIPROCESSORS.div_ceil(group) * columns;
    [4, 8, 16, 32]
        .into_iter()
        .min_by_key(|&group| read(group))
        .unwrap_or(16)
}

/// The tiles of all products of a batch, one product after the other.
#[derive(Clone, Copy, Aggregate)]
pub(crate) struct Tiles {
    pub(crate) of_product: GroupedRows,
    pub(crate) batches: Scalar<i32>,
    pub(crate) is_batched: bool,
    /// CTAs of a cluster, which have tiles one above the other.
    pub(crate) ctas: usize,
}

impl Tiles {
    #[device]
    pub(crate) fn of_program(self) -> Range<i32> {
        let count = self.of_product.count();
        let all = if self.is_batched {
            count * self.batches
        } else {
            count
        };
        if self.ctas > 1 {
            range(cluster_id(0), all).step(num_clusters(0))
        } else {
            range(program_id(0), all).step(num_programs(0))
        }
    }

    /// Product, row and column of tiles.
    #[device]
    pub(crate) fn place(self, tile: Scalar<i32>) -> [Scalar<i32>; 3] {
        let (batch, tile) = if self.is_batched {
            let count = self.of_product.count();
            (tile / count, tile % count)
        } else {
            (scalar(0), tile)
        };
        let [row, column] = self.of_product.place(tile);
        if self.ctas > 1 {
            [batch, row * self.ctas + cluster_rank(), column]
        } else {
            [batch, row, column]
        }
    }
}

/// The product, in tiles: each consumer warpgroup multiplies some rows of one. Edges need no code:
/// TMA loads read zeros outside of a tensor, and TMA stores drop what is written there. `size` is M, N, K and the products of a batch. Without `data`, sums are stored as they are.
#[device]
pub(super) fn multiply_tiles<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    form: Form<ManyTile, E>,
    maps: (TensorMap<T>, TensorMap<T>, TensorMap<O>),
    size: [Scalar<i32>; 4],
    data: Option<DataOf<O, E>>,
) {
    let [m, n, k, batches] = size;
    let (a, b, c) = maps;
    let tile = form.tile;
    let ([rows_of_tile, columns], ctas) = (tile.shape(), tile.ctas);
    let [of_a, of_b] = Shared::of_operands([ctas, 1]);
    let a = Source::new(a, form.sides[0], rows_of_tile).of_clusters(of_a, m);
    let b = Source::new(b, form.sides[1], columns).of_clusters(of_b, n);
    let ring = Ring::new(a, b, tile.stages, tile.groups);
    let turns = Turns::of_warpgroups(tile.groups).with_buffers(1);
    let epilogue = EpilogueStore::alloc(c, turns);
    let of_cluster = [ctas * rows_of_tile, columns];
    let of_product = GroupedRows::new([m, n], of_cluster, rows_of_group(of_cluster));
    let tiles = Tiles {
        of_product,
        batches,
        is_batched: form.is_batched,
        ctas,
    };
    let steps = steps_along(k, depth::<T>());

    let multiply = |part: usize| {
        if !form.epilogue.is_plain() {
            // What it reads may be of the launch before.
            launch_wait();
        }
        let (mut at, mut turn) = (ring.pipeline.start(), epilogue.start());
        for number in tiles.of_program() {
            let (sums, next) = ring.sums(tile.rows_of(part), columns, || range(0, steps), at);
            at = next;
            let [batch, row, column] = tiles.place(number);
            let first = [row * rows_of_tile + part * tile.rows, column * columns];
            turn = epilogue.fill_by(part, turn, |buffer| {
                let Some(data) = data else {
                    return buffer.store(sums.cast::<O>());
                };
                let size = [m, n];
                let finished = Finished {
                    first,
                    batch,
                    size,
                    rows_apart: 1,
                    turned: false,
                    data,
                };
                finished.store(form.epilogue, sums, buffer);
            });
        }
    };
    let store = |part: usize| {
        if are_settled(form.sides) {
            // What it writes, launches in front may read or write.
            launch_wait();
        }
        let mut turn = epilogue.start();
        for number in tiles.of_program() {
            let [batch, row, column] = tiles.place(number);
            let at = [
                row * rows_of_tile + part * tile.rows,
                column * form.columns(),
            ];
            turn = if form.is_batched {
                epilogue.store(part, turn, c, [batch, at[0], at[1]])
            } else {
                epilogue.store(part, turn, c, at)
            };
        }
    };
    let load = || {
        if !are_settled(form.sides) {
            launch_wait();
        }
        let mut at = ring.pipeline.start();
        for number in tiles.of_program() {
            let [batch, row, column] = tiles.place(number);
            for step in range(0, steps) {
                let place = || {
                    [
                        [batch, row * rows_of_tile, step],
                        [batch, column * columns, step],
                    ]
                };
                at = ring.load(at, place);
            }
        }
        ring.end(at);
    };
    let [of_consumers, of_others] = registers_of(tile.groups);
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..tile.groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), load)
        .workers(0..tile.groups, Warps(1).registers(of_others), store)
        .run();
}

/// `C[M, N] = A[M, K] · B[N, K]ᵀ` of each product of a batch; by clusters of several CTAs of one product, of B along K.
#[kernel(warps = 4, cluster = form.tile.ctas, min_ctas_per_sm = 1)]
pub fn dense<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: Form<ManyTile, E>,
    #[block(form.sides[0].block::<T>(form.tile.shape()[0]), form.sides[0].swizzle::<T>(form.tile.shape()[0]))]
    a: TensorMap<T>,
    #[block(form.sides[1].block::<T>(form.tile.share()), form.sides[1].swizzle::<T>(form.tile.share()))]
    b: TensorMap<T>,
    #[block(block_of([form.tile.rows, form.columns()], form.is_batched), swizzle_of_results::<O>(form.columns()))]
    c: TensorMap<O>,
    m: i32,
    n: i32,
    k: i32,
    batches: i32,
    data: DataOf<O, E>,
) {
    launch_dependents();
    multiply_tiles(form, (a, b, c), [m, n, k, batches], Some(data));
}
