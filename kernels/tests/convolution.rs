//! Convolutions as a program calls them, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use tilekit::prelude::*;
use tilekit::{Buffer, Device, TensorView};
use tilekit_kernels::convolution::{Activation, Convolutions, Options};

/// A tensor of small whole numbers, whose products and sums are exact, behind so many elements.
struct Whole {
    buffer: Buffer<f16>,
    shape: Vec<usize>,
    offset: usize,
}

impl Whole {
    fn new(device: &Device, shape: &[usize], offset: usize, seed: usize) -> Whole {
        let count = shape.iter().product::<usize>() + offset;
        let number = |at: usize| f16::from_f32(((at * 37 + seed * 101) / 7 % 5) as f32 - 2.0);
        let numbers: Vec<f16> = (0..count).map(number).collect();
        Whole {
            buffer: Buffer::from_slice(device, &numbers).unwrap(),
            shape: shape.to_vec(),
            offset,
        }
    }

    fn view(&self) -> TensorView<'_, f16> {
        let view = self.buffer.view(self.shape.as_slice());
        view.with_offset(self.offset)
    }

    fn numbers(&self) -> Vec<f64> {
        let all = self.buffer.to_vec().unwrap();
        all[self.offset..].iter().map(|x| x.to_f64()).collect()
    }
}

/// A convolution with a stride, a padding and a dilation for all dimensions.
#[derive(Clone, Copy)]
struct Sizes<'a> {
    /// Images, pixels, channels.
    x: &'a [usize],
    /// Filters, taps; channels follow.
    filters: &'a [usize],
    groups: usize,
    /// Stride, padding, dilation.
    steps: [usize; 3],
    offset: usize,
}

impl Sizes<'_> {
    fn spatial(&self) -> usize {
        self.x.len() - 2
    }

    fn result(&self) -> Vec<usize> {
        let [stride, padding, dilation] = self.steps;
        let mut shape = vec![self.x[0]];
        for dim in 1..=self.spatial() {
            let reach = (self.filters[dim] - 1) * dilation;
            shape.push((self.x[dim] + 2 * padding - reach - 1) / stride + 1);
        }
        shape.push(self.filters[0]);
        shape
    }

    /// Calls `f` with the places of an element of the result, of the image and of the filters, for each product.
    fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        let (spatial, out) = (self.spatial(), self.result());
        let [stride, padding, dilation] = self.steps;
        let (channels, filters) = (self.x[spatial + 1] / self.groups, self.filters[0]);
        let index = |mut number: usize, shape: &[usize]| -> Vec<usize> {
            let mut at = vec![0; shape.len()];
            for (at, extent) in at.iter_mut().zip(shape).rev() {
                (*at, number) = (number % extent, number / extent);
            }
            at
        };
        let taps: usize = self.filters[1..].iter().product();
        for place in 0..out.iter().product() {
            let at = index(place, &out);
            let filter = at[spatial + 1];
            for tap in 0..taps {
                let of_tap = index(tap, &self.filters[1..]);
                let under = (0..spatial).map(|dim| {
                    let pixel =
                        (at[1 + dim] * stride + of_tap[dim] * dilation).checked_sub(padding)?;
                    Some(pixel).filter(|&pixel| pixel < self.x[1 + dim])
                });
                let Some(under) = under.collect::<Option<Vec<usize>>>() else {
                    continue;
                };
                let pixel = under
                    .iter()
                    .zip(&self.x[1..])
                    .fold(at[0], |all, (at, extent)| all * extent + at);
                let first = filter / (filters / self.groups) * channels;
                for channel in 0..channels {
                    let image = pixel * channels * self.groups + first + channel;
                    f(place, image, (filter * taps + tap) * channels + channel);
                }
            }
        }
    }

    fn filters(&self) -> Vec<usize> {
        let mut shape = self.filters.to_vec();
        shape.push(self.x[self.spatial() + 1] / self.groups);
        shape
    }
}

