//! Results have memory of their own: none of their elements is one of what a call reads, or lies behind their buffer.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use std::fmt::Display;

use tilekit::prelude::*;
use tilekit_kernels::attention::{self, Attention, Cache, LatentCache};
use tilekit_kernels::convolution::{self, Convolutions};
use tilekit_kernels::products::sparse::Pruning;
use tilekit_kernels::products::weight_only::{
    HostWeights, PackedWeights, WeightFormat, WeightGroup, WeightValues,
};
use tilekit_kernels::products::{self, Products, Scaled};

fn there() -> (Device, Stream) {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    (device, stream)
}

#[track_caller]
fn refused<E: Display>(result: Result<(), E>, expected: &str) {
    let error = result.err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some(expected));
}

#[test]
fn of_attention() {
    let (device, stream) = there();
    let attention = Attention::new(&device);
    let [x, own] = [0; 2].map(|_| Buffer::<bf16>::zeros(&device, 2 * 16 * 64).unwrap());
    let lse = Buffer::<f32>::zeros(&device, 2 * 16).unwrap();
    let shape = [1, 2, 16, 64];
    let q = x.view(shape);
    let call = |out: &TensorView<'_, bf16>| {
        let options = attention::Options::default();
        attention.forward_into(&stream, [&q, &q, &q], out, &lse, &options)
    };
    refused(
        call(&x.view(shape)),
        "attention: `out`: found elements of `q`; expected memory of its own",
    );
    refused(
        call(&own.view(shape).with_strides([0, 0, 64, 1])),
        "attention: `out`: found strides [0, 0, 64, 1]; expected strides by which no two elements are in the same place",
    );
    refused(
        call(&own.view(shape).with_offset(64)),
        "attention: `out`: found a tensor that ends at element 2112; expected one inside of its buffer of 2048 elements",
    );
}

#[test]
fn of_decode() {
    let (device, stream) = there();
    let attention = Attention::new(&device);
    let x = Buffer::<bf16>::zeros(&device, 64 * 576).unwrap();
    let lengths = Buffer::<i32>::zeros(&device, 1).unwrap();
    let lse = Buffer::<f32>::zeros(&device, 1).unwrap();
    let (q, rows) = (x.view([1, 1, 1, 64]), x.view([1, 1, 16, 64]));
    let cache = Cache {
        keys: &rows.with_offset(64),
        values: &x.view([1, 1, 16, 64]).with_offset(64),
        lengths: &lengths,
        table: None,
        scales: None,
        checked: false,
    };
    let out = x.view([1, 1, 1, 64]).with_offset(128);
    refused(
        attention.decode_into(
            &stream,
            &q,
            &cache,
            &out,
            &lse,
            &attention::Options::default(),
        ),
        "attention: `out`: found elements of `cache.keys`; expected memory of its own",
    );
    let (q, out) = (x.view([1, 1, 1, 576]), x.view([1, 1, 1, 512]));
    let cache = LatentCache {
        rows: &x.view([1, 1, 64, 576]),
        lengths: &lengths,
        table: &lengths,
        checked: false,
    };
    refused(
        attention.decode_latent_into(&stream, &q, &cache, &out, &lse, None),
        "attention: `out`: found elements of `q`; expected memory of its own",
    );
}

#[test]
fn of_products() {
    let (device, stream) = there();
    let products = Products::new(&device);
    let x = Buffer::<bf16>::zeros(&device, 32 * 32).unwrap();
    let view = || x.view([32, 32]);
    let options = products::Options::default();
    let said = |result: &str, operand: &str| {
        format!(
            "product: `{result}`: found memory of `{operand}`; expected a result apart from the operands, which are read while it is written"
        )
    };
    let offsets = Buffer::from_slice(&device, &[0, 32]).unwrap();
    let b = Buffer::<bf16>::zeros(&device, 32 * 32).unwrap();
    let b = b.view([1, 32, 32]);
    refused(
        products.grouped(&stream, &view(), &b, &view(), &offsets, &options),
        &said("c", "a"),
    );
    let format = WeightFormat {
        values: WeightValues::Int4,
        group: WeightGroup::Of(32),
    };
    let weights = HostWeights {
        weights: &[8; 32 * 32],
        scales: &[1.0; 32],
        zeros: None,
    };
    let weights = PackedWeights::from_host(&device, weights, [32, 32], format).unwrap();
    refused(
        products.weight_only(&stream, &view(), &weights, &view(), &options),
        &said("y", "x"),
    );
    let a = products
        .compress(&stream, &view(), Pruning::LargestTwo)
        .unwrap();
    refused(
        products.sparse(&stream, &a, &view(), &view(), &options),
        &said("c", "b"),
    );
    let (values, scales) = products.quantise_rows(&stream, &view()).unwrap();
    let one = Buffer::<f32>::zeros(&device, 1).unwrap();
    let a = Scaled {
        values: &values.view([32, 32]),
        scales: &scales.view([32, 1]),
    };
    let b = Scaled {
        values: &values.view([32, 1]),
        scales: &one.view([1, 1]),
    };
    refused(
        products.block_scaled(&stream, a, b, &scales.view([32, 1])),
        &said("c", "a.scales"),
    );
}

