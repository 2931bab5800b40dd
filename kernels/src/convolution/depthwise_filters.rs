//! Gradients of the filters of depthwise convolutions: each program has a line of taps of some channels, and a part of the pixels.

use std::fmt;

use tilekit::prelude::*;

use super::depthwise::{CHANNELS, Pixels, Taps, layout_of, threads_of, width_of};
use super::shape::Shape;
use super::walk::Walk;
use crate::products::factor::{MULTIPROCESSORS, Operand};

/// CTAs of a multiprocessor.
const RESIDENT: usize = 3;

/// What [`depthwise_filters`] is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DepthwiseFiltersForm {
    /// The taps of a line under the pixels of a thread.
    pub taps: Taps,
    /// Channels of a program: 8, 16, 32 or 64.
    pub channels: usize,
}

impl fmt::Display for DepthwiseFiltersForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.taps, self.channels)
    }
}

/// `parts[part, channel, tap]` is the sum of `gradient[pixel, channel] · image[pixel under tap, channel]` over the pixels of a part, of which there are `count`. Lines of taps, blocks of channels and parts follow each other, so that
/// what runs at a time reads the same pixels.
#[kernel(warps = 4, min_ctas_per_sm = 3)]
pub fn depthwise_filters<T: Operand + Float>(
    #[fixed] form: DepthwiseFiltersForm,
    image: Ptr<T>,
    gradient: Ptr<T>,
    parts: Ptr<f32>,
    #[multiple_of(8)] channels: i32,
    images: i32,
    input: [i32; 2],
    walk: Walk,
    count: i32,
) {
    launch_dependents();
    launch_wait();
    let layout = layout_of(form.channels);
    let [_, high, wide] = walk.taps;
    let blocks = cdiv(channels, form.channels);
    let (i, rest) = (program_id(0) % high, program_id(0) / high);
    let (block, part) = (rest % blocks, rest / blocks);
    let channel = block * form.channels + arange(0..form.channels, Slice::new(0, layout.clone()));
    let channel = channel.expand_dims(0);
    let [_, lines, pixels] = walk.out;
    let [height, width] = input;
    let of_line = cdiv(pixels, form.taps.pixels);
    let threads = threads_of(form.channels);
    let tiles = cdiv(images * lines * of_line, threads);
    let zeros = || {
        let row = arange(0..threads, Slice::new(1, layout.clone())).expand_dims(1);
        full_like(channel + row, 0).cast::<f32>()
    };
    let mut sums: Vec<_> = (0..form.taps.wide).map(|_| zeros()).collect();
    for tile in range(part, tiles).step(count) {
        let Pixels {
            first,
            line,
            y,
            image: index,
        } = Pixels::of(tile, [form.channels, form.taps.pixels], [lines, of_line]);
        let is_inside = (index < images) & (channel < channels);
        let of_gradient = (line * pixels).cast::<i64>() * channels.cast::<i64>();
        let row: Vec<_> = (0..form.taps.pixels)
            .map(|x| {
                let pixel = first + x;
                let place = of_gradient + (pixel * channels + channel).cast::<i64>();
                let row = gradient.at(place).mask(is_inside & (pixel < pixels));
                row.other(0).load().cast::<f32>()
            })
            .collect();
        let top = y * walk.step[1] + walk.lower[1] + walk.spread[1] * i;
        let left = first * walk.step[2] + walk.lower[2];
        let is_line = is_inside & (top >= 0) & (top < height);
        let of_image = (index * height + top).cast::<i64>() * (width * channels).cast::<i64>();
        for position in 0..form.taps.positions() {
            let under = form.taps.under(position);
            if under.is_empty() {
                continue;
            }
            let x = left + position;
            let is_there = is_line & (x >= 0) & (x < width);
            let place = of_image + (x * channels + channel).cast::<i64>();
            let v = image.at(place).mask(is_there).other(0).load();
            let v = v.cast::<f32>();
            for [x, j] in under {
                sums[j] = v.fma(row[x], sums[j]);
            }
        }
    }
    for j in 0..form.taps.wide {
        let sum = sums[j].sum(0).expand_dims(0);
        let of_channel = part.cast::<i64>() * channels.cast::<i64>() + channel.cast::<i64>();
        let place = of_channel * (high * wide).cast::<i64>() + (i * wide + j).cast::<i64>();
        parts.at(place).mask(channel < channels).store(sum);
    }
}

/// A launch of [`depthwise_filters`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DepthwiseFilters {
    pub(super) form: DepthwiseFiltersForm,
    pub(super) parts: usize,
    pub(super) programs: usize,
    pub(super) microseconds: f64,
}

impl DepthwiseFilters {
    /// That of a convolution with groups of one channel and one filter; none of too many taps for registers.
    pub(super) fn of(shape: &Shape) -> Option<DepthwiseFilters> {
        let [_, high, wide] = shape.along;
        let channels = shape.groups;
        let taps = Taps::of(&wide)?;
        let form = DepthwiseFiltersForm {
            taps,
            channels: width_of(channels)?,
        };
        let lines = shape.images * high.output;
        let places = lines * wide.output.div_ceil(taps.pixels);
        let tiles = places.div_ceil(threads_of(form.channels)).max(1);
        let of_part = channels / form.channels * high.taps;
        let parts = (RESIDENT * MULTIPROCESSORS / of_part).clamp(1, tiles);
        let threads = high.taps * places * channels / CHANNELS;
        let products = taps.wide * taps.pixels * CHANNELS;
        let loads = (taps.positions() + taps.pixels) * (CHANNELS + 8);
        let instructions = (products + loads + 60) as f64 * threads as f64 / 32.0;
        let cycles = instructions / (4 * MULTIPROCESSORS) as f64;
        let added = (parts * shape.of_filters() * 8) as f64 / 3.0e6;
        Some(DepthwiseFilters {
            form,
            parts,
            programs: of_part * parts,
            microseconds: (1.9 * cycles / 1.7e3).max(shape.bytes() / 3.0e6) + 5.0 + added,
        })
    }

    /// The part that has a pixel of the result.
    #[cfg(not(test))]
    pub(super) fn part_of(&self, shape: &Shape, pixel: usize) -> usize {
        let (wide, taps) = (shape.along[2].output, self.form.taps);
        let (line, x) = (pixel / wide, pixel % wide);
        let number = line * wide.div_ceil(taps.pixels) + x / taps.pixels;
        number / threads_of(self.form.channels) % self.parts
    }
}