#[track_caller]
fn compare(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    let wrong = got
        .iter()
        .zip(want)
        .position(|(got, want)| (got - want).abs() > 0.0);
    assert_eq!(wrong.map(|at| (at, got[at], want[at])), None);
}

/// Runs a convolution and compares; `expected` is its plan without the time.
#[track_caller]
fn check(sizes: Sizes<'_>, expected: &str) {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let convolutions = Convolutions::new(&device);
    let x = Whole::new(&device, sizes.x, sizes.offset, 1);
    let filters = Whole::new(&device, &sizes.filters(), sizes.offset, 2);
    let y = Whole::new(&device, &sizes.result(), sizes.offset, 3);
    let [stride, padding, dilation] = sizes.steps.map(|number| [number]);
    let options = Options {
        stride: &stride,
        padding: &padding,
        dilation: &dilation,
        groups: sizes.groups,
        ..Options::default()
    };
    let before = y.buffer.to_vec().unwrap();
    let plan = convolutions.plan(&x.view(), &filters.view(), &y.view(), &options);
    let plan = plan.unwrap().to_string();
    let (kernel, rest) = plan.split_once(" CTAs, ").unwrap();
    let copies = rest.split_once(" us").unwrap().1;
    assert_eq!(format!("{kernel}{copies}"), expected);
    convolutions
        .forward(&stream, &x.view(), &filters.view(), &y.view(), &options)
        .unwrap();
    stream.synchronize().unwrap();
    let mut want = vec![0.0; sizes.result().iter().product()];
    let (of_x, of_filters) = (x.numbers(), filters.numbers());
    sizes.each(|out, image, filter| want[out] += of_x[image] * of_filters[filter]);
    compare(&y.numbers(), &want);
    // What lies before it is as it was.
    let after = y.buffer.to_vec().unwrap();
    assert_eq!(before[..sizes.offset], after[..sizes.offset]);
}

#[test]
fn a_convolution_of_each_path() {
    let sizes = Sizes {
        x: &[2, 7, 9, 16],
        filters: &[8, 3, 3],
        groups: 1,
        steps: [1, 1, 1],
        offset: 0,
    };
    check(sizes, "128 pixels by 64 filters in steps of 16 channels, 1");
    let stem = Sizes {
        x: &[2, 15, 17, 3],
        filters: &[16, 7, 7],
        steps: [2, 3, 1],
        ..sizes
    };
    check(
        stem,
        "128 pixels by 64 filters in steps of 32 channels, 2; `x` and `filters` copied: 3 channels, where the 28 of a line of taps of 4 are taken",
    );
    let padded = Sizes {
        x: &[1, 5, 6, 20],
        filters: &[10, 3, 2],
        offset: 3,
        ..sizes
    };
    check(
        padded,
        "128 pixels by 64 filters in steps of 32 channels, 1; `x` and `filters` copied: 20 channels, where 24 are taken; `y` copied: 10 filters, where multiples of 8 are stored",
    );
    let dilated = Sizes {
        x: &[1, 8, 8, 5],
        filters: &[8, 3, 3],
        steps: [1, 2, 2],
        ..sizes
    };
    check(
        dilated,
        "128 pixels by 64 filters in steps of 16 channels, 1; `x` and `filters` copied: 5 channels, where 8 are taken",
    );
}

#[test]
fn lines_volumes_and_groups() {
    let line = Sizes {
        x: &[3, 21, 24],
        filters: &[8, 5],
        groups: 1,
        steps: [2, 1, 1],
        offset: 8,
    };
    check(line, "128 pixels by 64 filters in steps of 32 channels, 1");
    let volume = Sizes {
        x: &[1, 4, 5, 3, 16],
        filters: &[8, 3, 2, 3],
        steps: [1, 1, 1],
        ..line
    };
    check(
        volume,
        "128 pixels by 64 filters in steps of 16 channels, 1",
    );
    let groups = Sizes {
        x: &[2, 6, 6, 96],
        filters: &[24, 3, 3],
        groups: 3,
        ..volume
    };
    check(
        groups,
        "128 pixels by 64 filters in steps of 32 channels, 3",
    );
    let empty = Sizes {
        x: &[2, 3, 3, 1],
        filters: &[8, 1, 1],
        groups: 1,
        ..volume
    };
    check(
        empty,
        "128 pixels by 64 filters in steps of 16 channels, 1; `x` and `filters` copied: 1 channels, where 8 are taken",
    );
}

