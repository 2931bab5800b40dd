//! Gradients of images and of filters.

use tilekit::prelude::*;
use tilekit::{Buffer, Device};
use tilekit_kernels::convolution::{Convolutions, Options};

use super::{Sizes, Whole, check_filters, check_image, compare};

#[test]
fn the_gradient_of_an_image() {
    check_image(
        Sizes::of(&[2, 6, 5, 8], &[16, 3, 2], [1, 2, 2]),
        "128 pixels by 64 filters in steps of 16 channels, 1 CTAs",
    );
    check_image(
        Sizes::of(&[2, 6, 5, 3], &[10, 3, 2], [1, 2, 2]).behind(5),
        "128 pixels by 64 filters in steps of 16 channels, 1 CTAs; `dy` and `filters` copied: 10 channels, where 16 are taken; `dx` copied: 3 channels, where multiples of 8 are stored",
    );
    let of_one_tap = Sizes::of(&[2, 6, 5, 24], &[16, 1, 1], [1, 0, 1]);
    check_image(of_one_tap, "a product of 60 x 24 x 16");
}

#[test]
fn the_gradient_of_an_image_by_strides() {
    check_image(
        Sizes::of(&[2, 9, 7, 16], &[8, 3, 3], [2, 1, 1]),
        "4 launches for pixels a stride apart, the first 128 pixels by 64 filters in steps of 16 channels, 1 CTAs",
    );
    // Every other line and pixel is reached by no tap.
    check_image(
        Sizes::of(&[1, 8, 7, 16], &[24, 1, 1], [2, 0, 1]),
        "128 pixels by 64 filters in steps of 32 channels, 1 CTAs; `dx` filled with zeros, which no tap reaches",
    );
    // Pixels behind the last tap, channels that are copied, a dilation that shares a factor with the stride.
    check_image(
        Sizes::of(&[1, 14, 15, 5], &[3, 2, 3], [4, 1, 2]).behind(1),
        "4 launches for pixels a stride apart, the first 128 pixels by 64 filters in steps of 16 channels, 1 CTAs; `dy` and `filters` copied: 3 channels, where 8 are taken; `dx` filled with zeros, which no tap reaches; `dx` copied: 5 channels, where multiples of 8 are stored",
    );
    check_image(
        Sizes::of(&[1, 5, 4, 6, 8], &[16, 3, 2, 3], [3, 1, 1]),
        "a product of 8 x 144 x 16; `dx` copied: what lies under the filters, 144 numbers a pixel",
    );
    let groups = Sizes::of(&[1, 5, 6, 96], &[48, 3, 3], [2, 1, 1]).in_groups(3);
    check_image(
        groups,
        "4 launches for pixels a stride apart, the first 128 pixels by 64 filters in steps of 64 channels, 2 CTAs; `filters` copied: 3 groups are one, with zeros for the channels of the others",
    );
    check_image(
        Sizes::of(&[2, 50, 8], &[8, 30], [9, 4, 1]),
        "9 launches for pixels a stride apart, the first 128 pixels by 64 filters in steps of 16 channels, 1 CTAs",
    );
}

#[test]
fn the_gradient_of_filters() {
    let line = Sizes::of(&[2, 150, 8], &[16, 5], [1, 2, 1]).behind(8);
    check_filters(
        line,
        "64x64 of filters and channels, pixels divided by 5, 25 CTAs",
    );
    check_filters(
        Sizes::of(&[2, 9, 8, 24], &[72, 3, 2], [2, 2, 2]).behind(8),
        "64x64 of filters and channels, pixels divided by 1, 12 CTAs",
    );
    check_filters(
        Sizes::of(&[3, 5, 6, 48], &[24, 3, 3], [1, 1, 1]).in_groups(3),
        "64x64 of filters and channels, pixels divided by 2, 54 CTAs",
    );
    check_filters(
        Sizes::of(&[1, 4, 5, 3, 16], &[8, 3, 2, 3], [1, 1, 1]),
        "64x64 of filters and channels, pixels divided by 2, 36 CTAs",
    );
    check_filters(
        Sizes::of(&[2, 31, 37, 3], &[16, 7, 7], [2, 3, 1]).behind(3),
        "64x64 of filters and channels, pixels divided by 10, 70 CTAs; `x` copied: 3 channels, where the 32 of a line of taps of 4 are taken; `dy` copied: it begins between multiples of 8 elements; sums gathered into `dfilters`",
    );
    check_filters(
        Sizes::of(&[2, 20, 21, 20], &[10, 3, 2], [1, 1, 2]).behind(3),
        "64x64 of filters and channels, pixels divided by 12, 72 CTAs; `x` copied: 20 channels, where 24 are taken; `dy` copied: 10 filters, where multiples of 8 are taken; sums gathered into `dfilters`",
    );
    let of_one_tap = Sizes::of(&[2, 5, 6, 24], &[16, 1, 1], [1, 0, 1]);
    check_filters(of_one_tap, "a product of 16 x 24 x 60");
    let no_images = Sizes::of(&[0, 5, 6, 16], &[8, 3, 3], [1, 1, 1]);
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

/// The gradient of filters is launched before the pass in front of it, which writes its image, has ended.
#[test]
fn a_depthwise_gradient_waits_for_the_launch_in_front() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let convolutions = Convolutions::new(&device);
    let first = Sizes::of(&[1, 6, 7, 16], &[8, 3, 3], [1, 1, 1]);
    let depthwise = Sizes::of(&[1, 6, 7, 8], &[8, 3, 3], [1, 1, 1]).in_groups(8);
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
    let sizes = Sizes::of(&[1, 9, 8, 16], &[8, 3, 3], [2, 1, 1]);
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
