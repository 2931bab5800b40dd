//! Depthwise convolutions: of groups of one channel and one filter, which tensor cores would mostly multiply zeros for. Threads have eight channels of some pixels of a line, and load each pixel under them once for each line of taps.

use std::fmt;

use tilekit::prelude::*;

use super::residue::Residue;
use super::shape::{Along, Shape, UNIT};
use super::walk::{TapOrder, Walk};
use crate::products::epilogue::{Data, Epilogue, Named, Place};
use crate::products::factor::{MULTIPROCESSORS, Operand, Stored};
use crate::products::output_handles::NoOutputs;

/// Channels of a thread.
pub(super) const CHANNELS: usize = 8;

/// Pixels of a thread.
const PIXELS: usize = 4;

/// Threads of a program.
const THREADS: usize = 128;

/// Taps of a line of filters under some pixels of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Taps {
    /// Pixels of a thread, along width.
    pub pixels: usize,
    /// Taps along width.
    pub wide: usize,
    /// Input pixels from one output pixel to the next.
    pub stride: usize,
    /// Input pixels from one tap to the next.
    pub dilation: usize,
}

impl Taps {
    /// Those of a convolution; none of too many for registers.
    pub(super) fn of(along: &Along) -> Option<Taps> {
        let taps = Taps {
            pixels: PIXELS,
            wide: along.taps,
            stride: along.stride,
            dilation: along.dilation,
        };
        (taps.wide <= MOST_WIDE && taps.positions() <= MOST_POSITIONS).then_some(taps)
    }

    /// Input pixels under those of a thread, and how many apart, from the first one on.
    pub(super) fn positions(&self) -> usize {
        (self.pixels - 1) * self.stride + (self.wide - 1) * self.dilation + 1
    }

    /// Pixels and taps for which the input pixel at a position counts.
    pub(super) fn under(&self, position: usize) -> Vec<[usize; 2]> {
        let all = (0..self.pixels).flat_map(|x| (0..self.wide).map(move |j| [x, j]));
        all.filter(|[x, j]| x * self.stride + j * self.dilation == position)
            .collect()
    }
}

impl fmt::Display for Taps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Taps {
            pixels,
            wide,
            stride,
            dilation,
        } = self;
        write!(f, "{wide}x{pixels}+{stride}x{dilation}")
    }
}

/// Channels of a program, of so many.
pub(super) fn width_of(channels: usize) -> Option<usize> {
    let divides = |count: &usize| channels.is_multiple_of(*count);
    [64, 32, 16, 8].into_iter().find(divides)
}

/// How threads of a program divide so many channels, and positions.
pub(super) fn layout_of(channels: usize) -> Blocked {
    let along = channels / CHANNELS;
    Blocked::new([1, CHANNELS], [32 / along, along], [4, 1], [1, 0])
}

/// Positions of threads of a program of so many channels.
pub(super) fn threads_of(channels: usize) -> usize {
    THREADS / (channels / CHANNELS)
}

/// The output pixels of threads.
#[derive(Clone, Copy, Aggregate)]
pub(super) struct Pixels {
    /// The first one of a thread, in its line.
    pub(super) first: Tensor<i32>,
    /// The line, counted through all images, and in its image.
    pub(super) line: Tensor<i32>,
    pub(super) y: Tensor<i32>,
    pub(super) image: Tensor<i32>,
}

impl Pixels {
    /// Those of a tile, of so many channels of a program and pixels of a thread, where an image has so many lines and a line so many threads.
    #[device]
    pub(super) fn of(
        tile: Scalar<i32>,
        [channels, pixels]: [usize; 2],
        [lines, of_line]: [Scalar<i32>; 2],
    ) -> Pixels {
        let threads = threads_of(channels);
        let number = tile * threads;
        let number = number + arange(0..threads, Slice::new(1, layout_of(channels)));
        let number = number.expand_dims(1);
        let (first, line) = (number % of_line * pixels, number / of_line);
        Pixels {
            first,
            line,
            y: line % lines,
            image: line / lines,
        }
    }
}

/// What [`depthwise`] is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DepthwiseForm<E> {
    /// The taps of a line under the pixels of a thread.
    pub taps: Taps,
    /// Lines of taps.
    pub high: usize,
    /// Channels of a program: 8, 16, 32 or 64.
    pub channels: usize,
    /// What happens to sums.
    pub epilogue: E,
}

