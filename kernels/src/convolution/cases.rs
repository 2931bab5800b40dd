//! Cases of convolutions, against f64.

use tilekit::prelude::*;

use super::filters_cases::under;
use super::implicit::{convolve, convolve_apart};
use super::launch::{arguments, of_pixels_apart};
use super::pad::{ELEMENTS, FILLED, fill, pad};
use super::patches::{Patches, gather_patches, scatter_patches};
use super::plan::Tiled;
use super::residue::Residue;
use super::shape::{Along, Shape};
use crate::products::epilogue::{Activation, Axis, Epilogue, Plain, Scales, Standard};
use crate::products::factor::{Operand, ResultOf};
use crate::products::output_handles::NoOutputs;

/// The factor of the source that epilogues of cases use.
const BETA: f32 = -0.5;

/// The sizes of a case.
pub(super) fn shape_of(case: &Case) -> Shape {
    let numbers = ["stride", "padding", "dilation"].map(|name| case.size(name));
    let along = |input: &str, taps: &str| {
        let along = Along::new([input, taps].map(|name| case.size(name)), numbers);
        along.expect("the filters of a case are no larger than its padded images")
    };
    let has_depth = case.size("depth") > 1;
    Shape {
        images: case.size("images"),
        channels: case.size("channels"),
        filters: case.size("filters"),
        groups: case.size("groups"),
        along: [
            if has_depth {
                along("depth", "taps")
            } else {
                Along::NONE
            },
            along("height", "taps"),
            along("width", "taps_width"),
        ],
        has_depth,
    }
}

/// The tensors of a case.
struct Tensors<T> {
    /// The convolution, or the one whose gradient is computed.
    of: Shape,
    /// Channels of a group of the image, and of the result.
    channels: [usize; 2],
    image: Input<T>,
    filters: Input<T>,
    out: Output<T>,
    source: Input<T>,
    bias: Input<T>,
    scales: Input<f32>,
}

impl<T: Operand + ResultOf<T, Addend = T>> Tensors<T> {
    fn new(case: &mut Case, is_gradient: bool) -> Self {
        let of = shape_of(case);
        let [inputs, outputs] = [of.input_pixels(), of.pixels()];
        let ([from, to], channels) = if is_gradient {
            ([outputs, inputs], [of.filters, of.channels])
        } else {
            ([inputs, outputs], [of.channels, of.filters])
        };
        let [loaded, stored] = channels.map(|count| count * of.groups);
        let result = [to, stored];
        Tensors {
            of,
            channels,
            image: case.normal("image", [from, loaded]),
            filters: case.normal("filters", [of.filters * of.groups, of.taps(), of.channels]),
            out: case.output("out", result),
            source: case.normal("source", result),
            bias: case.normal("bias", [stored]),
            scales: case.uniform("scales", [stored], 0.5..1.5),
        }
    }

    /// The product of a pixel of the image and a filter, both of which are behind these elements, in f64.
    fn product(&self, image: usize, filters: usize, step: usize) -> f64 {
        let product = |channel: usize| {
            let x = self.image[image + channel].number().to_f64();
            x * self.filters[filters + channel * step].number().to_f64()
        };
        (0..self.channels[0]).map(product).sum()
    }

    /// Where an element of the gradient is a sum over filters and output pixels in f64.
    fn gradient(&self, pixel: usize, channel: usize) -> f64 {
        let Shape {
            along: [deep, high, wide],
            channels,
            filters,
            groups,
            ..
        } = self.of;
        let (line, column) = (pixel / wide.input, pixel % wide.input);
        let (plane, row) = (line / high.input, line % high.input);
        let (image, plane) = (plane / deep.input, plane % deep.input);
        let above = |along: Along, input: usize, tap: usize| {
            let at = input as i64 - along.lower - (tap * along.dilation) as i64;
            let at = usize::try_from(at)
                .ok()
                .filter(|at| at.is_multiple_of(along.stride))?;
            Some(at / along.stride).filter(|&at| at < along.output)
        };
        let (group, channel) = (channel / channels, channel % channels);
        let mut sum = 0.0;
        for tap in 0..self.of.taps() {
            let (line, k) = (tap / wide.taps, tap % wide.taps);
            let (i, j) = (line / high.taps, line % high.taps);
            let places = (
                above(deep, plane, i),
                above(high, row, j),
                above(wide, column, k),
            );
            let (Some(plane), Some(row), Some(column)) = places else {
                continue;
            };
            let at = ((image * deep.output + plane) * high.output + row) * wide.output + column;
            let step = self.of.taps() * channels;
            let first = group * filters * step + tap * channels + channel;
            sum += self.product((at * groups + group) * filters, first, step);
        }
        sum
    }

