//! Cases of convolutions, against f64.

use tilekit::prelude::*;

use super::implicit::convolve;
use super::launch::arguments;
use super::pad::{ELEMENTS, pad};
use super::plan::Tiled;
use super::shape::{Along, Shape};
use crate::products::epilogue::{Activation, Axis, Epilogue, Plain, Scales, Standard};
use crate::products::factor::{Operand, ResultOf};

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
    /// What is computed.
    shape: Shape,
    /// The convolution, or the one whose gradient that is.
    of: Shape,
    image: Input<T>,
    filters: Input<T>,
    out: Output<T>,
    source: Input<T>,
    bias: Input<T>,
    scales: Input<f32>,
}

impl<T: Operand + ResultOf<T>> Tensors<T> {
    fn new(case: &mut Case, is_gradient: bool) -> Self {
        let of = shape_of(case);
        let shape = if is_gradient {
            of.gradient().expect("a case has strides of 1")
        } else {
            of
        };
        let of_image: usize = shape.along.iter().map(|along| along.input).product();
        let result = [shape.pixels(), shape.filters * shape.groups];
        let [channels, filters] = [shape.channels, of.filters].map(|count| count * shape.groups);
        Tensors {
            shape,
            of,
            image: case.normal("image", [shape.images * of_image, channels]),
            filters: case.normal("filters", [filters, shape.taps(), of.channels]),
            out: case.output("out", result),
            source: case.normal("source", result),
            bias: case.normal("bias", [result[1]]),
            scales: case.uniform("scales", [result[1]], 0.5..1.5),
        }
    }

    /// The product of a pixel of the image and a filter, both of which are behind these elements, in f64.
    fn product(&self, image: usize, filters: usize, step: usize) -> f64 {
        let product = |channel: usize| {
            let x = self.image[image + channel].number().to_f64();
            x * self.filters[filters + channel * step].number().to_f64()
        };
        (0..self.shape.channels).map(product).sum()
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
        for tap in 0..self.shape.taps() {
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
            let weights = (filter * self.shape.taps() + tap) * channels;
            sum += self.product(at * channels * groups + first, weights, 1);
        }
        sum
    }

    fn launch<E: Epilogue<T>>(&self, case: &mut Case, tiled: &Tiled, epilogue: E) -> CaseResult {
        let (shape, of) = (&self.shape, self.of);
        let taps = [of.filters * of.groups, of.taps(), of.channels];
        let maps = (
            shape.image(self.image.view()),
            Shape::taps_of(self.filters.view(), taps),
            shape.result(self.out.view(), shape.filters),
        );
        case.launch(
            fixed(convolve::<T, T, E>, tiled.form.with(epilogue)),
            grid(tiled.programs),
            arguments(shape, maps, (BETA, &self.source, &self.bias, &self.scales)),
        )
    }
}

/// A convolution, or its gradient of the image, by the tile of that number, or the plan's if it is 0; `after` is what the epilogue makes of a sum.
fn convolution<T: Operand + ResultOf<T>, E: Epilogue<T>>(
    case: &mut Case,
    is_gradient: bool,
    epilogue: E,
    after: impl Fn(&Tensors<T>, [usize; 2], f64) -> f64 + Sync,
) -> CaseResult {
    let tensors = Tensors::<T>::new(case, is_gradient);
    let shape = tensors.shape;
    let tiled = match case.size("tile") {
        0 => Tiled::best(&shape, is_gradient),
        number => Tiled::all(&shape, is_gradient).into_iter().nth(number - 1),
    };
    let tiled = tiled.expect("im2col maps reach the pixels of a case");
    tensors.launch(case, &tiled, epilogue)?;
    let terms = (shape.channels * shape.taps()) as f64;
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
    case.does_tensor_flops::<T>(shape.flops());
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

/// Lines of pixels with other channels.
#[case(sizes(lines = [5, 3, 1], pixels = [7, 400, 1], from = [3, 3, 10], to = [4, 8, 3], before = [3, 0, 0], after = [2, 1, 0]))]
fn padded_lines(case: &mut Case) -> CaseResult {
    let [lines, pixels, from, to] = ["lines", "pixels", "from", "to"].map(|name| case.size(name));
    let (before, after) = (case.size("before"), case.size("after"));
    let length = (before + pixels + after) * to;
    let source = case.normal::<bf16>("source", [lines, pixels, from]);
    let target = case.output::<bf16>("target", [lines, length]);
    case.launch(
        pad::<bf16>,
        grid(lines * length.div_ceil(ELEMENTS)),
        (
            &source,
            pixels as i32,
            from as i32,
            &target,
            length as i32,
            to as i32,
            before as i32,
        ),
    )?;
    let want = |[line, at]: [usize; 2]| {
        let pixel = (at / to)
            .checked_sub(before)
            .filter(|&pixel| pixel < pixels);
        let place = pixel.filter(|_| at % to < from);
        place.map_or(bf16::ZERO, |pixel| source[[line, pixel, at % to]])
    };
    case.expect(&target, want, Exactly)?;
    case.moves_bytes(2 * lines * (pixels * from + length));
    Ok(())
}
