//! The parameters and arguments of [`convolve`](super::implicit::convolve) and of [`filter_gradient`](super::filters::filter_gradient).

use tilekit::prelude::*;

use super::shape::{Along, Shape};
use super::walk::Walk;
use crate::handles::handles;

/// The parameters.
pub(super) type Handles<T> = handles! {
    image filters out: TensorMap<T>,
    pixels columns channels groups: Scalar<i32>,
    walk: Walk,
    beta: Scalar<f32>,
    source: Ptr<T>,
    source_pitch: Scalar<i32>,
    bias: Ptr<T>,
    scales: Ptr<f32>,
};

/// What a launch passes for a [`Walk`].
pub(super) type WalkArguments = ([i32; 3], [i32; 3], [i32; 3], [i32; 3], [i32; 3]);

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
    f32,
    S,
    i32,
    B,
    C,
);

/// Output pixels, steps, the first pixels, taps and pixels between them, each of three dimensions.
fn walk_of(shape: &Shape) -> WalkArguments {
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

/// Image, filters and result; the factor of the source, the source, bias and scales.
pub(super) fn arguments<I, F, O, S, B, C>(
    shape: &Shape,
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
        beta,
        source,
        (shape.filters * shape.groups) as i32,
        bias,
        scales,
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