    /// The sum of one element in f64.
    fn sum(&self, pixel: usize, filter: usize) -> f64 {
        let Shape {
            along: [deep, high, wide],
            channels,
            filters,
            groups,
            ..
        } = self.of;
        let (line, column) = (pixel / wide.output, pixel % wide.output);
        let (plane, row) = (line / high.output, line % high.output);
        let (image, plane) = (plane / deep.output, plane % deep.output);
        let under = |along: Along, output: usize, tap: usize| {
            let at = (output * along.stride + tap * along.dilation) as i64 + along.lower;
            usize::try_from(at).ok().filter(|&at| at < along.input)
        };
        let first = filter / filters * channels;
        let mut sum = 0.0;
        for tap in 0..self.of.taps() {
            let (line, k) = (tap / wide.taps, tap % wide.taps);
            let (i, j) = (line / high.taps, line % high.taps);
            let places = (
                under(deep, plane, i),
                under(high, row, j),
                under(wide, column, k),
            );
            let (Some(plane), Some(row), Some(column)) = places else {
                continue;
            };
            let at = ((image * deep.input + plane) * high.input + row) * wide.input + column;
            let weights = (filter * self.of.taps() + tap) * channels;
            sum += self.product(at * channels * groups + first, weights, 1);
        }
        sum
    }

    fn launch<E: Epilogue<T, Outputs = NoOutputs>>(
        &self,
        case: &mut Case,
        (residue, tiled): (&Residue, &Tiled),
        epilogue: E,
    ) -> CaseResult {
        let (shape, of) = (&residue.shape, self.of);
        let image = shape.image(self.image.view());
        let taps = [of.filters * of.groups, of.taps(), of.channels];
        let filters = Shape::taps_of(self.filters.view(), taps);
        if tiled.form.is_gradient && of.has_strides() {
            let extents = (
                of.along.map(|along| along.input),
                of.along.map(|along| along.stride),
            );
            let pitch = self.channels[1] * of.groups;
            let out = residue.stored_apart(self.out.view(), extents, pitch);
            let numbers = (&self.source, &self.scales);
            return case.launch_programmatic(
                fixed(convolve_apart::<T, T>, tiled.form.with(Plain)),
                grid(tiled.programs),
                of_pixels_apart(residue, (image, filters, out), numbers),
            );
        }
        let maps = (image, filters, shape.result(self.out.view(), shape.filters));
        let numbers = (BETA, &self.source, &self.bias, &self.scales);
        case.launch_programmatic(
            fixed(convolve::<T, T, E>, tiled.form.with(epilogue)),
            grid(tiled.programs),
            arguments(residue, maps, numbers),
        )
    }
}

/// A convolution, or its gradient of the image, by the tile of that number, or the plan's if it is 0; `after` is what the epilogue makes of a sum.
fn convolution<T: Operand + ResultOf<T, Addend = T>, E: Epilogue<T, Outputs = NoOutputs>>(
    case: &mut Case,
    is_gradient: bool,
    epilogue: E,
    after: impl Fn(&Tensors<T>, [usize; 2], f64) -> f64 + Sync,
) -> CaseResult {
    let tensors = Tensors::<T>::new(case, is_gradient);
    let of = tensors.of;
    let residues = if is_gradient {
        Residue::of_gradient(&of)
    } else {
        vec![Residue::whole(&of)]
    };
    for residue in residues {
        let shape = &residue.shape;
        let tiled = match case.size("tile") {
            0 => Tiled::best(shape, is_gradient, is_gradient && of.has_strides()),
            number => Tiled::all(shape, is_gradient).into_iter().nth(number - 1),
        };
        let tiled = tiled.expect("im2col maps reach the pixels of a case");
        tensors.launch(case, (&residue, &tiled), epilogue)?;
    }
    let terms = (tensors.channels[0] * of.taps()) as f64;
    let tolerance = Close {
        relative: 4e-3,
        absolute: 1e-4 * terms.sqrt(),
    };
    let want = |[pixel, filter]: [usize; 2]| {
        let sum = if is_gradient {
            tensors.gradient(pixel, filter)
        } else {
            tensors.sum(pixel, filter)
        };
        after(&tensors, [pixel, filter], sum)
    };
    case.expect(&tensors.out, want, tolerance)?;
    case.does_tensor_flops::<T>(of.flops());
    Ok(())
}