/// A bias, another tensor, an activation, where the result is copied.
#[test]
fn what_happens_to_sums_where_results_are_copied() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let convolutions = Convolutions::new(&device);
    let sizes = Sizes {
        x: &[1, 4, 5, 16],
        filters: &[3, 3, 3],
        groups: 1,
        steps: [1, 1, 1],
        offset: 0,
    };
    let x = Whole::new(&device, sizes.x, 0, 1);
    let filters = Whole::new(&device, &sizes.filters(), 0, 2);
    let y = Whole::new(&device, &sizes.result(), 0, 3);
    let bias = Whole::new(&device, &[3], 0, 4);
    let mut want: Vec<f64> = y.numbers().iter().map(|x| x * 2.0).collect();
    let options = Options {
        padding: &[1, 1],
        bias: Some(&bias.buffer),
        beta: 2.0,
        activation: Activation::Relu,
        ..Options::default()
    };
    convolutions
        .forward(&stream, &x.view(), &filters.view(), &y.view(), &options)
        .unwrap();
    stream.synchronize().unwrap();
    let (of_x, of_filters, of_bias) = (x.numbers(), filters.numbers(), bias.numbers());
    sizes.each(|out, image, filter| want[out] += of_x[image] * of_filters[filter]);
    let want: Vec<f64> = want
        .iter()
        .enumerate()
        .map(|(at, x)| (x + of_bias[at % 3]).max(0.0))
        .collect();
    compare(&y.numbers(), &want);
}

#[test]
fn the_gradient_of_an_image() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let convolutions = Convolutions::new(&device);
    let sizes = Sizes {
        x: &[2, 6, 5, 8],
        filters: &[16, 3, 2],
        groups: 1,
        steps: [1, 2, 2],
        offset: 0,
    };
    let dx = Whole::new(&device, sizes.x, 0, 1);
    let filters = Whole::new(&device, &sizes.filters(), 0, 2);
    let dy = Whole::new(&device, &sizes.result(), 0, 3);
    let options = Options {
        padding: &[2],
        dilation: &[2],
        ..Options::default()
    };
    convolutions
        .image_gradient(&stream, &dy.view(), &filters.view(), &dx.view(), &options)
        .unwrap();
    stream.synchronize().unwrap();
    let mut want = vec![0.0; sizes.x.iter().product()];
    let (of_y, of_filters) = (dy.numbers(), filters.numbers());
    sizes.each(|out, image, filter| want[image] += of_y[out] * of_filters[filter]);
    compare(&dx.numbers(), &want);
}

/// Computes the gradient of filters and compares; `expected` is its plan.
#[track_caller]
fn check_filters(sizes: Sizes<'_>, expected: &str) {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let convolutions = Convolutions::new(&device);
    let x = Whole::new(&device, sizes.x, sizes.offset, 1);
    let dy = Whole::new(&device, &sizes.result(), sizes.offset, 2);
    let dfilters = Whole::new(&device, &sizes.filters(), 3, 3);
    let [stride, padding, dilation] = sizes.steps.map(|number| [number]);
    let options = Options {
        stride: &stride,
        padding: &padding,
        dilation: &dilation,
        groups: sizes.groups,
        ..Options::default()
    };
    let before = dfilters.buffer.to_vec().unwrap();
    let (of_x, of_dy, of_filters) = (x.view(), dy.view(), dfilters.view());
    let plan = convolutions.plan_filter_gradient(&of_x, &of_dy, &of_filters, &options);
    assert_eq!(plan.unwrap().to_string(), expected);
    convolutions
        .filter_gradient(&stream, &of_x, &of_dy, &of_filters, &options)
        .unwrap();
    stream.synchronize().unwrap();
    let mut want = vec![0.0; sizes.filters().iter().product()];
    let (of_x, of_dy) = (x.numbers(), dy.numbers());
    sizes.each(|out, image, filter| want[filter] += of_x[image] * of_dy[out]);
    compare(&dfilters.numbers(), &want);
    let after = dfilters.buffer.to_vec().unwrap();
    assert_eq!(before[..3], after[..3], "what lies before it is as it was");
}

