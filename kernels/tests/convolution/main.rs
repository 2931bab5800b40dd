//! Convolutions as a program calls them, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

mod forward;
mod gradients;
mod groups;
mod reach;
mod refused;

use tilekit::prelude::*;
use tilekit::{Buffer, Device, TensorView};
use tilekit_kernels::convolution::{Convolutions, Options};

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

impl<'a> Sizes<'a> {
    /// Without groups, in tensors at the begin of their buffers.
    const fn of(x: &'a [usize], filters: &'a [usize], steps: [usize; 3]) -> Self {
        Sizes {
            x,
            filters,
            groups: 1,
            steps,
            offset: 0,
        }
    }

    const fn in_groups(self, groups: usize) -> Self {
        Sizes { groups, ..self }
    }

    /// In tensors behind so many elements.
    const fn behind(self, offset: usize) -> Self {
        Sizes { offset, ..self }
    }

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
