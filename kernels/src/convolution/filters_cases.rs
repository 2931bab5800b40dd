//! Cases of gradients of filters, against f64.

use tilekit::prelude::*;
use tilekit::reference::{Matrix, product};

use super::cases::shape_of;
use super::filters::{
    ADDED, GATHERED, add_parts, adding, filter_gradient, gather_parts, with_added,
};
use super::filters_plan::FilterPlan;
use super::launch::of_walk;
use super::shape::{Along, Shape};
use crate::products::factor::{Operand, ResultOf};

/// The row of the image under a tap of the filters at a pixel of the result, if there is one.
pub(super) fn under(shape: &Shape, pixel: usize, tap: usize) -> Option<usize> {
    let [deep, high, wide] = shape.along;
    let (line, k) = (tap / wide.taps, tap % wide.taps);
    let (i, j) = (line / high.taps, line % high.taps);
    let under = |along: Along, output: usize, tap: usize| {
        let at = (output * along.stride + tap * along.dilation) as i64 + along.lower;
        usize::try_from(at).ok().filter(|&at| at < along.input)
    };
    let (line, column) = (pixel / wide.output, pixel % wide.output);
    let (plane, row) = (line / high.output, line % high.output);
    let (index, plane) = (plane / deep.output, plane % deep.output);
    let plane = under(deep, plane, i)?;
    let (row, column) = (under(high, row, j)?, under(wide, column, k)?);
    Some(((index * deep.input + plane) * high.input + row) * wide.input + column)
}

/// The gradient in f64: each element is a sum over all pixels.
fn sums<T: Operand>(shape: &Shape, image: &Input<T>, gradient: &Input<T>) -> Vec<f64> {
    let numbers = |x: &Input<T>| -> Vec<f64> {
        let elements = x.host().iter();
        elements.map(|x| x.number().to_f64()).collect()
    };
    let (image, gradient) = (numbers(image), numbers(gradient));
    let Shape {
        channels,
        filters,
        groups,
        ..
    } = *shape;
    let (pixels, taps) = (shape.pixels(), shape.taps());
    let mut sums = vec![0.0; groups * filters * taps * channels];
    for (tap, group) in (0..taps).flat_map(|tap| (0..groups).map(move |group| (tap, group))) {
        let mut rows = vec![0.0; pixels * channels];
        for (pixel, row) in rows.chunks_mut(channels).enumerate() {
            if let Some(at) = under(shape, pixel, tap) {
                let first = (at * groups + group) * channels;
                row.copy_from_slice(&image[first..first + channels]);
            }
        }
        let gradient = Matrix::rows(&gradient[group * filters..], groups * filters);
        let size = [filters, channels, pixels];
        let products = product(size, gradient.transposed(), Matrix::rows(&rows, channels));
        for (filter, row) in products.chunks(channels).enumerate() {
            let first = ((group * filters + filter) * taps + tap) * channels;
            sums[first..first + channels].copy_from_slice(row);
        }
    }
    sums
}

/// Adds parts of so many elements.
fn add<T: Operand + ResultOf<T, Addend = T> + Float>(
    case: &mut Case,
    (parts, out): (&Output<f32>, &Output<T>),
    [count, length]: [i32; 2],
) -> CaseResult {
    let number = adding(count as usize);
    let grid = grid((length as usize).div_ceil(ADDED[number][0]));
    let arguments = (parts, out, count, length);
    with_added!(number, T, kernel => case.launch_programmatic(kernel, grid, arguments))
}

/// By the tile of that number, or the plan's if it is 0, and as many parts.
fn gradient_of_filters<T: Operand + ResultOf<T, Addend = T> + Float>(
    case: &mut Case,
) -> CaseResult {
    let shape = shape_of(case);
    let plan = match case.size("tile") {
        0 => FilterPlan::best(&shape),
        number => FilterPlan::all(&shape).into_iter().nth(number - 1),
    };
    let plan = plan.expect("im2col maps reach the pixels of a case");
    let plan = match case.size("parts") {
        0 => plan,
        parts => plan.divided_by(parts),
    };
    let of_image: usize = shape.along.iter().map(|along| along.input).product();
    let [channels, filters] = [shape.channels, shape.filters].map(|count| count * shape.groups);
    let image = case.normal::<T>("image", [shape.images * of_image, channels]);
    let gradient = case.normal::<T>("gradient", [shape.pixels(), filters]);
    let out = case.output::<T>("out", [filters, shape.taps(), shape.channels]);
    let maps = (shape.image(image.view()), gradient.view());
    if plan.parts == 1 {
        case.launch_programmatic(
            fixed(filter_gradient::<T, T>, plan.form),
            grid(plan.programs),
            of_walk(&shape, (maps.0, maps.1, &out), 1),
        )?;
    } else {
        let length = filters * shape.taps() * shape.channels;
        let parts = case.output::<f32>("parts", [plan.parts, length]);
        case.launch_programmatic(
            fixed(filter_gradient::<T, f32>, plan.form),
            grid(plan.programs),
            of_walk(&shape, (maps.0, maps.1, &parts), plan.parts),
        )?;
        let numbers = [plan.parts, length].map(|number| number as i32);
        add(case, (&parts, &out), numbers)?;
    }
    let tolerance = Close {
        relative: 4e-3,
        absolute: 1e-4 * (shape.pixels() as f64).sqrt(),
    };
    case.expect_all(&out, || sums(&shape, &image, &gradient), tolerance)?;
    case.does_tensor_flops::<T>(shape.flops());
    Ok(())
}