#[test]
fn the_gradient_of_filters() {
    let line = Sizes {
        x: &[2, 150, 8],
        filters: &[16, 5],
        groups: 1,
        steps: [1, 2, 1],
        offset: 8,
    };
    check_filters(
        line,
        "64x64 of filters and channels, pixels divided by 5, 25 CTAs",
    );
    let dilated = Sizes {
        x: &[2, 9, 8, 24],
        filters: &[72, 3, 2],
        steps: [2, 2, 2],
        ..line
    };
    check_filters(
        dilated,
        "64x64 of filters and channels, pixels divided by 1, 12 CTAs",
    );
    let groups = Sizes {
        x: &[3, 5, 6, 48],
        filters: &[24, 3, 3],
        groups: 3,
        steps: [1, 1, 1],
        offset: 0,
    };
    check_filters(
        groups,
        "64x64 of filters and channels, pixels divided by 2, 54 CTAs",
    );
    let volume = Sizes {
        x: &[1, 4, 5, 3, 16],
        filters: &[8, 3, 2, 3],
        groups: 1,
        ..groups
    };
    check_filters(
        volume,
        "64x64 of filters and channels, pixels divided by 2, 36 CTAs",
    );
    let no_images = Sizes {
        x: &[0, 5, 6, 16],
        filters: &[8, 3, 3],
        ..volume
    };
    check_filters(no_images, "nothing");
}

/// Their pixels are more than 64 bits count.
#[test]
fn no_images_are_of_any_size() {
    let device = Device::emulator();
    let convolutions = Convolutions::new(&device);
    let buffer = Buffer::<f16>::zeros(&device, 64).unwrap();
    let none = [0, 1 << 40, 1 << 40, 8];
    let (x, dfilters) = (buffer.view(none), buffer.view([8, 1, 1, 8]));
    let plan = convolutions.plan_filter_gradient(&x, &x, &dfilters, &Options::default());
    assert_eq!(plan.unwrap().to_string(), "nothing");
}

#[test]
fn bad_gradients_of_filters_are_refused() {
    let device = Device::emulator();
    let convolutions = Convolutions::new(&device);
    let buffers = [0; 3].map(|_| Buffer::<f16>::zeros(&device, 1 << 12).unwrap());
    let check = |shapes: [[usize; 4]; 3], offset: usize, options: &Options<'_, f16>, expected| {
        let view = |at: usize| buffers[at].view(shapes[at]).with_offset(offset);
        let [x, dy, dfilters] = [0, 1, 2].map(view);
        let found = convolutions.plan_filter_gradient(&x, &dy, &dfilters, options);
        assert_eq!(found.unwrap_err().to_string(), expected);
    };
    let plain = Options::default();
    let (x, dy, dfilters) = ([1, 4, 4, 16], [1, 2, 2, 8], [8, 3, 3, 16]);
    check(
        [x, [1, 2, 3, 8], dfilters],
        0,
        &plain,
        "convolution: `dy`: found shape [1, 2, 3, 8]; expected [1, 2, 2, 8], as x, dfilters and options say",
    );
    check(
        [x, dy, [8, 3, 3, 8]],
        0,
        &plain,
        "convolution: `dfilters`: found 8 channels; expected 16: the channels of x over the groups",
    );
    check(
        [x, [1, 2, 2, 4], [4, 3, 3, 16]],
        0,
        &plain,
        "convolution: `dfilters`: found 16 channels and 4 filters of a group, in tensors behind [0, 0] elements; expected multiples of 8 of all: pad channels and filters with zeros",
    );
    check(
        [x, dy, dfilters],
        4,
        &plain,
        "convolution: `dfilters`: found 16 channels and 8 filters of a group, in tensors behind [4, 4] elements; expected multiples of 8 of all: pad channels and filters with zeros",
    );
    let scaled = Options {
        activation: Activation::Relu,
        ..Options::default()
    };
    check(
        [x, dy, dfilters],
        0,
        &scaled,
        "convolution: `options`: found scales, bias, a source or an activation; expected none of them: a gradient has its sums alone",
    );
}

