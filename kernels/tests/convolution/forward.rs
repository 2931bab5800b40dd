//! Forward passes, and what happens to sums.

use tilekit::prelude::*;
use tilekit::{Buffer, Device};
use tilekit_kernels::convolution::{Activation, Convolutions, Options};

use super::{Sizes, Whole, check, compare};

#[test]
fn a_convolution_of_each_path() {
    check(
        Sizes::of(&[2, 7, 9, 16], &[8, 3, 3], [1, 1, 1]),
        "128 pixels by 64 filters in steps of 16 channels, 1 CTAs",
    );
    check(
        Sizes::of(&[2, 15, 17, 3], &[16, 7, 7], [2, 3, 1]),
        "128 pixels by 64 filters in steps of 32 channels, 2 CTAs; `x` and `filters` copied: 3 channels, where the 28 of a line of taps of 4 are taken",
    );
    check(
        Sizes::of(&[1, 5, 6, 20], &[10, 3, 2], [1, 1, 1]).behind(3),
        "a product of 35 x 10 x 120; `x` copied: what lies under the filters, 120 numbers a pixel",
    );
    check(
        Sizes::of(&[1, 8, 8, 5], &[8, 3, 3], [1, 2, 2]),
        "a product of 64 x 8 x 45; `x` copied: what lies under the filters, 48 numbers a pixel",
    );
}

#[test]
fn lines_volumes_and_groups() {
    check(
        Sizes::of(&[3, 21, 24], &[8, 5], [2, 1, 1]).behind(8),
        "128 pixels by 64 filters in steps of 32 channels, 1 CTAs",
    );
    check(
        Sizes::of(&[1, 4, 5, 3, 16], &[8, 3, 2, 3], [1, 1, 1]).behind(8),
        "128 pixels by 64 filters in steps of 16 channels, 1 CTAs",
    );
    check(
        Sizes::of(&[2, 6, 6, 96], &[24, 3, 3], [1, 1, 1])
            .in_groups(3)
            .behind(8),
        "128 pixels by 64 filters in steps of 32 channels, 3 CTAs",
    );
    check(
        Sizes::of(&[2, 3, 3, 1], &[8, 1, 1], [1, 1, 1]).behind(8),
        "a product of 50 x 8 x 1; `x` copied: what lies under the filters, 8 numbers a pixel",
    );
}

/// A bias, another tensor, an activation, where the result is copied.
#[test]
fn what_happens_to_sums_where_results_are_copied() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let convolutions = Convolutions::new(&device);
    let sizes = Sizes::of(&[1, 4, 5, 16], &[3, 3, 3], [1, 1, 1]);
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

/// An epilogue of a product: one tap, and scales of filters.
#[test]
fn what_happens_to_sums_of_a_product() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let convolutions = Convolutions::new(&device);
    let sizes = Sizes::of(&[2, 3, 5, 16], &[24, 1, 1], [1, 0, 1]);
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
