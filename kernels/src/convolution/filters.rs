//! The gradient of filters: a product over pixels, whose operand B is gathered by im2col loads. CTAs have some pixels each (split-K), and a second kernel adds their parts in a
//! fixed order.

use std::fmt;

use tilekit::prelude::*;

use super::walk::Walk;
use crate::products::factor::{Operand, ResultOf};
use crate::products::form::swizzle_of;

/// Pixels of a step.
pub(super) const PIXELS: usize = 64;

/// Filters of a consumer warpgroup.
pub(super) const FILTERS: usize = 64;

/// What [`filter_gradient`] is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FilterForm {
    /// Consumer warpgroups, of 64 filters each.
    pub groups: usize,
    /// Channels of a tile.
    pub channels: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// Dimensions of an image: 4, or 5 with depth.
    pub rank: u32,
}

impl FilterForm {
    fn filters(&self) -> usize {
        self.groups * FILTERS
    }
}

impl fmt::Display for FilterForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FilterForm {
            groups,
            channels,
            stages,
            rank,
        } = self;
        let depth = if *rank == 5 { "+depth" } else { "" };
        write!(f, "{groups}x{channels}x{stages}{depth}")
    }
}

/// `parts[part, filter, tap, channel]` is the sum of `gradient[pixel, filter] · image[pixel under tap, channel]` over the pixels of a part. The grid has a program for each tile of
/// filters and channels of each tap and part, tiles of a part one after the other.
#[kernel(warps = 4)]
pub fn filter_gradient<T: Operand + ResultOf<T>>(
    #[fixed] form: FilterForm,
    #[im2col(form.rank, [PIXELS, form.channels], swizzle_of::<T>(form.channels))] image: TensorMap<
        T,
    >,
    #[block([PIXELS, form.filters()], Nvmma::B128)] gradient: TensorMap<T>,
    parts: Ptr<f32>,
    count: i32,
    pixels: i32,
    filters: i32,
    channels: i32,
    groups: i32,
    output: [i32; 3],
    step: [i32; 3],
    lower: [i32; 3],
    taps: [i32; 3],
    spread: [i32; 3],
) {
    let walk = Walk {
        out: output,
        step,
        lower,
        taps,
        spread,
    };
    let consumers = Consumers::warpgroups(form.groups);
    let pipeline = Pipeline::tma((gradient, image), form.stages, consumers);
    let taps = walk.count();
    let blocks = cdiv(channels, form.channels);
    let rows = cdiv(filters, form.filters());
    let tiles = groups * rows * taps * blocks;
    let (part, tile) = (program_id(0) / tiles, program_id(0) % tiles);
    let (rest, block) = (tile / blocks, tile % blocks);
    let (rest, tap) = (rest / taps, rest % taps);
    let (group, row) = (rest / rows, rest % rows);
    let (filter, channel) = (row * form.filters(), block * form.channels);
    let steps = cdiv(pixels, PIXELS);
    let each = cdiv(steps, count);
    let first = minimum(part * each, steps);
    let end = minimum(first + each, steps);

    let multiply = |warpgroup: usize| {
        let mine = warpgroup * FILTERS..(warpgroup + 1) * FILTERS;
        let mut acc = T::zeros([FILTERS, form.channels], form.channels);
        let mut at = pipeline.start();
        let mut before = pipeline.nothing_held(&at);
        for step in range(first, end) {
            let stage = pipeline.consumer_wait(at);
            let (of_gradient, of_image) = stage.tiles;
            let of_filters = of_gradient.transpose().slice(0, mine.clone());
            acc = acc.mma(of_filters, of_image).wait(1);
            let held = stage.hold();
            at = held.next();
            let done = std::mem::replace(&mut before, held);
            pipeline.consumer_release_when(step > first, done);
        }
        let sums = acc.wait_all().cast::<f32>();
        let of_group = rows_of(sums.layout(), filter + warpgroup * FILTERS, FILTERS);
        let column = columns_of(sums.layout(), channel, form.channels);
        let inside = (of_group < filters) & (column < channels);
        let line = (group * filters + of_group) * taps + tap;
        let place = line.cast::<i64>() * channels.cast::<i64>() + column;
        let size = (groups * filters * taps).cast::<i64>() * channels.cast::<i64>();
        let parts = parts + part.cast::<i64>() * size;
        parts.at(place).mask(inside).store(sums);
    };
    let load = || {
        let [_, tap_rows, tap_columns] = walk.taps;
        let [deep, high, wide] = walk.spread;
        let (line, k) = (tap / tap_columns, tap % tap_columns);
        let (i, j) = (line / tap_rows, line % tap_rows);
        let mut at = pipeline.start();
        for step in range(first, end) {
            let stage = pipeline.producer_acquire(at);
            let (of_gradient, of_image) = stage.tiles;
            let pixel = step * PIXELS;
            let from = [pixel, group * filters + filter];
            gradient.load(from, of_gradient, stage.full);
            let [index, plane, top, left] = walk.first(pixel, form.rank == 5);
            let channel = group * channels + channel;
            if form.rank == 5 {
                let place = [index, plane, top, left, channel];
                let offsets = [i * deep, j * high, k * wide];
                image.load_im2col(place, offsets, of_image, stage.full);
            } else {
                let place = [index, top, left, channel];
                let offsets = [j * high, k * wide];
                image.load_im2col(place, offsets, of_image, stage.full);
            }
            at = pipeline.commit(stage).advance();
        }
    };
    warp_specialize()
        .main(|| multiply(0))
        .workers(1..form.groups, Warps(4), multiply)
        .worker(Warps(1), load)
        .run();
}