/// Ragged images, strides, dilation, groups, each tile.
#[case(sizes(
    images = [2, 3, 1, 2, 3, 5, 1, 2, 1],
    depth = [1, 1, 1, 1, 1, 1, 1, 1, 1],
    height = [9, 8, 11, 7, 6, 5, 1, 9, 13],
    width = [7, 9, 10, 8, 11, 5, 1, 13, 40],
    channels = [64, 72, 32, 16, 96, 8, 8, 32, 24],
    filters = [264, 136, 200, 128, 72, 8, 8, 40, 16],
    groups = [1, 1, 1, 1, 1, 1, 1, 3, 1],
    taps = [3, 1, 3, 5, 3, 2, 1, 3, 1],
    taps_width = [3, 1, 3, 5, 2, 4, 1, 3, 7],
    stride = [1, 2, 2, 1, 1, 1, 1, 2, 3],
    padding = [1, 0, 2, 2, 1, 1, 0, 1, 3],
    dilation = [1, 1, 2, 1, 1, 1, 1, 1, 1],
    tile = [1, 2, 3, 4, 5, 6, 0, 6, 0]
))]
fn convolution_bf16(case: &mut Case) -> CaseResult {
    convolution::<bf16, _>(case, false, Plain, |_, _, sum| sum)
}

/// Images with depth, and lines (a height of 1).
#[case(sizes(
    images = [2, 1, 3],
    depth = [4, 5, 1],
    height = [5, 6, 1],
    width = [6, 3, 50],
    channels = [32, 64, 48],
    filters = [64, 24, 40],
    groups = [1, 2, 1],
    taps = [3, 2, 1],
    taps_width = [3, 2, 5],
    stride = [1, 2, 1],
    padding = [1, 1, 0],
    dilation = [1, 1, 2],
    tile = [0, 6, 4]
))]
fn convolution_of_depth_f16(case: &mut Case) -> CaseResult {
    convolution::<f16, _>(case, false, Plain, |_, _, sum| sum)
}

/// What an inference step adds: a scale and a bias of each filter, another image, an activation.
#[case(sizes(
    images = [2, 1],
    depth = [1, 1],
    height = [7, 12],
    width = [9, 12],
    channels = [64, 32],
    filters = [72, 64],
    groups = [1, 2],
    taps = [3, 3],
    taps_width = [3, 3],
    stride = [1, 2],
    padding = [1, 1],
    dilation = [1, 1],
    tile = [4, 6]
))]
fn convolution_scale_bias_source_relu(case: &mut Case) -> CaseResult {
    let epilogue = Standard {
        scales: [Scales::None, Scales::Each],
        bias: Some(Axis::Columns),
        has_source: true,
        activation: Activation::Relu,
    };
    convolution::<bf16, _>(case, false, epilogue, |tensors, [pixel, filter], sum| {
        let bias = tensors.bias[filter].to_f64();
        let source = tensors.source[[pixel, filter]].to_f64();
        let x = sum * f64::from(tensors.scales[filter]) + bias + source * f64::from(BETA);
        x.max(0.0)
    })
}