/// Neither of both is without gaps, and they have no pitch in common.
#[test]
fn of_products_in_other_orders() {
    let (device, stream) = there();
    let products = Products::new(&device);
    let [x, y] = [0; 2].map(|_| Buffer::<bf16>::zeros(&device, 32 * 32).unwrap());
    let strided = x.view([8, 8]).with_strides([16, 1]);
    let across = x.view([8, 8]).with_strides([1, 16]);
    refused(
        products.multiply_into(&stream, &strided, &y.view([8, 8]), &across),
        "product: `c`: found memory of `a`; expected a result apart from the operands, which are read while it is written",
    );
    let between = x.view([8, 8]).with_strides([16, 1]).with_offset(8);
    products
        .multiply_into(&stream, &strided, &y.view([8, 8]), &between)
        .unwrap();
}

/// A source is the result itself or apart from it.
#[test]
fn of_sources() {
    let (device, stream) = there();
    let products = Products::new(&device);
    let [a, c] = [0; 2].map(|_| Buffer::<bf16>::zeros(&device, 16 * 16).unwrap());
    let (a, result) = (a.view([8, 8]), c.view([8, 8]));
    let call = |source: &TensorView<'_, bf16>| {
        let options = products::Options {
            source: Some(source),
            beta: 1.0,
            ..products::Options::default()
        };
        products.call(&stream, &a, &a, &result, &options)
    };
    call(&c.view([8, 8])).unwrap();
    call(&c.view([1, 8, 8]).with_strides([0, 8, 1])).unwrap();
    call(&c.view([8, 8]).with_offset(64)).unwrap();
    let expected = "product: `options.source`: found a part of the memory of the result; expected the result itself, or memory apart from it: it is read while the result is written";
    refused(call(&c.view([8, 8]).with_offset(8)), expected);
    refused(call(&c.view([8, 8]).with_strides([1, 8])), expected);
}

#[test]
fn of_convolutions() {
    let (device, stream) = there();
    let convolutions = Convolutions::new(&device);
    let x = Buffer::<bf16>::zeros(&device, 16 * 16).unwrap();
    let filters = Buffer::<bf16>::zeros(&device, 16 * 16).unwrap();
    let (image, filters) = (x.view([1, 4, 4, 16]), filters.view([16, 1, 1, 16]));
    let options = convolution::Options::default();
    refused(
        convolutions.forward(&stream, &image, &filters, &image, &options),
        "convolution: `y`: found elements of `x`; expected memory of its own",
    );
    refused(
        convolutions.image_gradient(&stream, &image, &filters, &image, &options),
        "convolution: `dx`: found elements of `dy`; expected memory of its own",
    );
    let dy = Buffer::<bf16>::zeros(&device, 16 * 16).unwrap();
    let (dy, dfilters) = (dy.view([1, 4, 4, 16]), x.view([16, 1, 1, 16]));
    refused(
        convolutions.filter_gradient(&stream, &image, &dy, &dfilters, &options),
        "convolution: `dfilters`: found elements of `x`; expected memory of its own",
    );
    let y = Buffer::<bf16>::zeros(&device, 32 * 16).unwrap();
    let source = y.view([1, 4, 4, 16]).with_offset(16);
    let options = convolution::Options {
        source: Some(&source),
        beta: 1.0,
        ..options
    };
    refused(
        convolutions.forward(&stream, &image, &filters, &y.view([1, 4, 4, 16]), &options),
        "convolution: `options.source`: found a part of the memory of `y`; expected `y` itself, or memory apart from it: it is read while `y` is written",
    );
}
