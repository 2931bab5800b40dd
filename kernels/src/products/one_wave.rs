//! Products that fill the GPU about once: a tile a program, and nothing that pays off only over many tiles. Launches overlap, and stages that have been read hold the result, so that the ring is as deep as
//! shared memory allows.

use tilekit::prelude::*;

use super::dense::ManyTile;
use super::epilogue::{DataOf, Epilogue};
use super::factor::{Operand, ResultOf};
use super::finished::Finished;
use super::form::{Form, Source, block_of, steps_of_tile, swizzle_of_results};
use super::multicast::Shared;
use super::ring::{Ring, overlapped};
use super::settled::{are_settled, load_steps};

/// `C[M, N] = A[M, K] · B[N, K]ᵀ` of each product of a batch, the tile at this program's row and column of tiles and of the product along z, or of one product in groups of rows of tiles along z. By clusters
/// of several CTAs it is of one product, of B along K, and their number divides that of programs along M. Results have
/// at most 2 bytes, so that those of a warpgroup, of 64 rows, fit a stage of B.
#[kernel(warps = 4, cluster = form.tile.ctas, min_ctas_per_sm = 1)]
pub fn one_wave<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
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
    // The grid has one for each.
    let _ = batches;
    multiply_tile(form, (a, b, c), [m, n, k], data);
}

/// The tile of this program.
#[device]
fn multiply_tile<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    form: Form<ManyTile, E>,
    (a, b, c): (TensorMap<T>, TensorMap<T>, TensorMap<O>),
    [m, n, k]: [Scalar<i32>; 3],
    data: DataOf<O, E>,
) {
    let ManyTile {
        groups,
        rows,
        columns,
        stages,
        ctas,
    } = form.tile;
    let [of_a, of_b] = Shared::of_operands([ctas, 1]);
    let a = Source::new(a, form.sides[0], groups * rows).of_clusters(of_a, m);
    let b = Source::new(b, form.sides[1], columns).of_clusters(of_b, n);
    let ring = Ring::new(a, b, stages, groups);
    let pipeline = ring.pipeline;
    let [row, column] = [
        form.row_of_grid() * (groups * rows),
        program_id(1) * columns,
    ];
    let steps = steps_of_tile::<T>(k, [row, m], ctas);
    let batch = form.batch();

    let multiply = |group: usize| {
        let own = form.tile.rows_of(group);
        let start = pipeline.start();
        let (sums, at) = if groups > 1 {
            ring.sums(own.clone(), columns, || range(0, steps), start)
        } else {
            let acc = T::zeros([rows, columns], columns);
            let multiply = |acc, tiles| ring.multiply(acc, tiles, own.clone());
            let all = (|| range(0, steps), |step: Scalar<i32>| step >= 1);
            let (acc, before, at) = overlapped(pipeline, start, all, (acc, multiply));
            let sums = acc.wait_all();
            if ctas > 1 {
                // The producers of both CTAs wait for all stages before they end.
                pipeline.consumer_release_when(steps > 0, before);
            }
            (sums, at)
        };
        if !form.epilogue.is_plain() || are_settled(form.sides) {
            // What it reads may be of the launch before, and what it writes such a launch may read.
            launch_wait();
        }
        // The oldest stages are the first that all warpgroups have released: one for the results of each.
        let (_, of_b) = pipeline.wait_released(&at.skip(group));
        let staging = of_b.reinterpret::<O>(c.block(), c.layout());
        let first = [row + own.start, column];
        let to = if form.epilogue.halves() {
            column / 2
        } else {
            column
        };
        let finished = Finished {
            first,
            batch,
            size: [m, n],
            rows_apart: 1,
            turned: false,
            data,
        };
        let buffer = if form.is_batched {
            staging.reshape([rows, form.columns()])
        } else {
            staging
        };
        finished.store(form.epilogue, sums, buffer);
        if form.is_batched {
            c.store([batch, first[0], to], staging);
        } else {
            c.store([first[0], to], staging);
        }
        tma_store_wait_read(0);
    };
    let load = || {
        let load_a = |step, stage: &Filling<(Smem<T>, Smem<T>)>| {
            a.load([batch, row, step], stage.tiles.0, stage.full);
        };
        let load_b = |step, stage: &Filling<(Smem<T>, Smem<T>)>| {
            b.load([batch, column, step], stage.tiles.1, stage.full);
        };
        let all = (scalar(0), steps, 1);
        let at = load_steps((pipeline, stages), form.sides, all, [&load_a, &load_b]);
        ring.end(at);
    };
    // The TMA loads come first in the code too: all warps wait for them, and the first instructions miss the instruction cache.
    warp_specialize()
        .main(load)
        .workers(0..groups, Warps(4), multiply)
        .run();
}
