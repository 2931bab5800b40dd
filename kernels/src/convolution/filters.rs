//! The gradient of filters: a product over pixels, whose operand B is gathered by im2col loads. CTAs have some pixels each (split-K), and a second kernel adds their parts in a
//! fixed order.

use std::fmt;

use tilekit::prelude::*;

use super::walk::Walk;
use crate::products::factor::Operand;

/// Pixels of a step.
pub(super) const PIXELS: usize = 64;

/// Filters of a consumer warpgroup.
pub(super) const FILTERS: usize = 64;

/// Channels of a block: a row of 128 bytes of shared memory.
pub(super) const CHANNELS: usize = 64;

/// What [`filter_gradient`] is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FilterForm {
    /// Consumer warpgroups, of 64 filters each.
    pub groups: usize,
    /// Blocks of a tile, of 64 channels under one tap each.
    pub blocks: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// Dimensions of an image: 4, or 5 with depth.
    pub rank: u32,
}

impl FilterForm {
    /// Filters by elements of them.
    pub(super) fn tile(&self) -> [usize; 2] {
        [self.groups * FILTERS, self.blocks * CHANNELS]
    }

    /// Warps of a consumer, and those that load. Of three consumers the sums do not fit an equal share of the registers.
    fn warps(&self) -> [Warps; 2] {
        if self.groups == 3 {
            [Warps(4).registers(160), Warps(1).registers(32)]
        } else {
            [Warps(4), Warps(1)]
        }
    }
}

impl fmt::Display for FilterForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FilterForm {
            groups,
            blocks,
            stages,
            rank,
        } = self;
        let depth = if *rank == 5 { "+depth" } else { "" };
        write!(f, "{groups}x{blocks}x{stages}{depth}")
    }
}

/// Blocks of channels under taps, those of a tap one after the other: the columns of the product.
#[derive(Clone, Copy, Aggregate)]
struct Blocks {
    walk: Walk,
    /// Channels of a group.
    channels: Scalar<i32>,
    /// Blocks of a tap.
    of_tap: Scalar<i32>,
}

impl Blocks {
    #[device]
    fn count(self) -> Scalar<i32> {
        self.of_tap * self.walk.count()
    }

    /// The tap of block `number`, and its first channel; past the last block, one past the last channel.
    #[device]
    fn place(self, number: Scalar<i32>) -> [Scalar<i32>; 2] {
        let (tap, block) = (number / self.of_tap, number % self.of_tap);
        let is_there = tap < self.walk.count();
        let channel = select(is_there, block * CHANNELS, self.channels);
        [select(is_there, tap, scalar(0)), channel]
    }
}

/// `out[part, filter, tap, channel]` is the sum of `gradient[pixel, filter] · image[pixel under tap, channel]` over the pixels of a part. The grid has a program for each tile and part,
/// tiles of a part one after the other, so that what runs at a time reads the same pixels. The columns of a tile are blocks of channels under any taps, for all of which the gradient's
/// pixels are loaded once. Where there is one part, `out` is the gradient of filters itself.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn filter_gradient<T: Operand, O: Numeric + DeviceElement>(
    #[fixed] form: FilterForm,
    #[im2col(form.rank, [PIXELS, CHANNELS], Nvmma::B128)] image: TensorMap<T>,
    #[block([PIXELS, form.tile()[0]], Nvmma::B128)] gradient: TensorMap<T>,
    out: Ptr<O>,
    count: i32,
    pixels: i32,
    filters: i32,
    #[multiple_of(8)] channels: i32,
    groups: i32,
    walk: Walk,
) {
    launch_dependents();
    let ([rows, columns], has_depth) = (form.tile(), form.rank == 5);
    let buffers = (
        gradient.alloc(form.stages),
        Smem::<T>::alloc([form.stages, PIXELS, columns], Nvmma::B128),
    );
    let consumers = Consumers::warpgroups(form.groups);
    let pipeline = Pipeline::new(buffers, Producers::Tma, consumers);
    let blocks = Blocks {
        walk,
        channels,
        of_tap: cdiv(channels, CHANNELS),
    };
    let (of_row, of_group) = (cdiv(blocks.count(), form.blocks), cdiv(filters, rows));
    let tiles = groups * of_group * of_row;
    let (part, tile) = (program_id(0) / tiles, program_id(0) % tiles);
    let (line, column) = (tile / of_row, tile % of_row);
    let (group, row) = (line / of_group, line % of_group);
    let filter = row * rows;
    let steps = cdiv(pixels, PIXELS);
    let each = cdiv(steps, count);
    let first = minimum(part * each, steps);
    let end = minimum(first + each, steps);

    let multiply = |warpgroup: usize| {
        let mine = warpgroup * FILTERS..(warpgroup + 1) * FILTERS;
        let mut acc = T::zeros([FILTERS, columns], columns);
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
        let sums = acc.wait_all().cast::<O>();
        // The launch before may still read what is stored to.
        launch_wait();
        let size = (groups * filters).cast::<i64>() * (walk.count() * channels).cast::<i64>();
        let out = out + part.cast::<i64>() * size;
        for block in 0..form.blocks {
            let sums = sums.slice(1, block * CHANNELS..(block + 1) * CHANNELS);
            let [tap, channel] = blocks.place(column * form.blocks + block);
            let of_group = rows_of(sums.layout(), filter + warpgroup * FILTERS, FILTERS);
            let of_tap = columns_of(sums.layout(), channel, CHANNELS);
            let inside = (of_group < filters) & (of_tap < channels);
            let line = (group * filters + of_group) * walk.count() + tap;
            let place = line.cast::<i64>() * channels.cast::<i64>() + of_tap;
            out.at(place).mask(inside).store(sums);
        }
    };
    let load = || {
        let places: Vec<_> = (0..form.blocks)
            .map(|block| {
                let [tap, channel] = blocks.place(column * form.blocks + block);
                (walk.tap(tap), group * channels + channel)
            })
            .collect();
        let mut at = pipeline.start();
        let by = walk.place(scalar(PIXELS as i32), has_depth);
        let mut place = walk.place(first * PIXELS, has_depth);
        launch_wait();
        for step in range(first, end) {
            let stage = pipeline.producer_acquire(at);
            let (of_gradient, of_image) = stage.tiles;
            let from = [step * PIXELS, group * filters + filter];
            gradient.load(from, of_gradient, stage.full);
            let [index, plane, top, left] = walk.under(place);
            for (block, ([deep, high, wide], channel)) in places.iter().enumerate() {
                let to = of_image.slice(1, block * CHANNELS..(block + 1) * CHANNELS);
                if has_depth {
                    let from = [index, plane, top, left, *channel];
                    image.load_im2col(from, [*deep, *high, *wide], to, stage.full);
                } else {
                    let from = [index, top, left, *channel];
                    image.load_im2col(from, [*high, *wide], to, stage.full);
                }
            }
            place = walk.after(place, by, has_depth);
            at = pipeline.commit(stage).advance();
        }
    };
    let [consumer, loader] = form.warps();
    warp_specialize()
        .main(|| multiply(0))
        .workers(1..form.groups, consumer, multiply)
        .worker(loader, load)
        .run();
}

