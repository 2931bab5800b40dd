//! The parameters and arguments of [`convolve`](super::implicit::convolve) and of [`filter_gradient`](super::filters::filter_gradient).

use tilekit::prelude::*;

use super::residue::{Residue, Taps};
use super::shape::{Along, Shape};
use super::walk::{TapOrder, Walk};
use crate::handles::handles;

/// The parameters.
pub(super) type Handles<T> = handles! {
    image filters out: TensorMap<T>,
    pixels columns channels groups: Scalar<i32>,
    walk: Walk,
    order: TapOrder,
    beta: Scalar<f32>,
    source: Ptr<T>,
    source_pitch: Scalar<i32>,
    bias: Ptr<T>,
    scales: Ptr<f32>,
};

/// What a launch passes for a [`Walk`].
pub(super) type WalkArguments = ([i32; 3], [i32; 3], [i32; 3], [i32; 3], [i32; 3]);

/// What a launch passes for a [`TapOrder`].
pub(super) type OrderArguments = (i32, [i32; 3]);

/// The arguments, of tensors of these types.
pub(super) type Arguments<I, F, O, S, B, C> = (
    I,
    F,
    O,
    i32,
    i32,
    i32,
    i32,
    WalkArguments,
    OrderArguments,
    f32,
    S,
    i32,
    B,
    C,
);

/// Output pixels, steps, the first pixels, taps and pixels between them, each of three dimensions.
pub(super) fn walk_of(shape: &Shape) -> WalkArguments {
    let numbers: [fn(&Along) -> i64; 5] = [
        |along| along.output as i64,
        |along| along.stride as i64,
        |along| along.lower,
        |along| along.taps as i64,
        |along| along.dilation as i64,
    ];
    let [output, step, lower, taps, spread] =
        numbers.map(|number| shape.along.map(|along| number(&along) as i32));
    (output, step, lower, taps, spread)
}

fn order_of(taps: &Taps) -> OrderArguments {
    (taps.first as i32, taps.step.map(|step| step as i32))
}

/// Image, filters and result; the factor of the source, the source, bias and scales.
pub(super) fn arguments<I, F, O, S, B, C>(
    Residue { shape, taps, .. }: &Residue,
    (image, filters, out): (I, F, O),
    (beta, source, bias, scales): (f32, S, B, C),
) -> Arguments<I, F, O, S, B, C> {
    (
        image,
        filters,
        out,
        shape.pixels() as i32,
        shape.filters as i32,
        shape.channels as i32,
        shape.groups as i32,
        walk_of(shape),
        order_of(taps),
        beta,
        source,
        (shape.filters * shape.groups) as i32,
        bias,
        scales,
    )
}

/// The parameters of [`convolve_apart`](super::implicit::convolve_apart).
pub(super) type ApartHandles<T> = handles! {
    image filters out: TensorMap<T>,
    pixels columns channels groups: Scalar<i32>,
    walk: Walk,
    order: TapOrder,
    nothing: Ptr<T>,
    no_scales: Ptr<f32>,
};

/// The arguments of [`convolve_apart`](super::implicit::convolve_apart), of tensors of these types.
pub(super) type ApartArguments<I, F, O, N, S> = (
    I,
    F,
    O,
    i32,
    i32,
    i32,
    i32,
    WalkArguments,
    OrderArguments,
    N,
    S,
);

/// Image, filters and result, and what stands for what a gradient does not read.
pub(super) fn of_pixels_apart<I, F, O, N, S>(
    Residue { shape, taps, .. }: &Residue,
    (image, filters, out): (I, F, O),
    (nothing, no_scales): (N, S),
) -> ApartArguments<I, F, O, N, S> {
    (
        image,
        filters,
        out,
        shape.pixels() as i32,
        shape.filters as i32,
        shape.channels as i32,
        shape.groups as i32,
        walk_of(shape),
        order_of(taps),
        nothing,
        no_scales,
    )
}

/// The parameters of `filter_gradient`.
pub(super) type FilterHandles<T, O> = handles! {
    image gradient: TensorMap<T>,
    out: Ptr<O>,
    count pixels filters channels groups: Scalar<i32>,
    walk: Walk,
};

/// The arguments of `filter_gradient`, of tensors of these types.
pub(super) type OfFilters<I, G, P> = (I, G, P, i32, i32, i32, i32, i32, WalkArguments);

/// Image, gradient of the result, and where sums are stored, for so many parts.
pub(super) fn of_walk<I, G, P>(
    shape: &Shape,
    (image, gradient, out): (I, G, P),
    count: usize,
) -> OfFilters<I, G, P> {
    (
        image,
        gradient,
        out,
        count as i32,
        shape.pixels() as i32,
        shape.filters as i32,
        shape.channels as i32,
        shape.groups as i32,
        walk_of(shape),
    )
}

/// The parameters of [`depthwise`](super::depthwise::depthwise).
pub(super) type DepthwiseHandles<T> = handles! {
    image filters out: Ptr<T>,
    channels images: Scalar<i32>,
    input: [Scalar<i32>; 2],
    walk: Walk,
    order: TapOrder,
    of_filter: Scalar<i32>,
    apart: [Scalar<i64>; 3],
    beta: Scalar<f32>,
    source: Ptr<T>,
    bias: Ptr<T>,
    scales: Ptr<f32>,
};

/// The arguments of [`depthwise`](super::depthwise::depthwise), of tensors of these types.
pub(super) type DepthwiseArguments<I, F, O, S, B, C> = (
    I,
    F,
    O,
    i32,
    i32,
    [i32; 2],
    WalkArguments,
    OrderArguments,
    i32,
    [i64; 3],
    f32,
    S,
    B,
    C,
);

/// Image, filters of so many taps, and the result, whose pixels lie so far apart; the factor of the source, the source, bias and scales.
pub(super) fn of_depthwise<I, F, O, S, B, C>(
    (Residue { shape, taps, .. }, of_filter): (&Residue, usize),
    (image, filters, out): (I, F, O),
    apart: [i64; 3],
    (beta, source, bias, scales): (f32, S, B, C),
) -> DepthwiseArguments<I, F, O, S, B, C> {
    let [_, high, wide] = shape.along;
    (
        image,
        filters,
        out,
        shape.groups as i32,
        shape.images as i32,
        [high.input as i32, wide.input as i32],
        walk_of(shape),
        order_of(taps),
        of_filter as i32,
        apart,
        beta,
        source,
        bias,
        scales,
    )
}

/// The parameters of [`depthwise_filters`](super::depthwise_filters::depthwise_filters).
pub(super) type DepthwiseFiltersHandles<T> = handles! {
    image gradient: Ptr<T>,
    parts: Ptr<f32>,
    channels images: Scalar<i32>,
    input: [Scalar<i32>; 2],
    walk: Walk,
    count: Scalar<i32>,
};

/// The arguments of [`depthwise_filters`](super::depthwise_filters::depthwise_filters), of tensors of these types.
pub(super) type OfDepthwiseFilters<I, G, P> = (I, G, P, i32, i32, [i32; 2], WalkArguments, i32);

/// Image, gradient of the result, and so many parts.
pub(super) fn of_depthwise_filters<I, G, P>(
    shape: &Shape,
    (image, gradient, parts): (I, G, P),
    count: usize,
) -> OfDepthwiseFilters<I, G, P> {
    let [_, high, wide] = shape.along;
    (
        image,
        gradient,
        parts,
        shape.groups as i32,
        shape.images as i32,
        [high.input as i32, wide.input as i32],
        walk_of(shape),
        count as i32,
    )
}