impl<E> DepthwiseForm<E> {
    /// The same with another epilogue.
    pub(super) fn with<N>(self, epilogue: N) -> DepthwiseForm<N> {
        DepthwiseForm {
            taps: self.taps,
            high: self.high,
            channels: self.channels,
            epilogue,
        }
    }

    /// Rows of the filters in shared memory: a power of two.
    fn rows(&self) -> usize {
        (self.high * self.taps.wide).next_power_of_two()
    }
}

impl<E: Named> fmt::Display for DepthwiseForm<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (high, taps, channels) = (self.high, self.taps, self.channels);
        write!(f, "{high}x{taps}x{channels}")?;
        match self.epilogue.name().as_str() {
            "" => Ok(()),
            name => write!(f, "+{name}"),
        }
    }
}

/// `out[pixel, channel] = Σ image[pixel under tap, channel] · filters[channel, tap]` over all taps. `filters` are `of_filter` elements apart. Pixels of `out` begin 8 times the elements of `apart`
/// from each other: from one image, line and pixel to the next. Programs have blocks of channels in turns, and all of them some pixels.
#[kernel(warps = 4, min_ctas_per_sm = 4)]
pub fn depthwise<T: Operand + Float + Stored<Addend = T>, E: Epilogue<T, Outputs = NoOutputs>>(
    #[fixed] form: DepthwiseForm<E>,
    image: Ptr<T>,
    #[align(size_of::<T>())] filters: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] channels: i32,
    images: i32,
    input: [i32; 2],
    walk: Walk,
    order: TapOrder,
    of_filter: i32,
    apart: [i64; 3],
    beta: f32,
    #[align(size_of::<T>())] source: Ptr<T>,
    bias: Ptr<T>,
    scales: Ptr<f32>,
) {
    let (high, wide, step) = (form.high, form.taps.wide, form.taps.pixels);
    let layout = layout_of(form.channels);
    let blocks = cdiv(channels, form.channels);
    let (block, program) = (program_id(0) % blocks, program_id(0) / blocks);
    let channel = block * form.channels + arange(0..form.channels, Slice::new(0, layout.clone()));
    let channel = channel.expand_dims(0);
    let weights = Smem::<f32>::alloc([form.rows(), form.channels], Swizzled::plain([1, 0]));
    let tap = arange(0..form.rows(), Slice::new(1, layout.clone())).expand_dims(1);
    let [_, of_line, of_tap] = order.step;
    let place = order.first + tap / wide * of_line + tap % wide * of_tap;
    let there = (tap < high * wide) & (channel < channels);
    let place = channel * of_filter + place;
    weights.store(filters.at(place).mask(there).other(0).load().cast::<f32>());
    let data = Data {
        alpha: scalar(1.0),
        beta,
        source,
        source_pitch: channels,
        source_batch: scalar(0_i64),
        bias,
        scales: [scales; 2],
        outputs: NoOutputs,
    };
    let threads = threads_of(form.channels);
    let [_, lines, pixels] = walk.out;
    let of_line = cdiv(pixels, step);
    let tiles = cdiv(images * lines * of_line, threads);
    for tile in range(program, tiles).step(num_programs(0) / blocks) {
        let Pixels {
            first,
            line,
            y,
            image: index,
        } = Pixels::of(tile, [form.channels, step], [lines, of_line]);
        let is_inside = (index < images) & (channel < channels);
        let mut sums: Vec<_> = (0..step)
            .map(|_| full_like(channel + first, 0).cast::<f32>())
            .collect();
        let [height, width] = input;
        let left = first * walk.step[2] + walk.lower[2];
        for i in range(0, high as i32) {
            let top = y * walk.step[1] + walk.lower[1] + walk.spread[1] * i;
            let is_line = is_inside & (top >= 0) & (top < height);
            let of_image = (index * height + top).cast::<i64>() * (width * channels).cast::<i64>();
            let row: Vec<_> = (0..wide)
                .map(|j| {
                    let row = weights.index(i * wide + j);
                    row.load(Slice::new(0, layout.clone())).expand_dims(0)
                })
                .collect();
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
                    sums[x] = v.fma(row[j], sums[x]);
                }
            }
        }
        let [of_images, of_lines, of_pixels] = apart.map(|units| units * 8);
        let to = index.cast::<i64>() * of_images + y.cast::<i64>() * of_lines;
        for x in 0..step {
            let pixel = first + x;
            let is_there = is_inside & (pixel < pixels);
            let finished = if form.epilogue.is_plain() {
                sums[x]
            } else {
                form.epilogue.finish(
                    sums[x],
                    Place {
                        // Pixels behind a line are those of the next one, which other threads have.
                        row: select(
                            pixel < pixels,
                            line * pixels + pixel,
                            images * lines * pixels,
                        ),
                        column: channel,
                        batch: scalar(0),
                        size: [images * lines * pixels, channels],
                        data,
                        given: None,
                        stored: None,
                        measures: false,
                        loaded: None,
                    },
                )
            };
            let place = to + pixel.cast::<i64>() * of_pixels + channel.cast::<i64>();
            out.at(place).mask(is_there).store(finished.cast::<T>());
        }
    }
}