/// What a call of these shapes ends with.
#[track_caller]
fn refused(
    x: &[usize],
    filters: &[usize],
    y: &[usize],
    options: &Options<'_, f16>,
    expected: &str,
) {
    let device = Device::emulator();
    let convolutions = Convolutions::new(&device);
    let buffers = [0; 3].map(|_| Buffer::<f16>::zeros(&device, 1 << 16).unwrap());
    let [x, filters, y] = [0, 1, 2].map(|at| buffers[at].view([x, filters, y][at]));
    let found = convolutions.plan(&x, &filters, &y, options);
    assert_eq!(found.unwrap_err().to_string(), expected);
}

#[test]
fn bad_calls_are_refused() {
    let plain = Options::default();
    let (x, filters, y) = ([1, 4, 4, 16], [8, 3, 3, 16], [1, 2, 2, 8]);
    refused(
        &x[2..],
        &filters,
        &y,
        &plain,
        "convolution: `x`: found 2 dimensions; expected 3 to 5: images, 1 to 3 of pixels, channels last",
    );
    refused(
        &x,
        &filters[1..],
        &y,
        &plain,
        "convolution: `filters`: found 3 dimensions; expected 4, as x has: images, pixels, channels last",
    );
    refused(
        &x,
        &[8, 3, 3, 8],
        &y,
        &plain,
        "convolution: `filters`: found 8 channels; expected 16: the channels of x over the groups",
    );
    refused(
        &x,
        &[8, 5, 3, 16],
        &y,
        &plain,
        "convolution: `filters`: found 5 taps, 1 pixels apart; expected one or more, within 4 pixels padded by 0 on each side",
    );
    refused(
        &[1, 0, 4, 16],
        &[8, 1, 1, 16],
        &[1, 2, 6, 8],
        &Options {
            padding: &[1],
            ..plain
        },
        "convolution: `x`: found shape [1, 0, 4, 16]; expected one pixel or more along each dimension",
    );
    refused(
        &x,
        &filters,
        &[1, 2, 3, 8],
        &plain,
        "convolution: `y`: found shape [1, 2, 3, 8]; expected [1, 2, 2, 8], as x, filters and options say",
    );
    refused(
        &[64, 64, 64, 16],
        &filters,
        &y,
        &plain,
        "convolution: `x`: found shape [64, 64, 64, 16] behind 0 elements; expected a tensor inside of its buffer of 65536 elements",
    );
    let options = |stride, groups| Options {
        stride,
        groups,
        ..Options::default()
    };
    refused(
        &x,
        &filters,
        &y,
        &options(&[1, 1, 1], 1),
        "convolution: `options.stride`: found 3 numbers; expected 2: one for each spatial dimension, or one for all",
    );
    refused(
        &x,
        &filters,
        &y,
        &options(&[0], 1),
        "convolution: `options.stride`: found [0]; expected numbers from 1 to 65536",
    );
    refused(
        &x,
        &filters,
        &y,
        &options(&[1], 3),
        "convolution: `options.groups`: found 3, with 16 channels and 8 filters; expected a divisor of both, and a channel at least",
    );
    refused(
        &x,
        &[8, 3, 3, 2],
        &y,
        &options(&[1], 8),
        "convolution: `options.groups`: found 2 channels and 1 filters a group; expected multiples of 16 channels and of 8 filters: smaller groups, also those of one channel, have no kernel yet; pad them with zeros",
    );
    refused(
        &[1, 1, 40, 16],
        &[8, 1, 1, 16],
        &[1, 1, 5, 8],
        &options(&[1, 9], 1),
        "convolution: `options`: found a width of 40 pixels of `x` with 1 taps, dilation 1 and stride 9, the first tap from pixel 0 to 36; expected what im2col maps reach: strides to 8, (taps - 1) · dilation to 254, and a first tap that begins -128 to 127 pixels behind the first pixel and ends as near to the last",
    );
    // The first tap of the last result is far before the last pixel.
    refused(
        &[1, 1, 300, 16],
        &[8, 1, 200, 16],
        &[1, 1, 101, 8],
        &options(&[1], 1),
        "convolution: `options`: found a width of 300 pixels of `x` with 200 taps, dilation 1 and stride 1, the first tap from pixel 0 to 100; expected what im2col maps reach: strides to 8, (taps - 1) · dilation to 254, and a first tap that begins -128 to 127 pixels behind the first pixel and ends as near to the last",
    );
}

