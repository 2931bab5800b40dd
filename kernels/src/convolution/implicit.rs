//! Convolutions as products whose operand A is never stored: a persistent kernel, warp-specialized as that of [`dense`](crate::products::dense) products. A
//! producer warp issues TMA loads, for each step of pixels under one tap of the filters in im2col mode, some of their channels, and of this tap of the filters;
//! consumer warpgroups multiply, and warps store their results by TMA.

use tilekit::prelude::*;

use super::form::Form;
use super::walk::Walk;
use crate::products::dense::{Tiles, rows_of_group};
use crate::products::epilogue::{Data, Epilogue};
use crate::products::factor::{Operand, ResultOf};
use crate::products::finished::Finished;
use crate::products::form::{block_of, swizzle_of, swizzle_of_results};
use crate::products::registers::registers_of;

/// `out[pixel, filter] = Σ image[pixel under tap, channel] · filters[tap, filter, channel]` over all taps and the channels of the filter's group.
///
/// `image` has the channels of all groups; `filters` is `[taps, filters, channels of a group]`, and `out` `[groups, pixels, filters of a group]`. With groups, a step's
/// channels divide those of a group. Pixels outside of an image are zeros, which TMA loads write, as they do for channels beyond the last. Of a gradient of the image, `image` is that of
/// the result, channels and filters are exchanged, and taps run backwards.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn convolve<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: Form<E>,
    #[im2col(form.rank, form.pixels(), swizzle_of::<T>(form.channels))] image: TensorMap<T>,
    #[block(form.filters(), form.swizzle_of_filters::<T>())] filters: TensorMap<T>,
    #[block(block_of([form.tile.rows, form.tile.columns], true), swizzle_of_results::<O>(form.tile.columns))]
    out: TensorMap<O>,
    pixels: i32,
    columns: i32,
    channels: i32,
    groups: i32,
    walk: Walk,
    beta: f32,
    #[align(size_of::<O>())] source: Ptr<O>,
    source_pitch: i32,
    bias: Ptr<O>,
    scales: Ptr<f32>,
) {
    let tile = form.tile;
    let [rows_of_tile, columns_of_tile] = tile.shape();
    let has_depth = form.rank == 5;
    let pipeline = Pipeline::tma(
        (image, filters),
        tile.stages,
        Consumers::warpgroups(tile.groups),
    );
    let turns = Turns::of_warpgroups(tile.groups).with_buffers(1);
    let epilogue = EpilogueStore::alloc(out, turns);
    let order = rows_of_group(tile.shape());
    let tiles = Tiles {
        of_product: GroupedRows::new([pixels, columns], tile.shape(), order),
        batches: groups,
        is_batched: form.has_groups,
        ctas: 1,
    };
    let blocks = cdiv(channels, form.channels);
    let steps = walk.count() * blocks;
    assume((channels > 0) & (steps > 0));

    let multiply = |part: usize| {
        let rows = part * tile.rows..(part + 1) * tile.rows;
        let (mut at, mut turn) = (pipeline.start(), epilogue.start());
        for number in tiles.of_program() {
            let mut acc = T::zeros([tile.rows, columns_of_tile], columns_of_tile);
            for _ in range(0, steps) {
                let stage = pipeline.consumer_wait(at);
                let (of_image, of_filters) = stage.tiles;
                let of_image = of_image.slice(0, rows.clone());
                let of_filters = form.by_filters(of_filters).transpose();
                acc = acc.mma(of_image, of_filters).wait(0);
                at = pipeline.consumer_release(stage).advance();
            }
            let sums = acc.wait_all();
            let [group, row, column] = tiles.place(number);
            let finished = Finished {
                first: [
                    row * rows_of_tile + part * tile.rows,
                    group * columns + column * columns_of_tile,
                ],
                batch: scalar(0),
                rows_apart: 1,
                turned: false,
                size: [pixels, (group + 1) * columns],
                data: Data {
                    alpha: scalar(1.0),
                    beta,
                    source,
                    source_pitch,
                    source_batch: scalar(0_i64),
                    bias,
                    scales: [scales; 2],
                },
            };
            turn = epilogue.fill_by(part, turn, |buffer| {
                finished.store(form.epilogue, sums, buffer);
            });
        }
    };
    let store = |part: usize| {
        let mut turn = epilogue.start();
        for number in tiles.of_program() {
            let [group, row, column] = tiles.place(number);
            let row = row * rows_of_tile + part * tile.rows;
            turn = epilogue.store(part, turn, out, [group, row, column * columns_of_tile]);
        }
    };
    let load = || {
        let mut at = pipeline.start();
        for number in tiles.of_program() {
            let [group, row, column] = tiles.place(number);
            let [index, plane, top, left] = walk.first(row * rows_of_tile, has_depth);
            let [planes, rows, columns_of_taps] = walk.taps;
            let [deep, high, wide] = walk.spread;
            let mut tap = scalar(0);
            for i in range(0, planes) {
                for j in range(0, rows) {
                    for k in range(0, columns_of_taps) {
                        let of_filters = if form.is_gradient {
                            walk.count() - 1 - tap
                        } else {
                            tap
                        };
                        for block in range(0, blocks) {
                            let stage = pipeline.producer_acquire(at);
                            let (of_image, to_filters) = stage.tiles;
                            let within = block * form.channels;
                            let channel = group * channels + within;
                            if has_depth {
                                let place = [index, plane, top, left, channel];
                                let offsets = [i * deep, j * high, k * wide];
                                image.load_im2col(place, offsets, of_image, stage.full);
                            } else {
                                let place = [index, top, left, channel];
                                let offsets = [j * high, k * wide];
                                image.load_im2col(place, offsets, of_image, stage.full);
                            }
                            let filter = column * columns_of_tile;
                            let place = if form.is_gradient {
                                [of_filters, channel, filter]
                            } else {
                                [of_filters, group * columns + filter, within]
                            };
                            filters.load(place, to_filters, stage.full);
                            at = pipeline.commit(stage).advance();
                        }
                        tap += 1;
                    }
                }
            }
        }
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
