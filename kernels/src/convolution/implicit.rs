//! Convolutions as products whose operand A is never stored: persistent kernels, warp-specialized as that of [`dense`](crate::products::dense) products. A
//! producer warp issues TMA loads, for each step of pixels under one tap of the filters in im2col mode, some of their channels, and of this tap of the filters;
//! consumer warpgroups multiply, and warps store their results by TMA.

use tilekit::prelude::*;

use super::form::Form;
use super::walk::{TapOrder, Walk};
use crate::products::dense::{Tiles, rows_of_group};
use crate::products::epilogue::{Data, Epilogue, Plain};
use crate::products::factor::{Operand, ResultOf, Stored};
use crate::products::finished::Finished;
use crate::products::form::{block_of, swizzle_of, swizzle_of_results};
use crate::products::output_handles::NoOutputs;
use crate::products::registers::registers_of;

/// `out[pixel, filter] = Σ image[pixel under tap, channel] · filters[tap, filter, channel]` over all taps and the channels of the filter's group.
///
/// `image` has the channels of all groups; `filters` is `[taps, filters, channels of a group]`, and `out` `[groups, pixels, filters of a group]`. With groups, a step's
/// channels divide those of a group. Pixels outside of an image are zeros, which TMA loads write, as they do for channels beyond the last. Of a gradient of the image, `image` is that of
/// the result, channels and filters are exchanged, and `order` takes taps backwards.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn convolve<T: Operand, O: ResultOf<T, Addend = O>, E: Epilogue<O, Outputs = NoOutputs>>(
    #[fixed] form: Form<E>,
    #[im2col(form.rank, form.pixels(), swizzle_of::<T>(form.channels))] image: TensorMap<T>,
    #[block(form.filters(), form.swizzle_of_filters::<T>())] filters: TensorMap<T>,
    #[block(block_of(form.results(), true), swizzle_of_results::<O>(form.tile.columns))]
    out: TensorMap<O>,
    pixels: i32,
    columns: i32,
    channels: i32,
    groups: i32,
    walk: Walk,
    order: TapOrder,
    beta: f32,
    #[align(size_of::<O>())] source: Ptr<O>,
    source_pitch: i32,
    bias: Ptr<O>,
    scales: Ptr<f32>,
) {
    let data = Data {
        alpha: scalar(1.0),
        beta,
        source,
        source_pitch,
        source_batch: scalar(0_i64),
        bias,
        scales: [scales; 2],
        outputs: NoOutputs,
    };
    let sizes = [pixels, columns, channels, groups];
    let of = Implicit::new(form, (image, filters, out), sizes, (walk, order), data);
    of.run(|[group, row, column], tile| out.store([group, row, column], tile));
}

/// The same for pixels that lie apart in `out`, an image of them alone in im2col mode: those whose gradients are sums over the same taps, where a convolution has strides.
/// With groups, a tile's columns divide the filters of one.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn convolve_apart<T: Operand, O: ResultOf<T, Addend = O>>(
    #[fixed] form: Form<Plain>,
    #[im2col(form.rank, form.pixels(), swizzle_of::<T>(form.channels))] image: TensorMap<T>,
    #[block(form.filters(), form.swizzle_of_filters::<T>())] filters: TensorMap<T>,
    #[im2col(form.rank, form.results(), swizzle_of_results::<O>(form.tile.columns))] out: TensorMap<
        O,
    >,
    pixels: i32,
    columns: i32,
    channels: i32,
    groups: i32,
    walk: Walk,
    order: TapOrder,
    nothing: Ptr<O>,
    no_scales: Ptr<f32>,
) {
    let data = Data {
        alpha: scalar(1.0),
        beta: scalar(0.0),
        source: nothing,
        source_pitch: scalar(0),
        source_batch: scalar(0_i64),
        bias: nothing,
        scales: [no_scales; 2],
        outputs: NoOutputs,
    };
    let sizes = [pixels, columns, channels, groups];
    let of = Implicit::new(form, (image, filters, out), sizes, (walk, order), data);
    of.run(|[group, row, column], tile| {
        let (place, channel) = (walk.place(row, form.rank == 5), group * columns + column);
        let [plane, line, pixel] = place.at;
        if form.rank == 5 {
            out.store([place.image, plane, line, pixel, channel], tile);
        } else {
            out.store([place.image, line, pixel, channel], tile);
        }
    });
}

/// What the partitions of a CTA share.
#[derive(Clone, Copy)]
struct Implicit<T: Operand, O: Stored, E> {
    form: Form<E>,
    image: TensorMap<T>,
    filters: TensorMap<T>,
    pipeline: Pipeline<(Smem<T>, Smem<T>)>,
    epilogue: EpilogueStore<O>,
    tiles: Tiles,
    /// Pixels, filters and channels of a group.
    sizes: [Scalar<i32>; 3],
    walk: Walk,
    order: TapOrder,
    data: Data<O>,
}