/// Taps that a program holds in registers along width, and in shared memory in all.
const MOST_WIDE: usize = 11;
const MOST_TAPS: usize = 128;

/// Positions under the pixels of a thread, at most: each is a load.
const MOST_POSITIONS: usize = 40;

/// CTAs of a multiprocessor.
const RESIDENT: usize = 4;

/// Whether all groups of a convolution have a channel and a filter, in lines whose elements an i32 counts with those under the last tap.
pub(super) fn is_depthwise(asked: &Shape) -> bool {
    let wide = asked.along[2];
    let pixels = wide.input.max(wide.output).saturating_add(1 << 20);
    [asked.channels, asked.filters] == [1; 2]
        && asked.groups.is_multiple_of(UNIT)
        && !asked.has_depth
        && i32::try_from(pixels.saturating_mul(asked.groups)).is_ok()
}

/// A launch of [`depthwise`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Depthwise {
    pub(super) form: DepthwiseForm<()>,
    pub(super) programs: usize,
    pub(super) microseconds: f64,
}

impl Depthwise {
    /// That of a residue of such a convolution; none of too many taps for registers.
    pub(super) fn of(shape: &Shape) -> Option<Depthwise> {
        let [_, high, wide] = shape.along;
        let channels = shape.groups;
        let form = DepthwiseForm {
            taps: Taps::of(&wide)?,
            high: high.taps,
            channels: width_of(channels)?,
            epilogue: (),
        };
        if high.taps.saturating_mul(wide.taps) > MOST_TAPS {
            return None;
        }
        let lines = shape.images * high.output;
        let places = lines * wide.output.div_ceil(form.taps.pixels);
        let blocks = channels / form.channels;
        let tiles = places.div_ceil(threads_of(form.channels)).max(1);
        let each = (RESIDENT * MULTIPROCESSORS / blocks).clamp(1, tiles);
        Some(Depthwise {
            form,
            programs: blocks * each,
            microseconds: form.microseconds(shape, places * channels / CHANNELS),
        })
    }
}

impl<E> DepthwiseForm<E> {
    /// Microseconds for so many threads: of instructions, or of what DRAM takes and gives.
    fn microseconds(&self, shape: &Shape, threads: usize) -> f64 {
        let (high, taps) = (self.high, self.taps);
        let products = high * taps.wide * taps.pixels * CHANNELS;
        let loads = high * taps.positions() * (CHANNELS + 8);
        let others = 2 * high * taps.wide + 12 * taps.pixels + 40;
        let instructions = (products + loads + others) as f64 * threads as f64 / 32.0;
        let cycles = instructions / (4 * MULTIPROCESSORS) as f64;
        (1.9 * cycles / 1.7e3).max(shape.bytes() / 3.0e6) + 3.0
    }
}

/// How pixels of a residue lie in an image of so many pixels along depth, height and width: the first one, and units of 8 elements from one image, line and pixel to the next.
pub(super) fn places_of(
    residue: &Residue,
    ([deep, high, wide], strides): ([usize; 3], [usize; 3]),
    channels: usize,
) -> (usize, [i64; 3]) {
    let [_, line, pixel] = residue.first;
    let first = (line * wide + pixel) * channels;
    let apart = [deep * high * wide, strides[1] * wide, strides[2]];
    (first, apart.map(|pixels| (pixels * channels / 8) as i64))
}
