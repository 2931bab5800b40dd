//! The parameters and arguments of [`convolve`](super::implicit::convolve).

use tilekit::prelude::*;

use super::shape::{Along, Shape};
use crate::handles::handles;

/// The parameters.
pub(super) type Handles<T> = handles! {
    image filters out: TensorMap<T>,
    pixels columns channels groups: Scalar<i32>,
    out_depth out_height out_width: Scalar<i32>,
    step_depth step_height step_width: Scalar<i32>,
    lower_depth lower_height lower_width: Scalar<i32>,
    taps_depth taps_height taps_width: Scalar<i32>,
    spread_depth spread_height spread_width: Scalar<i32>,
    beta: Scalar<f32>,
    source: Ptr<T>,
    source_pitch: Scalar<i32>,
    bias: Ptr<T>,
    scales: Ptr<f32>,
};

/// The arguments, of tensors of these types.
pub(super) type Arguments<I, F, O, S, B, C> = (
    I,
    F,
    O,
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    f32,
    S,
    i32,
    B,
    C,
);

/// Image, filters and result; the factor of the source, the source, bias and scales.
pub(super) fn arguments<I, F, O, S, B, C>(
    shape: &Shape,
    (image, filters, out): (I, F, O),
    (beta, source, bias, scales): (f32, S, B, C),
) -> Arguments<I, F, O, S, B, C> {
    let of = |number: fn(&Along) -> i64| shape.along.map(|along| number(&along) as i32);
    let output = of(|along| along.output as i64);
    let step = of(|along| along.stride as i64);
    let lower = of(|along| along.lower);
    let taps = of(|along| along.taps as i64);
    let spread = of(|along| along.dilation as i64);
    (
        image,
        filters,
        out,
        shape.pixels() as i32,
        shape.filters as i32,
        shape.channels as i32,
        shape.groups as i32,
        output[0],
        output[1],
        output[2],
        step[0],
        step[1],
        step[2],
        lower[0],
        lower[1],
        lower[2],
        taps[0],
        taps[1],
        taps[2],
        spread[0],
        spread[1],
        spread[2],
        beta,
        source,
        (shape.filters * shape.groups) as i32,
        bias,
        scales,
    )
}