/// Each tile in steps of 64 channels.
macro_rules! of_tiles {
    ($($name:ident: $is_gradient:expr, $element:ty;)*) => {$(
        #[case(sizes(
            images = [2, 1, 1, 3, 1, 2, 1],
            depth = [1, 1, 1, 1, 1, 1, 1],
            height = [6, 8, 9, 5, 17, 6, 7],
            width = [5, 9, 8, 6, 17, 5, 7],
            channels = [64, 64, 56, 64, 64, 64, 64],
            filters = [64, 56, 64, 128, 64, 64, 64],
            groups = [1, 1, 1, 1, 1, 2, 1],
            taps = [3, 2, 1, 3, 1, 3, 1],
            taps_width = [3, 3, 1, 1, 1, 3, 2],
            stride = [1, 1, 1, 1, 1, 1, 1],
            padding = [1, 0, 0, 3, 0, 1, 0],
            dilation = [1, 2, 1, 1, 1, 1, 1],
            tile = [1, 2, 3, 4, 5, 6, 6]
        ))]
        fn $name(case: &mut Case) -> CaseResult {
            convolution::<$element, _>(case, $is_gradient, Plain, |_, _, sum| sum)
        }
    )*};
}

of_tiles! {
    convolution_of_tiles_bf16: false, bf16;
    convolution_gradient_bf16: true, bf16;
}

#[case(sizes(
    images = [2, 1],
    depth = [1, 3],
    height = [7, 4],
    width = [6, 5],
    channels = [40, 16],
    filters = [24, 32],
    groups = [1, 2],
    taps = [3, 2],
    taps_width = [2, 3],
    stride = [1, 1],
    padding = [1, 1],
    dilation = [2, 1],
    tile = [0, 0]
))]
fn convolution_gradient_f16(case: &mut Case) -> CaseResult {
    convolution::<f16, _>(case, true, Plain, |_, _, sum| sum)
}

/// Gradients of images with strides, a launch for each remainder of them: taps that differ, a dilation that shares a factor with the stride, depth, groups whose channels tiles divide, each tile.
#[case(sizes(
    images = [2, 1, 2, 1, 3, 2, 1],
    depth = [1, 1, 1, 5, 1, 1, 1],
    height = [9, 8, 13, 4, 7, 16, 11],
    width = [7, 12, 10, 5, 9, 15, 20],
    channels = [264, 136, 200, 16, 128, 72, 64],
    filters = [64, 72, 32, 16, 48, 8, 64],
    groups = [1, 1, 1, 1, 2, 1, 1],
    taps = [3, 4, 5, 2, 3, 7, 4],
    taps_width = [3, 2, 5, 3, 2, 3, 6],
    stride = [2, 2, 3, 2, 2, 2, 4],
    padding = [1, 0, 2, 1, 1, 3, 1],
    dilation = [1, 1, 1, 1, 1, 1, 3],
    tile = [1, 2, 3, 0, 4, 5, 6]
))]
fn convolution_gradient_of_strides_bf16(case: &mut Case) -> CaseResult {
    convolution::<bf16, _>(case, true, Plain, |_, _, sum| sum)
}

/// Lines of pixels with other channels, and lines of groups that are merged.
#[case(sizes(lines = [5, 3, 1, 12], pixels = [7, 400, 1, 3], from = [3, 3, 10, 4], to = [4, 8, 3, 12], before = [3, 0, 0, 0], after = [2, 1, 0, 0], of_group = [1, 1, 1, 2], merged = [1, 1, 1, 3]))]
fn padded_lines(case: &mut Case) -> CaseResult {
    let [lines, pixels, from, to] = ["lines", "pixels", "from", "to"].map(|name| case.size(name));
    let [before, after, of_group, merged] =
        ["before", "after", "of_group", "merged"].map(|name| case.size(name));
    let length = (before + pixels + after) * to;
    let source = case.normal::<bf16>("source", [lines, pixels, from]);
    let target = case.output::<bf16>("target", [lines, length]);
    let numbers = [pixels, from].map(|number| number as i32);
    let of_target = [length, to, before, of_group, merged].map(|number| number as i32);
    let [length_of, to_of, before_of, of_group_of, merged_of] = of_target;
    case.launch(
        pad::<bf16>,
        grid(lines * length.div_ceil(ELEMENTS)),
        (
            &source,
            numbers[0],
            numbers[1],
            &target,
            length_of,
            to_of,
            before_of,
            of_group_of,
            merged_of,
        ),
    )?;
    let want = |[line, at]: [usize; 2]| {
        let pixel = (at / to)
            .checked_sub(before)
            .filter(|&pixel| pixel < pixels);
        let channel = (at % to).checked_sub(line / of_group % merged * from);
        let channel = channel.filter(|&channel| channel < from);
        pixel.zip(channel).map_or(bf16::ZERO, |(pixel, channel)| {
            source[[line, pixel, channel]]
        })
    };
    case.expect(&target, want, Exactly)?;
    case.moves_bytes(2 * lines * (pixels * from + length));
    Ok(())
}

