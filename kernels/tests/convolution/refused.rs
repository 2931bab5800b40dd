//! Calls that are refused, by the name of what is wrong.

use tilekit::prelude::*;
use tilekit::{Buffer, Device};
use tilekit_kernels::convolution::{Activation, Convolutions, Options};

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
        "convolution: `dfilters`: found 8 channels; expected 16: the channels of the image over the groups",
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
        "convolution: `filters`: found 3 dimensions; expected 4, as the image has: images, pixels, channels last",
    );
    refused(
        &x,
        &[8, 3, 3, 8],
        &y,
        &plain,
        "convolution: `filters`: found 8 channels; expected 16: the channels of the image over the groups",
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