/// Elements of a program of [`add_parts`], and how many parts it loads at once: one load after another would take most of the time, and so would loads of which most are masked.
pub(super) const ADDED: [[usize; 2]; 4] = [[512, 4], [512, 8], [128, 32], [32, 128]];

/// The number of [`ADDED`] for so many parts: twice as many as are loaded at once at most, but of the last.
pub(super) fn adding(count: usize) -> usize {
    match count {
        0..=4 => 0,
        5..=16 => 1,
        17..=64 => 2,
        _ => 3,
    }
}

/// `out[i]` is the sum of `parts[part, i]` over the parts for `i < length`, always in the same order.
#[kernel(warps = 4, instances(
    <bf16, 512, 4>, <bf16, 512, 8>, <bf16, 128, 32>, <bf16, 32, 128>,
    <f16, 512, 4>, <f16, 512, 8>, <f16, 128, 32>, <f16, 32, 128>,
))]
pub fn add_parts<T: Float, const ELEMENTS: usize, const AT_ONCE: usize>(
    parts: Ptr<f32>,
    #[align(size_of::<T>())] out: Ptr<T>,
    count: i32,
    #[multiple_of(8)] length: i32,
) {
    launch_dependents();
    launch_wait();
    // Warps are beside each other as far as there are elements for them, and then one below the other.
    let (lanes, warps) = ((ELEMENTS / 4).min(32), (ELEMENTS / 128).clamp(1, 4));
    let each = AT_ONCE / (32 / lanes * (4 / warps));
    let layout = Blocked::new([each, 4], [32 / lanes, lanes], [4 / warps, warps], [1, 0]);
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

/// Elements of a program of [`gather_parts`].
pub(super) const GATHERED: usize = 512;

/// The same where parts have more channels than `out` or lie otherwise: `out[filter, tap, channel]` is the sum of elements `filter * of_filter + line * of_line + tap * of_tap + first + channel`, of
/// the tap's line of `taps`. Parts have `part` elements. `first` is 0 for `of_group` filters, `channels` for as many more, and so on for `merged` groups.
#[kernel(warps = 4, instances(<bf16, f32>, <f16, f32>, <bf16, bf16>, <f16, f16>))]
pub fn gather_parts<T: Float, P: Float>(
    #[align(size_of::<P>())] parts: Ptr<P>,
    #[align(size_of::<T>())] out: Ptr<T>,
    count: i32,
    part: i64,
    length: i32,
    channels: i32,
    taps: i32,
    lines: i32,
    of_filter: i32,
    of_line: i32,
    of_tap: i32,
    of_group: i32,
    merged: i32,
) {
    launch_wait();
    let layout = Blocked::new([1], [32], [4], [0]);
    let at = program_id(0) * GATHERED + arange(0..GATHERED, layout);
    let inside = at < length;
    let (channel, tap) = (at % channels, at / channels);
    let (line, tap) = (tap / taps, tap % taps);
    let (filter, line) = (line / lines, line % lines);
    let first = filter / of_group % merged * channels;
    let place = line * of_line + tap * of_tap + first + channel;
    let place = filter.cast::<i64>() * of_filter + place.cast::<i64>();
    let mut sums = full_like(at, 0).cast::<f32>();
    for number in range(0, count) {
        let parts = parts + number.cast::<i64>() * part;
        sums += parts.at(place).mask(inside).other(0).load().cast::<f32>();
    }
    out.at(at).mask(inside).store(sums.cast::<T>());
}

/// [`add_parts`] as [`ADDED`] says, and what is done with it.
macro_rules! with_added {
    ($number:expr, $element:ty, $kernel:ident => $then:expr) => {
        match $number {
            0 => {
                let $kernel = add_parts::<$element, 512, 4>;
                $then
            }
            1 => {
                let $kernel = add_parts::<$element, 512, 8>;
                $then
            }
            2 => {
                let $kernel = add_parts::<$element, 128, 32>;
                $then
            }
            _ => {
                let $kernel = add_parts::<$element, 32, 128>;
                $then
            }
        }
    };
}
pub(super) use with_added;
