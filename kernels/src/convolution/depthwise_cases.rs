//! Cases of depthwise convolutions, against f64.

use tilekit::prelude::*;

use super::cases::shape_of;
use super::depthwise::{Depthwise, depthwise, places_of};
use super::depthwise_filters::{DepthwiseFilters, depthwise_filters};
use super::filters_cases::under;
use super::launch::{of_depthwise, of_depthwise_filters};
use super::residue::Residue;
use super::shape::Shape;
use crate::products::epilogue::{Activation, Axis, Epilogue, Plain, Scales, Standard};
use crate::products::factor::{Operand, ResultOf};
use crate::products::output_handles::NoOutputs;

/// The factor of the source that epilogues of cases use.
const BETA: f32 = -0.5;

/// Calls `f` with the pixel of the result, that of the image and the tap of each product of a channel.
fn each(shape: &Shape, mut f: impl FnMut(usize, usize, usize)) {
    for pixel in 0..shape.pixels() {
        for tap in 0..shape.taps() {
            if let Some(place) = under(shape, pixel, tap) {
                f(pixel, place, tap);
            }
        }
    }
}

/// A convolution, or its gradient of the image; `after` is what the epilogue makes of the sum of a pixel and a channel.
fn channels_one_by_one<
    T: Operand + ResultOf<T, Addend = T> + Float,
    E: Epilogue<T, Outputs = NoOutputs>,
>(
    case: &mut Case,
    is_gradient: bool,
    epilogue: E,
    after: impl Fn(f64, [f64; 3]) -> f64 + Sync,
) -> CaseResult {
    let of = shape_of(case);
    let channels = of.groups;
    let (residues, [from, to], extents) = if is_gradient {
        let [inputs, strides] =
            [0, 1].map(|which| of.along.map(|along| [along.input, along.stride][which]));
        let pixels = [of.pixels(), of.input_pixels()];
        (Residue::of_gradient(&of), pixels, (inputs, strides))
    } else {
        let outputs = of.along.map(|along| along.output);
        let pixels = [of.input_pixels(), of.pixels()];
        (vec![Residue::whole(&of)], pixels, (outputs, [1; 3]))
    };
    let image = case.normal::<T>("image", [from, channels]);
    let filters = case.normal::<T>("filters", [channels, of.taps()]);
    let out = case.output::<T>("out", [to, channels]);
    let source = case.normal::<T>("source", [to, channels]);
    let bias = case.normal::<T>("bias", [channels]);
    let scales = case.uniform::<f32>("scales", [channels], 0.5..1.5);
    for residue in residues {
        let launch = Depthwise::of(&residue.shape);
        let launch = launch.expect("the taps of a case fit registers");
        let (first, apart) = places_of(&residue, extents, channels);
        let to = out.view().with_shape([1]).with_offset(first);
        let numbers = (BETA, &source, &bias, &scales);
        case.launch(
            fixed(depthwise::<T, E>, launch.form.with(epilogue)),
            grid(launch.programs),
            of_depthwise(
                (&residue, of.taps()),
                (&image, &filters, &to),
                apart,
                numbers,
            ),
        )?;
    }
    let reference = || {
        let mut sums = vec![0.0; to * channels];
        each(&of, |pixel, place, tap| {
            let (from, to) = if is_gradient {
                (pixel, place)
            } else {
                (place, pixel)
            };
            for channel in 0..channels {
                let product = image[[from, channel]].number().to_f64()
                    * filters[[channel, tap]].number().to_f64();
                sums[to * channels + channel] += product;
            }
        });
        let places = sums.iter().enumerate();
        let finished = places.map(|(at, &sum)| {
            let (pixel, channel) = (at / channels, at % channels);
            let numbers = [
                f64::from(scales[channel]),
                bias[channel].number().to_f64(),
                source[[pixel, channel]].number().to_f64(),
            ];
            after(sum, numbers)
        });
        finished.collect::<Vec<f64>>()
    };
    let tolerance = Close {
        relative: 4e-3,
        absolute: 1e-4,
    };
    case.expect_all(&out, reference, tolerance)?;
    case.moves_bytes(2 * (from + to) * channels);
    Ok(())
}

/// Taps in both directions, strides, dilation, blocks of 8 to 64 channels, lines that are no multiple of a thread's pixels.
macro_rules! depthwise_cases {
    ($($name:ident: $run:ident;)*) => {$(
        #[case(sizes(
            images = [2, 1, 3, 1, 1],
            depth = [1, 1, 1, 1, 1],
            height = [9, 12, 1, 11, 5],
            width = [13, 19, 50, 14, 23],
            channels = [1, 1, 1, 1, 1],
            filters = [1, 1, 1, 1, 1],
            groups = [24, 72, 16, 64, 32],
            taps = [3, 5, 1, 3, 2],
            taps_width = [3, 4, 6, 7, 11],
            stride = [1, 2, 3, 1, 1],
            padding = [1, 2, 0, 3, 5],
            dilation = [1, 1, 1, 2, 1]
        ))]
        fn $name(case: &mut Case) -> CaseResult {
            $run(case)
        }
    )*};
}

fn forward(case: &mut Case) -> CaseResult {
    channels_one_by_one::<bf16, _>(case, false, Plain, |sum, _| sum)
}

fn gradient(case: &mut Case) -> CaseResult {
    channels_one_by_one::<f16, _>(case, true, Plain, |sum, _| sum)
}

depthwise_cases! {
    depthwise_bf16: forward;
    depthwise_gradient_f16: gradient;
    depthwise_filters_bf16: filters;
}

#[case(sizes(
    images = [2],
    depth = [1],
    height = [7],
    width = [10],
    channels = [1],
    filters = [1],
    groups = [40],
    taps = [3],
    taps_width = [3],
    stride = [1],
    padding = [1],
    dilation = [1]
))]
fn depthwise_scale_bias_source_relu(case: &mut Case) -> CaseResult {
    let epilogue = Standard {
        scales: [Scales::None, Scales::Each],
        bias: Some(Axis::Columns),
        has_source: true,
        activation: Activation::Relu,
    };
    channels_one_by_one::<bf16, _>(case, false, epilogue, |sum, [scale, bias, source]| {
        (sum * scale + bias + source * f64::from(BETA)).max(0.0)
    })
}

/// The gradient of filters, part by part.
fn filters(case: &mut Case) -> CaseResult {
    let of = shape_of(case);
    let channels = of.groups;
    let launch = DepthwiseFilters::of(&of).expect("the taps of a case fit registers");
    let image = case.normal::<bf16>("image", [of.input_pixels(), channels]);
    let gradient = case.normal::<bf16>("gradient", [of.pixels(), channels]);
    let parts = case.output::<f32>("parts", [launch.parts, channels, of.taps()]);
    case.launch_programmatic(
        fixed(depthwise_filters::<bf16>, launch.form),
        grid(launch.programs),
        of_depthwise_filters(&of, (&image, &gradient, &parts), launch.parts),
    )?;
    let reference = || {
        let mut sums = vec![0.0; launch.parts * channels * of.taps()];
        each(&of, |pixel, place, tap| {
            let part = launch.part_of(&of, pixel);
            for channel in 0..channels {
                let product =
                    image[[place, channel]].to_f64() * gradient[[pixel, channel]].to_f64();
                sums[(part * channels + channel) * of.taps() + tap] += product;
            }
        });
        sums
    };
    let tolerance = Close {
        relative: 1e-5,
        absolute: 1e-4,
    };
    case.expect_all(&parts, reference, tolerance)?;
    case.moves_bytes(2 * (of.input_pixels() + of.pixels()) * channels);
    Ok(())
}