/// It was a panic.
#[test]
fn tensors_that_lack_strides_are_named() {
    let device = Device::emulator();
    let buffer = Buffer::<f16>::zeros(&device, 1 << 10).unwrap();
    let x = buffer.view([1, 4, 4, 16]).with_strides([64, 16, 1]);
    let (filters, y) = (buffer.view([8, 1, 1, 16]), buffer.view([1, 4, 4, 8]));
    let found = Convolutions::new(&device).plan(&x, &filters, &y, &Options::default());
    assert_eq!(
        found.unwrap_err().to_string(),
        "convolution: `x`: found 3 strides; expected 4, one for each dimension"
    );
}

/// Threads read the bias while others write the result.
#[test]
fn a_result_lies_apart_from_numbers_of_filters() {
    let device = Device::emulator();
    let buffer = Buffer::<f16>::zeros(&device, 1 << 10).unwrap();
    let bias = Buffer::<f16>::zeros(&device, 8).unwrap();
    let options = Options {
        bias: Some(&bias),
        ..Options::default()
    };
    let (x, filters) = (buffer.view([1, 1, 1, 16]), buffer.view([8, 1, 1, 16]));
    let y = bias.view([1, 1, 1, 8]);
    let found = Convolutions::new(&device).plan(&x, &filters, &y, &options);
    assert_eq!(
        found.unwrap_err().to_string(),
        "convolution: `y`: found elements of `options.bias`; expected memory of its own"
    );
}

/// A tensor map of them was refused.
#[test]
fn no_filters_are_named_for_the_gradient_of_an_image() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let buffers = [0; 3].map(|_| Buffer::<f16>::zeros(&device, 1 << 10).unwrap());
    let (dy, filters) = (
        buffers[0].view([1, 2, 2, 0]),
        buffers[1].view([0, 3, 3, 16]),
    );
    let dx = buffers[2].view([1, 4, 4, 16]);
    let convolutions = Convolutions::new(&device);
    let found = convolutions.image_gradient(&stream, &dy, &filters, &dx, &Options::default());
    assert_eq!(
        found.unwrap_err().to_string(),
        "convolution: `filters`: found none; expected one or more: the gradient of an image is a sum over them"
    );
}