/// Elements of a program of [`add_parts`], and how many parts it loads at once.
pub(super) const FEW_PARTS: [usize; 2] = [1024, 1];

/// The same where there are so many parts that one load after another takes most of the time.
pub(super) const MANY_PARTS: [usize; 2] = [128, 32];

/// Of so many parts: below [`MANY_PARTS`], CTAs of which most loads are masked cost more than they gain.
pub(super) fn adding(count: usize) -> [usize; 2] {
    if count < MANY_PARTS[1] {
        FEW_PARTS
    } else {
        MANY_PARTS
    }
}

/// `out[i]` is the sum of `parts[part, i]` over the parts for `i < length`, always in the same order.
#[kernel(warps = 4, instances(<bf16, 1024, 1>, <bf16, 128, 32>, <f16, 1024, 1>, <f16, 128, 32>))]
pub fn add_parts<T: Float, const ELEMENTS: usize, const AT_ONCE: usize>(
    #[readonly] parts: Ptr<f32>,
    #[align(size_of::<T>())] out: Ptr<T>,
    count: i32,
    #[multiple_of(8)] length: i32,
) {
    let warps = AT_ONCE.min(4);
    let layout = Blocked::new([AT_ONCE / warps, 4], [1, 32], [warps, 4 / warps], [1, 0]);
    let part = arange(0..AT_ONCE, Slice::new(1, layout.clone())).expand_dims(1);
    let at = program_id(0) * ELEMENTS + arange(0..ELEMENTS, Slice::new(0, layout));
    let inside = at < length;
    let (places, within) = (at.expand_dims(0).cast::<i64>(), inside.expand_dims(0));
    let read = |first: Scalar<i32>| {
        let part = first + part;
        let places = part.cast::<i64>() * length.cast::<i64>() + places;
        let there = (part < count) & within;
        parts.at(places).mask(there).other(0.0).load()
    };
    let mut sums = read(scalar(0));
    for first in range(AT_ONCE as i32, count).step(AT_ONCE as i32) {
        sums += read(first);
    }
    out.at(at).mask(inside).store(sums.sum(0).cast::<T>());
}