#[case(sizes(count = [8, 5000]))]
fn filled(case: &mut Case) -> CaseResult {
    let count = case.size("count");
    let to = case.output::<bf16>("to", [count]);
    let programs = grid(count.div_ceil(FILLED));
    case.launch(fill::<bf16>, programs, (&to, count as i64))?;
    case.expect(&to, |[_]| bf16::ZERO, Exactly)?;
    case.moves_bytes(2 * count);
    Ok(())
}

/// What lies under the filters at each pixel.
#[case(sizes(
    images = [2, 1, 3],
    depth = [1, 4, 1],
    height = [9, 6, 33],
    width = [7, 5, 30],
    channels = [3, 2, 5],
    filters = [8, 8, 8],
    groups = [1, 1, 1],
    taps = [3, 2, 11],
    taps_width = [3, 2, 10],
    stride = [2, 1, 10],
    padding = [1, 1, 4],
    dilation = [1, 2, 1]
))]
fn gathered_patches(case: &mut Case) -> CaseResult {
    let shape = shape_of(case);
    let patches = Patches::of(&shape);
    let image = case.normal::<bf16>("image", [shape.input_pixels(), shape.channels]);
    let rows = case.output::<bf16>("rows", [shape.pixels(), patches.row]);
    case.launch(
        gather_patches::<bf16>,
        grid(patches.programs()),
        patches.arguments(&image, &rows),
    )?;
    let want = |[pixel, at]: [usize; 2]| {
        let (tap, channel) = (at / shape.channels, at % shape.channels);
        let place = (tap < shape.taps()).then(|| under(&shape, pixel, tap));
        let place = place.flatten();
        place.map_or(bf16::ZERO, |place| image[[place, channel]])
    };
    case.expect(&rows, want, Exactly)?;
    case.moves_bytes(2 * (image.host().len() + shape.pixels() * patches.row));
    Ok(())
}

/// The gradients of pixels that one tap reaches at most, and of those between taps and behind the last one.
#[case(sizes(
    images = [2, 1, 1],
    depth = [1, 5, 1],
    height = [9, 6, 20],
    width = [8, 5, 17],
    channels = [3, 2, 5],
    filters = [8, 8, 8],
    groups = [1, 1, 1],
    taps = [3, 2, 2],
    taps_width = [3, 2, 3],
    stride = [3, 2, 7],
    padding = [0, 1, 2],
    dilation = [1, 1, 3]
))]
fn scattered_patches(case: &mut Case) -> CaseResult {
    let shape = shape_of(case);
    let patches = Patches::apart(&shape).expect("taps of a case do not overlap");
    let rows = case.normal::<bf16>("rows", [shape.pixels(), patches.row]);
    let image = case.output::<bf16>("image", [shape.input_pixels(), shape.channels]);
    case.launch(
        scatter_patches::<bf16>,
        grid(patches.programs_of_image()),
        patches.arguments(&image, &rows),
    )?;
    let reference = || {
        let mut all = vec![0.0; shape.input_pixels() * shape.channels];
        for (pixel, tap) in
            (0..shape.pixels()).flat_map(|pixel| (0..shape.taps()).map(move |tap| (pixel, tap)))
        {
            let Some(place) = under(&shape, pixel, tap) else {
                continue;
            };
            for channel in 0..shape.channels {
                let number = rows[[pixel, tap * shape.channels + channel]];
                all[place * shape.channels + channel] += number.to_f64();
            }
        }
        all
    };
    case.expect_all(&image, reference, Exactly)?;
    case.moves_bytes(2 * (rows.host().len() + shape.input_pixels() * shape.channels));
    Ok(())
}