impl<T: Operand, O: ResultOf<T, Addend = O>, E: Epilogue<O, Outputs = NoOutputs>>
    Implicit<T, O, E>
{
    #[device]
    fn new(
        form: Form<E>,
        (image, filters, out): (TensorMap<T>, TensorMap<T>, TensorMap<O>),
        [pixels, columns, channels, groups]: [Scalar<i32>; 4],
        (walk, order): (Walk, TapOrder),
        data: Data<O>,
    ) -> Self {
        launch_dependents();
        let tile = form.tile;
        let consumers = Consumers::warpgroups(tile.groups);
        let turns = Turns::of_warpgroups(tile.groups).with_buffers(1);
        let of_group = rows_of_group(tile.shape());
        Implicit {
            form,
            image,
            filters,
            pipeline: Pipeline::tma((image, filters), tile.stages, consumers),
            epilogue: EpilogueStore::alloc(out, turns),
            tiles: Tiles {
                of_product: GroupedRows::new([pixels, columns], tile.shape(), of_group),
                batches: groups,
                is_batched: form.has_groups,
                ctas: 1,
            },
            sizes: [pixels, columns, channels],
            walk,
            order,
            data,
        }
    }

    /// Runs the partitions; `store` stores a buffer of results at a group, a pixel and a filter.
    #[track_caller]
    fn run(self, store: impl Fn([Scalar<i32>; 3], Smem<O>)) {
        let groups = self.form.tile.groups;
        let [of_consumers, of_others] = registers_of(groups);
        let multiply = |part: usize| self.multiply(part);
        warp_specialize()
            .registers(of_consumers)
            .main(|| multiply(0))
            .workers(1..groups, Warps(4).registers(of_consumers), multiply)
            .worker(Warps(1).registers(of_others), || self.load())
            .workers(0..groups, Warps(1).registers(of_others), |part| {
                self.store(part, &store);
            })
            .run();
    }

    /// Blocks of channels of a tap.
    #[track_caller]
    fn blocks(self) -> Scalar<i32> {
        cdiv(self.sizes[2], self.form.channels)
    }

    /// The first pixel of a warpgroup, and the first filter, of a tile in this row and column of them.
    #[track_caller]
    fn first(self, [row, column]: [Scalar<i32>; 2], part: usize) -> [Scalar<i32>; 2] {
        let [rows, columns] = self.form.tile.shape();
        [row * rows + part * self.form.tile.rows, column * columns]
    }

    /// A consumer warpgroup.
    #[device]
    fn multiply(self, part: usize) {
        let (tile, pipeline) = (self.form.tile, self.pipeline);
        let [pixels, columns, _] = self.sizes;
        let steps = self.walk.count() * self.blocks();
        assume((self.sizes[2] > 0) & (steps > 0));
        if !self.form.epilogue.is_plain() {
            launch_wait();
        }
        let rows = part * tile.rows..(part + 1) * tile.rows;
        let (mut at, mut turn) = (pipeline.start(), self.epilogue.start());
        for number in self.tiles.of_program() {
            let mut acc = T::zeros([tile.rows, tile.columns], tile.columns);
            for _ in range(0, steps) {
                let stage = pipeline.consumer_wait(at);
                let (of_image, of_filters) = stage.tiles;
                let of_image = of_image.slice(0, rows.clone());
                let of_filters = self.form.by_filters(of_filters).transpose();
                acc = acc.mma(of_image, of_filters).wait(0);
                at = pipeline.consumer_release(stage).advance();
            }
            let sums = acc.wait_all();
            let [group, row, column] = self.tiles.place(number);
            let [row, column] = self.first([row, column], part);
            let finished = Finished {
                first: [row, group * columns + column],
                batch: scalar(0),
                rows_apart: 1,
                turned: false,
                size: [pixels, (group + 1) * columns],
                data: self.data,
            };
            turn = self.epilogue.fill_by(part, turn, |buffer| {
                finished.store(self.form.epilogue, sums, buffer);
            });
        }
    }

    /// The warp that stores for a warpgroup: what launches in front may read, since they had ended before anything was loaded.
    #[device]
    fn store(self, part: usize, store: &impl Fn([Scalar<i32>; 3], Smem<O>)) {
        let mut turn = self.epilogue.start();
        for number in self.tiles.of_program() {
            let [group, row, column] = self.tiles.place(number);
            let [row, column] = self.first([row, column], part);
            turn = self.epilogue.store_by(part, turn, |tile| {
                store([group, row, column], tile);
            });
        }
    }

    /// The producer warp.
    #[device]
    fn load(self) {
        let (form, order) = (self.form, self.order);
        let [planes, lines, pixels] = self.walk.taps;
        let [deep, high, wide] = self.walk.spread;
        let mut at = self.pipeline.start();
        launch_wait();
        for number in self.tiles.of_program() {
            let [group, row, column] = self.tiles.place(number);
            let [row, filter] = self.first([row, column], 0);
            let place = self.walk.first(row, form.rank == 5);
            for i in range(0, planes) {
                for j in range(0, lines) {
                    for k in range(0, pixels) {
                        let [a, b, c] = order.step;
                        let tap = order.first + i * a + j * b + k * c;
                        let offsets = [i * deep, j * high, k * wide];
                        for block in range(0, self.blocks()) {
                            let within = block * form.channels;
                            let of_tap = (place, offsets, tap);
                            at = self.load_block(at, of_tap, [group, filter, within]);
                        }
                    }
                }
            }
        }
    }

    /// Loads some channels of pixels under a tap, and of the filters.
    #[device]
    fn load_block(
        self,
        at: PipelineState,
        (place, offsets, tap): ([Scalar<i32>; 4], [Scalar<i32>; 3], Scalar<i32>),
        [group, filter, within]: [Scalar<i32>; 3],
    ) -> PipelineState {
        let [_, columns, channels] = self.sizes;
        let [index, plane, top, left] = place;
        let channel = group * channels + within;
        let stage = self.pipeline.producer_acquire(at);
        let (of_image, to_filters) = stage.tiles;
        if self.form.rank == 5 {
            let place = [index, plane, top, left, channel];
            self.image.load_im2col(place, offsets, of_image, stage.full);
        } else {
            let (place, [_, high, wide]) = ([index, top, left, channel], offsets);
            let image = self.image;
            image.load_im2col(place, [high, wide], of_image, stage.full);
        }
        let place = if self.form.is_gradient {
            [tap, channel, filter]
        } else {
            [tap, group * columns + filter, within]
        };
        self.filters.load(place, to_filters, stage.full);
        self.pipeline.commit(stage).advance()
    }
}
