//! Convolutions as a program calls them, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

mod refused;

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

/// A plan without its time, which a fit changes.
fn without_time(plan: &str) -> String {
    let Some((before, after)) = plan.split_once(" us") else {
        return plan.to_owned();
    };
    let (kernel, _) = before.rsplit_once(", ").unwrap();
    format!("{kernel}{after}")
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
    assert_eq!(without_time(&plan.unwrap().to_string()), expected);
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
    check(
        sizes,
        "128 pixels by 64 filters in steps of 16 channels, 1 CTAs",
    );
    let stem = Sizes {
        x: &[2, 15, 17, 3],
        filters: &[16, 7, 7],
        steps: [2, 3, 1],
        ..sizes
    };
    check(
        stem,
        "128 pixels by 64 filters in steps of 32 channels, 2 CTAs; `x` and `filters` copied: 3 channels, where the 28 of a line of taps of 4 are taken",
    );
    let padded = Sizes {
        x: &[1, 5, 6, 20],
        filters: &[10, 3, 2],
        offset: 3,
        ..sizes
    };
    check(
        padded,
        "a product of 35 x 10 x 120; `x` copied: what lies under the filters, 120 numbers a pixel",
    );
    let dilated = Sizes {
        x: &[1, 8, 8, 5],
        filters: &[8, 3, 3],
        steps: [1, 2, 2],
        ..sizes
    };
    check(
        dilated,
        "a product of 64 x 8 x 45; `x` copied: what lies under the filters, 48 numbers a pixel",
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
    check(
        line,
        "128 pixels by 64 filters in steps of 32 channels, 1 CTAs",
    );
    let volume = Sizes {
        x: &[1, 4, 5, 3, 16],
        filters: &[8, 3, 2, 3],
        steps: [1, 1, 1],
        ..line
    };
    check(
        volume,
        "128 pixels by 64 filters in steps of 16 channels, 1 CTAs",
    );
    let groups = Sizes {
        x: &[2, 6, 6, 96],
        filters: &[24, 3, 3],
        groups: 3,
        ..volume
    };
    check(
        groups,
        "128 pixels by 64 filters in steps of 32 channels, 3 CTAs",
    );
    let empty = Sizes {
        x: &[2, 3, 3, 1],
        filters: &[8, 1, 1],
        groups: 1,
        ..volume
    };
    check(
        empty,
        "a product of 50 x 8 x 1; `x` copied: what lies under the filters, 8 numbers a pixel",
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

/// Computes the gradient of the image and compares; `expected` is its plan without the time.
#[track_caller]
fn check_image(sizes: Sizes<'_>, expected: &str) {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let convolutions = Convolutions::new(&device);
    let dx = Whole::new(&device, sizes.x, sizes.offset, 1);
    let filters = Whole::new(&device, &sizes.filters(), sizes.offset, 2);
    let dy = Whole::new(&device, &sizes.result(), sizes.offset, 3);
    let [stride, padding, dilation] = sizes.steps.map(|number| [number]);
    let options = Options {
        stride: &stride,
        padding: &padding,
        dilation: &dilation,
        groups: sizes.groups,
        ..Options::default()
    };
    let before = dx.buffer.to_vec().unwrap();
    let (of_y, of_filters, of_x) = (dy.view(), filters.view(), dx.view());
    let plan = convolutions.plan_image_gradient(&of_y, &of_filters, &of_x, &options);
    assert_eq!(without_time(&plan.unwrap().to_string()), expected);
    convolutions
        .image_gradient(&stream, &of_y, &of_filters, &of_x, &options)
        .unwrap();
    stream.synchronize().unwrap();
    let mut want = vec![0.0; sizes.x.iter().product()];
    let (of_y, of_filters) = (dy.numbers(), filters.numbers());
    sizes.each(|out, image, filter| want[image] += of_y[out] * of_filters[filter]);
    compare(&dx.numbers(), &want);
    let after = dx.buffer.to_vec().unwrap();
    assert_eq!(before[..sizes.offset], after[..sizes.offset]);
}

#[test]
fn the_gradient_of_an_image() {
    let sizes = Sizes {
        x: &[2, 6, 5, 8],
        filters: &[16, 3, 2],
        groups: 1,
        steps: [1, 2, 2],
        offset: 0,
    };
    check_image(
        sizes,
        "128 pixels by 64 filters in steps of 16 channels, 1 CTAs",
    );
    let padded = Sizes {
        x: &[2, 6, 5, 3],
        filters: &[10, 3, 2],
        offset: 5,
        ..sizes
    };
    check_image(
        padded,
        "128 pixels by 64 filters in steps of 16 channels, 1 CTAs; `dy` and `filters` copied: 10 channels, where 16 are taken; `dx` copied: 3 channels, where multiples of 8 are stored",
    );
    let of_one_tap = Sizes {
        x: &[2, 6, 5, 24],
        filters: &[16, 1, 1],
        steps: [1, 0, 1],
        ..sizes
    };
    check_image(of_one_tap, "a product of 60 x 24 x 16");
}

#[test]
fn the_gradient_of_an_image_by_strides() {
    let sizes = Sizes {
        x: &[2, 9, 7, 16],
        filters: &[8, 3, 3],
        groups: 1,
        steps: [2, 1, 1],
        offset: 0,
    };
    check_image(
        sizes,
        "4 launches for pixels a stride apart, the first 128 pixels by 64 filters in steps of 16 channels, 1 CTAs",
    );
    // Every other line and pixel is reached by no tap.
    let of_one_tap = Sizes {
        x: &[1, 8, 7, 16],
        filters: &[24, 1, 1],
        steps: [2, 0, 1],
        ..sizes
    };
    check_image(
        of_one_tap,
        "128 pixels by 64 filters in steps of 32 channels, 1 CTAs; `dx` filled with zeros, which no tap reaches",
    );
    // Pixels behind the last tap, channels that are copied, a dilation that shares a factor with the stride.
    let padded = Sizes {
        x: &[1, 14, 15, 5],
        filters: &[3, 2, 3],
        steps: [4, 1, 2],
        offset: 1,
        ..sizes
    };
    check_image(
        padded,
        "4 launches for pixels a stride apart, the first 128 pixels by 64 filters in steps of 16 channels, 1 CTAs; `dy` and `filters` copied: 3 channels, where 8 are taken; `dx` filled with zeros, which no tap reaches; `dx` copied: 5 channels, where multiples of 8 are stored",
    );
    let volume = Sizes {
        x: &[1, 5, 4, 6, 8],
        filters: &[16, 3, 2, 3],
        steps: [3, 1, 1],
        ..sizes
    };
    check_image(
        volume,
        "a product of 8 x 144 x 16; `dx` copied: what lies under the filters, 144 numbers a pixel",
    );
    let groups = Sizes {
        x: &[1, 5, 6, 96],
        filters: &[48, 3, 3],
        groups: 3,
        ..sizes
    };
    check_image(
        groups,
        "4 launches for pixels a stride apart, the first 128 pixels by 64 filters in steps of 64 channels, 2 CTAs; `filters` copied: 3 groups are one, with zeros for the channels of the others",
    );
    let line = Sizes {
        x: &[2, 50, 8],
        filters: &[8, 30],
        steps: [9, 4, 1],
        groups: 1,
        ..sizes
    };
    check_image(
        line,
        "9 launches for pixels a stride apart, the first 128 pixels by 64 filters in steps of 16 channels, 1 CTAs",
    );
}

/// Groups of few channels, one or more filters of each.
const SMALL_GROUPS: [Sizes<'_>; 5] = [
    Sizes {
        x: &[1, 5, 6, 24],
        filters: &[24, 3, 3],
        groups: 24,
        steps: [1, 1, 1],
        offset: 0,
    },
    Sizes {
        x: &[2, 7, 6, 10],
        filters: &[20, 3, 2],
        groups: 10,
        steps: [2, 1, 1],
        offset: 3,
    },
    Sizes {
        x: &[1, 6, 5, 32],
        filters: &[16, 3, 3],
        groups: 8,
        steps: [1, 0, 1],
        offset: 0,
    },
    Sizes {
        x: &[2, 40, 128],
        filters: &[128, 5],
        groups: 128,
        steps: [2, 2, 1],
        offset: 0,
    },
    Sizes {
        x: &[2, 5, 5, 12],
        filters: &[9, 1, 1],
        groups: 3,
        steps: [1, 0, 1],
        offset: 0,
    },
];

#[test]
fn groups_of_few_channels() {
    let expected = [
        "channels one by one, 3 CTAs",
        "a product of 32 x 20 x 60; `x` copied: what lies under the filters, 64 numbers a pixel; `filters` copied: 10 groups are one, with zeros for the channels of the others",
        "128 pixels by 64 filters in steps of 16 channels, 2 CTAs; `filters` copied: 4 groups are one, with zeros for the channels of the others",
        "channels one by one, 2 CTAs",
        "a product of 50 x 9 x 12; `filters` copied: 3 groups are one, with zeros for the channels of the others",
    ];
    for (sizes, expected) in SMALL_GROUPS.into_iter().zip(expected) {
        check(sizes, expected);
    }
}

#[test]
fn gradients_of_images_of_groups_of_few_channels() {
    let expected = [
        "channels one by one, 3 CTAs",
        "4 launches for pixels a stride apart, the first 128 pixels by 64 filters in steps of 32 channels, 1 CTAs; `dy` copied: 20 channels, where 24 are taken; `filters` copied: 10 groups are one, with zeros for the channels of the others; `dx` copied: 10 channels, where multiples of 8 are stored",
        "128 pixels by 64 filters in steps of 16 channels, 1 CTAs; `filters` copied: 8 groups are one, with zeros for the channels of the others",
        "2 launches of channels one by one, 2 CTAs",
        "a product of 50 x 12 x 9; `filters` copied: 3 groups are one, with zeros for the channels of the others",
    ];
    for (sizes, expected) in SMALL_GROUPS.into_iter().zip(expected) {
        check_image(sizes, expected);
    }
}

#[test]
fn gradients_of_filters_of_groups_of_few_channels() {
    let expected = [
        "channels one by one, pixels divided by 1, 9 CTAs",
        "64x64 of filters and channels, pixels divided by 1, 3 CTAs; 10 groups are one; `x` copied: 10 channels, where the 24 of a line of taps of 12 are taken; `dy` copied: 20 filters, where multiples of 8 are taken; sums gathered into `dfilters`",
        "64x64 of filters and channels, pixels divided by 1, 9 CTAs; 8 groups are one; sums gathered into `dfilters`",
        "channels one by one, pixels divided by 1, 2 CTAs",
        "a product of 9 x 12 x 50; 3 groups are one; sums gathered into `dfilters`",
    ];
    for (sizes, expected) in SMALL_GROUPS.into_iter().zip(expected) {
        check_filters(sizes, expected);
    }
}

/// Groups of one channel and one filter: taps in both directions, strides, dilation, channels that are no multiple of 64, lines, and taps that are too many for registers.
const DEPTHWISE: [Sizes<'_>; 5] = [
    Sizes {
        x: &[2, 9, 13, 24],
        filters: &[24, 3, 3],
        groups: 24,
        steps: [1, 1, 1],
        offset: 8,
    },
    Sizes {
        x: &[1, 12, 19, 72],
        filters: &[72, 5, 4],
        groups: 72,
        steps: [2, 2, 1],
        offset: 0,
    },
    Sizes {
        x: &[1, 11, 14, 64],
        filters: &[64, 3, 7],
        groups: 64,
        steps: [1, 3, 2],
        offset: 0,
    },
    Sizes {
        x: &[2, 50, 16],
        filters: &[16, 6],
        groups: 16,
        steps: [3, 2, 1],
        offset: 0,
    },
    Sizes {
        x: &[1, 14, 16, 32],
        filters: &[32, 13, 13],
        groups: 32,
        steps: [1, 6, 1],
        offset: 0,
    },
];

#[test]
fn depthwise_convolutions() {
    let expected = [
        "channels one by one, 3 CTAs",
        "channels one by one, 9 CTAs",
        "channels one by one, 2 CTAs",
        "channels one by one, 1 CTAs",
        "a product of 224 x 32 x 5408; `x` copied: what lies under the filters, 5408 numbers a pixel; `filters` copied: 32 groups are one, with zeros for the channels of the others",
    ];
    for (sizes, expected) in DEPTHWISE.into_iter().zip(expected) {
        check(sizes, expected);
    }
}

#[test]
fn gradients_of_images_of_depthwise_convolutions() {
    let expected = [
        "channels one by one, 3 CTAs",
        "4 launches of channels one by one, 9 CTAs",
        "channels one by one, 3 CTAs",
        "3 launches of channels one by one, 1 CTAs",
        "128 pixels by 64 filters in steps of 16 channels, 4 CTAs; `filters` copied: 16 groups are one, with zeros for the channels of the others",
    ];
    for (sizes, expected) in DEPTHWISE.into_iter().zip(expected) {
        check_image(sizes, expected);
    }
}

#[test]
fn gradients_of_filters_of_depthwise_convolutions() {
    let expected = [
        "channels one by one, pixels divided by 1, 9 CTAs",
        "channels one by one, pixels divided by 1, 45 CTAs",
        "channels one by one, pixels divided by 2, 6 CTAs",
        "channels one by one, pixels divided by 1, 1 CTAs",
        "64x128 of filters and channels, pixels divided by 1, 85 CTAs; 32 groups are one; sums gathered into `dfilters`",
    ];
    for (sizes, expected) in DEPTHWISE.into_iter().zip(expected) {
        check_filters(sizes, expected);
    }
}

/// Patches of an image, and taps farther apart than im2col maps reach.
const OUT_OF_REACH: [Sizes<'_>; 3] = [
    Sizes {
        x: &[2, 32, 32, 3],
        filters: &[24, 16, 16],
        groups: 1,
        steps: [16, 0, 1],
        offset: 0,
    },
    Sizes {
        x: &[1, 300, 2],
        filters: &[16, 200],
        groups: 1,
        steps: [1, 0, 1],
        offset: 0,
    },
    Sizes {
        x: &[1, 40, 3, 5],
        filters: &[3, 4, 2],
        groups: 1,
        steps: [11, 1, 1],
        offset: 1,
    },
];

#[test]
fn what_no_map_reaches() {
    let expected = [
        "a product of 8 x 24 x 768; `x` copied: what lies under the filters, 768 numbers a pixel",
        "a product of 101 x 16 x 400; `x` copied: what lies under the filters, 400 numbers a pixel",
        "a product of 4 x 3 x 40; `x` copied: what lies under the filters, 40 numbers a pixel",
    ];
    for (sizes, expected) in OUT_OF_REACH.into_iter().zip(expected) {
        check(sizes, expected);
    }
    let expected = [
        "a product of 24 x 768 x 8; `x` copied: what lies under the filters, 768 numbers a pixel",
        "64x64 of filters and channels, pixels divided by 2, 50 CTAs; `x` copied: 2 channels, where the 1600 of a line of taps of 8 are taken; sums gathered into `dfilters`",
        "a product of 3 x 40 x 4; `x` copied: what lies under the filters, 40 numbers a pixel",
    ];
    for (sizes, expected) in OUT_OF_REACH.into_iter().zip(expected) {
        check_filters(sizes, expected);
    }
    let expected = [
        "a product of 8 x 768 x 24; `dx` copied: what lies under the filters, 768 numbers a pixel",
        "a product of 4 x 40 x 3; `dx` copied: what lies under the filters, 40 numbers a pixel",
    ];
    let [patches, _, strided] = OUT_OF_REACH;
    for (sizes, expected) in [patches, strided].into_iter().zip(expected) {
        check_image(sizes, expected);
    }
}

/// The gradient of filters is launched before the pass in front of it, which writes its image, has ended.
#[test]
fn a_depthwise_gradient_waits_for_the_launch_in_front() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let convolutions = Convolutions::new(&device);
    let first = Sizes {
        x: &[1, 6, 7, 16],
        filters: &[8, 3, 3],
        groups: 1,
        steps: [1, 1, 1],
        offset: 0,
    };
    let depthwise = Sizes {
        x: &[1, 6, 7, 8],
        groups: 8,
        ..first
    };
    let x = Whole::new(&device, first.x, 0, 1);
    let filters = Whole::new(&device, &first.filters(), 0, 2);
    let y = Whole::new(&device, &first.result(), 0, 3);
    let dy = Whole::new(&device, &depthwise.result(), 0, 4);
    let dfilters = Whole::new(&device, &depthwise.filters(), 0, 5);
    let options = |groups| Options {
        padding: &[1],
        groups,
        ..Options::default()
    };
    convolutions
        .forward(&stream, &x.view(), &filters.view(), &y.view(), &options(1))
        .unwrap();
    convolutions
        .filter_gradient(
            &stream,
            &y.view(),
            &dy.view(),
            &dfilters.view(),
            &options(8),
        )
        .unwrap();
    stream.synchronize().unwrap();
    let mut want = vec![0.0; depthwise.filters().iter().product()];
    let (of_y, of_dy) = (y.numbers(), dy.numbers());
    depthwise.each(|out, image, filter| want[filter] += of_y[image] * of_dy[out]);
    let got = dfilters.numbers();
    for (got, want) in got.iter().zip(&want) {
        assert!((got - want).abs() <= 1e-3 * want.abs(), "{got}, not {want}");
    }
}

/// The gradient of an image is stored where the launch in front, which has not ended, reads the image.
#[test]
fn a_gradient_by_strides_waits_for_the_launch_in_front() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let convolutions = Convolutions::new(&device);
    let sizes = Sizes {
        x: &[1, 9, 8, 16],
        filters: &[8, 3, 3],
        groups: 1,
        steps: [2, 1, 1],
        offset: 0,
    };
    let x = Whole::new(&device, sizes.x, 0, 1);
    let filters = Whole::new(&device, &sizes.filters(), 0, 2);
    let y = Whole::new(&device, &sizes.result(), 0, 3);
    let (of_x, of_filters, of_y) = (x.view(), filters.view(), y.view());
    let options = Options {
        stride: &[2],
        padding: &[1],
        ..Options::default()
    };
    let (image, weights) = (x.numbers(), filters.numbers());
    convolutions
        .forward(&stream, &of_x, &of_filters, &of_y, &options)
        .unwrap();
    convolutions
        .image_gradient(&stream, &of_y, &of_filters, &of_x, &options)
        .unwrap();
    stream.synchronize().unwrap();
    let mut result = vec![0.0; sizes.result().iter().product()];
    sizes.each(|out, at, filter| result[out] += image[at] * weights[filter]);
    compare(&y.numbers(), &result);
    let mut want = vec![0.0; sizes.x.iter().product()];
    sizes.each(|out, at, filter| want[at] += result[out] * weights[filter]);
    for (got, want) in x.numbers().iter().zip(&want) {
        assert!((got - want).abs() <= 1e-3 * want.abs(), "{got}, not {want}");
    }
}

/// An epilogue of a product: one tap, and scales of filters.
#[test]
fn what_happens_to_sums_of_a_product() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let convolutions = Convolutions::new(&device);
    let sizes = Sizes {
        x: &[2, 3, 5, 16],
        filters: &[24, 1, 1],
        groups: 1,
        steps: [1, 0, 1],
        offset: 0,
    };
    let x = Whole::new(&device, sizes.x, 0, 1);
    let filters = Whole::new(&device, &sizes.filters(), 0, 2);
    let y = Whole::new(&device, &sizes.result(), 0, 3);
    let source = Whole::new(&device, &sizes.result(), 8, 5);
    let bias = Whole::new(&device, &[24], 0, 4);
    let factors: Vec<f32> = (0..24).map(|at| [1.0, 2.0, -1.0][at % 3]).collect();
    let scales = Buffer::from_slice(&device, &factors).unwrap();
    let of_source = source.view();
    let options = Options {
        scales: Some(&scales),
        bias: Some(&bias.buffer),
        beta: -2.0,
        source: Some(&of_source),
        activation: Activation::Relu,
        ..Options::default()
    };
    convolutions
        .forward(&stream, &x.view(), &filters.view(), &y.view(), &options)
        .unwrap();
    stream.synchronize().unwrap();
    let mut want = vec![0.0; sizes.result().iter().product()];
    let (of_x, of_filters, of_bias) = (x.numbers(), filters.numbers(), bias.numbers());
    sizes.each(|out, image, filter| want[out] += of_x[image] * of_filters[filter]);
    let source = source.numbers();
    let all = want.iter().enumerate();
    let finished = all.map(|(at, sum)| {
        let sum = sum * f64::from(factors[at % 24]) + of_bias[at % 24] - 2.0 * source[at];
        sum.max(0.0)
    });
    compare(&y.numbers(), &finished.collect::<Vec<_>>());
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
    let stem = Sizes {
        x: &[2, 31, 37, 3],
        filters: &[16, 7, 7],
        steps: [2, 3, 1],
        offset: 3,
        ..volume
    };
    check_filters(
        stem,
        "64x64 of filters and channels, pixels divided by 10, 70 CTAs; `x` copied: 3 channels, where the 32 of a line of taps of 4 are taken; `dy` copied: it begins between multiples of 8 elements; sums gathered into `dfilters`",
    );
    let padded = Sizes {
        x: &[2, 20, 21, 20],
        filters: &[10, 3, 2],
        steps: [1, 1, 2],
        ..stem
    };
    check_filters(
        padded,
        "64x64 of filters and channels, pixels divided by 12, 72 CTAs; `x` copied: 20 channels, where 24 are taken; `dy` copied: 10 filters, where multiples of 8 are taken; sums gathered into `dfilters`",
    );
    let of_one_tap = Sizes {
        x: &[2, 5, 6, 24],
        filters: &[16, 1, 1],
        steps: [1, 0, 1],
        ..volume
    };
    check_filters(of_one_tap, "a product of 16 x 24 x 60");
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
    assert_eq!(said([(1 << 28) + 4096, 4097, 8]), Ok(()));
    assert_eq!(said([1 << 27, 1, 17]), refused("y", 3_221_225_112));
    assert_eq!(said([1 << 27, 4097, 17]), Ok(()));
}