/// Every tile with several parts and with one, and each way to add them.
#[case(sizes(
    images = [3, 2, 1, 4, 3, 1, 1, 1, 1, 1, 1, 1, 2, 3, 1, 1, 2, 2, 1],
    depth = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    height = [8, 9, 11, 7, 6, 30, 50, 66, 20, 7, 9, 9, 6, 6, 5, 8, 5, 7, 3],
    width = [9, 7, 10, 8, 11, 31, 46, 64, 20, 9, 7, 8, 6, 11, 9, 8, 5, 7, 5],
    channels = [136, 264, 72, 16, 64, 8, 8, 24, 72, 136, 264, 72, 72, 64, 72, 136, 72, 64, 8],
    filters = [200, 136, 200, 56, 8, 8, 8, 8, 64, 200, 136, 136, 136, 8, 72, 24, 136, 64, 16],
    groups = [1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1],
    taps = [3, 1, 2, 3, 3, 5, 1, 1, 1, 3, 1, 3, 3, 3, 3, 1, 3, 3, 1],
    taps_width = [1, 1, 3, 3, 3, 5, 1, 1, 3, 2, 1, 3, 2, 3, 3, 1, 3, 3, 1],
    stride = [2, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 2, 1, 2, 1, 1, 1, 1, 1],
    padding = [1, 0, 2, 1, 1, 2, 0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 0],
    dilation = [1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    tile = [1, 2, 3, 4, 5, 6, 7, 8, 7, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0],
    parts = [2, 2, 3, 4, 3, 2, 36, 66, 7, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]
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
    tile = [0, 1],
    parts = [0, 1]
))]
fn filter_gradient_f16(case: &mut Case) -> CaseResult {
    gradient_of_filters::<f16>(case)
}

/// Sums of filters of groups that were merged, with more channels than are asked for, and lines of taps behind each other with some elements between them.
fn gathered_parts_of<P: DeviceElement + Float>(case: &mut Case) -> CaseResult {
    let [
        count,
        groups,
        filters,
        lines,
        taps,
        channels,
        merged,
        pitch,
        between,
    ] = [
        "count", "groups", "filters", "lines", "taps", "channels", "merged", "pitch", "between",
    ]
    .map(|name| case.size(name));
    let of_line = taps * pitch + between;
    let of_filter = lines * of_line;
    let all = groups * filters;
    let parts = case.normal::<P>("parts", [count, all, of_filter]);
    let out = case.output::<bf16>("out", [all, lines, taps, channels]);
    let length = all * lines * taps * channels;
    let [
        channels_of,
        taps_of,
        lines_of,
        of_filter_of,
        of_line_of,
        pitch_of,
        of_group,
        merged_of,
    ] = [
        channels, taps, lines, of_filter, of_line, pitch, filters, merged,
    ]
    .map(|number| number as i32);
    case.launch_programmatic(
        gather_parts::<bf16, P>,
        grid(length.div_ceil(GATHERED)),
        (
            &parts,
            &out,
            count as i32,
            (all * of_filter) as i64,
            length as i32,
            channels_of,
            taps_of,
            lines_of,
            of_filter_of,
            of_line_of,
            pitch_of,
            of_group,
            merged_of,
        ),
    )?;
    let want = |[filter, line, tap, channel]: [usize; 4]| {
        let first = filter / filters % merged * channels;
        let at = line * of_line + tap * pitch + first + channel;
        let sums = (0..count).map(|part| parts[[part, filter, at]].number().to_f64());
        sums.sum::<f64>()
    };
    let tolerance = Close {
        relative: 4e-3,
        absolute: 1e-6,
    };
    case.expect(&out, want, tolerance)?;
    case.moves_bytes(4 * count * all * of_filter + 2 * length);
    Ok(())
}

macro_rules! gathered_parts {
    ($($name:ident: $element:ty;)*) => {$(
        #[case(sizes(count = [3, 1], groups = [4, 1], filters = [2, 5], lines = [3, 2], taps = [2, 3], channels = [3, 5], merged = [2, 1], pitch = [8, 8], between = [0, 4]))]
        fn $name(case: &mut Case) -> CaseResult {
            gathered_parts_of::<$element>(case)
        }
    )*};
}

gathered_parts! {
    gathered_parts_f32: f32;
    gathered_parts_bf16: bf16;
}
