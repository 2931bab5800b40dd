//! Cases of gradients of filters, against f64.

use tilekit::prelude::*;

use super::cases::shape_of;
use super::filters::{FEW_PARTS, MANY_PARTS, add_parts, adding, filter_gradient};
use super::filters_plan::FilterPlan;
use super::launch::of_walk;
use super::shape::{Along, Shape};
use crate::products::factor::{Operand, ResultOf};

/// The sum over all pixels of one element of the gradient, in f64.
fn sum<T: Operand>(shape: &Shape, image: &Input<T>, gradient: &Input<T>, place: [usize; 3]) -> f64 {
    let [filter, tap, channel] = place;
    let [deep, high, wide] = shape.along;
    let (line, k) = (tap / wide.taps, tap % wide.taps);
    let (i, j) = (line / high.taps, line % high.taps);
    let under = |along: Along, output: usize, tap: usize| {
        let at = (output * along.stride + tap * along.dilation) as i64 + along.lower;
        usize::try_from(at).ok().filter(|&at| at < along.input)
    };
    let group = filter / shape.filters;
    let product = |pixel: usize| {
        let (line, column) = (pixel / wide.output, pixel % wide.output);
        let (plane, row) = (line / high.output, line % high.output);
        let (index, plane) = (plane / deep.output, plane % deep.output);
        let plane = under(deep, plane, i)?;
        let (row, column) = (under(high, row, j)?, under(wide, column, k)?);
        let at = ((index * deep.input + plane) * high.input + row) * wide.input + column;
        let x = image[[at, group * shape.channels + channel]];
        let dy = gradient[[pixel, filter]];
        Some(x.number().to_f64() * dy.number().to_f64())
    };
    (0..shape.pixels()).filter_map(product).sum()
}

/// By the tile of that number, or the plan's if it is 0.
fn gradient_of_filters<T: Operand + ResultOf<T> + Float>(case: &mut Case) -> CaseResult {
    let shape = shape_of(case);
    let plan = match case.size("tile") {
        0 => FilterPlan::best(&shape),
        number => FilterPlan::all(&shape).into_iter().nth(number - 1),
    };
    let plan = plan.expect("im2col maps reach the pixels of a case");
    let of_image: usize = shape.along.iter().map(|along| along.input).product();
    let [channels, filters] = [shape.channels, shape.filters].map(|count| count * shape.groups);
    let image = case.normal::<T>("image", [shape.images * of_image, channels]);
    let gradient = case.normal::<T>("gradient", [shape.pixels(), filters]);
    let length = filters * shape.taps() * shape.channels;
    let parts = case.output::<f32>("parts", [plan.parts, length]);
    let out = case.output::<T>("out", [filters, shape.taps(), shape.channels]);
    let maps = (shape.image(image.view()), gradient.view(), &parts);
    case.launch(
        fixed(filter_gradient::<T>, plan.form),
        grid(plan.programs),
        of_walk(&shape, maps, plan.parts),
    )?;
    let [elements, at_once] = adding(plan.parts);
    let grid = grid(length.div_ceil(elements));
    let arguments = (&parts, &out, plan.parts as i32, length as i32);
    if at_once == MANY_PARTS[1] {
        case.launch(
            add_parts::<T, { MANY_PARTS[0] }, { MANY_PARTS[1] }>,
            grid,
            arguments,
        )?;
    } else {
        case.launch(
            add_parts::<T, { FEW_PARTS[0] }, { FEW_PARTS[1] }>,
            grid,
            arguments,
        )?;
    }
    let tolerance = Close {
        relative: 4e-3,
        absolute: 1e-4 * (shape.pixels() as f64).sqrt(),
    };
    let want = |place: [usize; 3]| sum(&shape, &image, &gradient, place);
    case.expect(&out, want, tolerance)?;
    case.does_tensor_flops::<T>(shape.flops());
    Ok(())
}

#[case(sizes(
    images = [2, 3, 1, 2, 3, 1, 1],
    depth = [1, 1, 1, 1, 1, 1, 1],
    height = [9, 8, 11, 7, 6, 30, 50],
    width = [7, 9, 10, 8, 11, 31, 46],
    channels = [264, 136, 72, 16, 64, 8, 8],
    filters = [136, 72, 200, 56, 8, 8, 8],
    groups = [1, 1, 1, 2, 1, 1, 1],
    taps = [1, 3, 2, 3, 3, 5, 1],
    taps_width = [1, 1, 3, 3, 3, 5, 1],
    stride = [1, 2, 1, 1, 2, 3, 1],
    padding = [0, 1, 2, 1, 1, 2, 0],
    dilation = [1, 1, 2, 1, 1, 1, 1],
    tile = [1, 2, 3, 4, 1, 0, 0]
))]
fn filter_gradient_bf16(case: &mut Case) -> CaseResult {
    gradient_of_filters::<bf16>(case)
}

#[case(sizes(
    images = [1, 1],
    depth = [3, 1],
    height = [4, 1],
    width = [5, 100],
    channels = [24, 64],
    filters = [16, 40],
    groups = [1, 1],
    taps = [2, 1],
    taps_width = [3, 3],
    stride = [1, 1],
    padding = [1, 0],
    dilation = [1, 4],
    tile = [0, 1]
))]
fn filter_gradient_f16(case: &mut Case) -> CaseResult {
    gradient_of_filters::<f16>(case)
}