/// The width of `dy` was given as that of an image.
#[test]
fn what_gradients_of_images_load_is_named() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let convolutions = Convolutions::new(&device);
    let buffers = [0; 3].map(|_| Buffer::<f16>::zeros(&device, 1 << 15).unwrap());
    let [dy, filters, dx] = [&buffers[0], &buffers[1], &buffers[2]];
    let found = convolutions.image_gradient(
        &stream,
        &dy.view([1, 1, 101, 8]),
        &filters.view([8, 1, 200, 16]),
        &dx.view([1, 1, 300, 16]),
        &Options::default(),
    );
    assert_eq!(
        found.unwrap_err().to_string(),
        "convolution: `options`: found a width of 101 pixels of `dy` with 200 taps, dilation 1 and stride 1, the first tap from pixel -199 to 100; expected what im2col maps reach: strides to 8, (taps - 1) · dilation to 254, and a first tap that begins -128 to 127 pixels behind the first pixel and ends as near to the last"
    );
}

/// It was said that what was found was expected: filters for channels, and of tensors that begin anywhere.
#[test]
fn groups_that_have_no_kernel_are_named_as_the_caller_knows_them() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let convolutions = Convolutions::new(&device);
    let buffers = [0; 3].map(|_| Buffer::<f16>::zeros(&device, 1 << 10).unwrap());
    let options = Options {
        groups: 2,
        ..Options::default()
    };
    let view =
        |at: usize, shape: [usize; 3], offset: usize| buffers[at].view(shape).with_offset(offset);
    let of_filters = |count: usize, offset: usize| {
        [
            view(0, [1, 5, 32], offset),
            view(1, [2 * count, 1, 16], 0),
            view(2, [1, 5, 2 * count], 0),
        ]
    };
    let [dx, filters, dy] = of_filters(8, 0);
    let found = convolutions.image_gradient(&stream, &dy, &filters, &dx, &options);
    assert_eq!(
        found.unwrap_err().to_string(),
        "convolution: `options.groups`: found 8 filters and 16 channels a group; expected multiples of 16 filters and of 8 channels: smaller groups, also those of one channel, have no kernel yet; pad them with zeros"
    );
    let [x, filters, y] = of_filters(16, 1);
    let found = convolutions.plan(&x, &filters, &y, &options);
    assert_eq!(
        found.unwrap_err().to_string(),
        "convolution: `options.groups`: found a tensor that begins between multiples of 8 elements; expected tensors that begin at multiples of 8 elements: what has groups is not copied"
    );
    let [x, filters, y] = of_filters(16, 8);
    convolutions.plan(&x, &filters, &y, &options).unwrap();
}

/// A copy wrote only as much of a line as 32 bits count.
#[test]
fn lines_that_are_copied_have_indices_of_32_bits() {
    let device = Device::emulator();
    let convolutions = Convolutions::new(&device);
    let said = |[pixels, stride, count]: [usize; 3]| {
        let outputs = (pixels - 16) / stride + 1;
        let x = Buffer::<f16>::new(&device, pixels).unwrap();
        let filters = Buffer::<f16>::new(&device, count * 16).unwrap();
        let y = Buffer::<f16>::new(&device, outputs * count).unwrap();
        let options = Options {
            stride: &[stride],
            ..Options::default()
        };
        let views = [
            x.view([1, pixels, 1]),
            filters.view([count, 16, 1]),
            y.view([1, outputs, count]),
        ];
        let plan = convolutions.plan(&views[0], &views[1], &views[2], &options);
        plan.map(|_| ()).map_err(|error| error.to_string())
    };
    let refused = |name: &str, elements: usize| {
        Err(format!(
            "convolution: `{name}`: found a line of {elements} elements, which is copied; expected at most 2147482624: indices have 32 bits; divide the line among calls"
        ))
    };
    // Strides that are odd have 8 channels for one.
    assert_eq!(
        said([(1 << 28) + 4096, 4097, 8]),
        refused("x", 2_147_483_648)
    );
    assert_eq!(said([1 << 27, 1, 17]), refused("y", 3_221_225_112));
    assert_eq!(said([1 << 27, 4097, 17]), Ok(()));
}
