//! Convolutions and their gradients in bf16, padded by half of the taps.

use tilekit::prelude::*;
use tilekit_kernels::convolution::{Convolutions, Options};

use super::normal::normal;
use super::timing::{Times, sets, time};

/// Images, height, width, channels, filters, taps, stride and groups of layers: ResNet-50 (its stem, its downsamplings), `UNet`, `ConvNeXt`, `MobileNet`, `ResNeXt`, a patch embedding.
const LAYERS: [[usize; 8]; 24] = [
    [32, 224, 224, 3, 64, 7, 2, 1],
    [32, 56, 56, 64, 64, 1, 1, 1],
    [32, 56, 56, 64, 64, 3, 1, 1],
    [32, 56, 56, 64, 256, 1, 1, 1],
    [32, 56, 56, 256, 128, 1, 1, 1],
    [32, 56, 56, 128, 128, 3, 2, 1],
    [32, 56, 56, 256, 512, 1, 2, 1],
    [32, 28, 28, 512, 128, 1, 1, 1],
    [32, 28, 28, 256, 256, 3, 2, 1],
    [32, 14, 14, 256, 1024, 1, 1, 1],
    [32, 14, 14, 512, 512, 3, 2, 1],
    [32, 7, 7, 512, 512, 3, 1, 1],
    [32, 7, 7, 2048, 512, 1, 1, 1],
    [8, 64, 64, 640, 320, 3, 1, 1],
    [8, 64, 64, 320, 320, 3, 2, 1],
    [8, 32, 32, 640, 1280, 1, 1, 1],
    [64, 112, 112, 64, 64, 3, 1, 64],
    [64, 112, 112, 64, 64, 3, 2, 64],
    [64, 28, 28, 192, 192, 5, 1, 192],
    [64, 56, 56, 96, 96, 7, 1, 96],
    [64, 14, 14, 384, 384, 7, 1, 384],
    [32, 56, 56, 128, 128, 3, 1, 32],
    [32, 28, 28, 512, 512, 3, 2, 32],
    [64, 224, 224, 3, 768, 16, 16, 1],
];

#[derive(Clone, Copy)]
struct Layer {
    images: usize,
    input: [usize; 2],
    output: [usize; 2],
    channels: usize,
    filters: usize,
    taps: usize,
    stride: usize,
    padding: usize,
    groups: usize,
}

impl Layer {
    fn of(
        [
            images,
            height,
            width,
            channels,
            filters,
            taps,
            stride,
            groups,
        ]: [usize; 8],
    ) -> Layer {
        // A patch embedding has no pixels in common.
        let padding = if stride == taps { 0 } else { taps / 2 };
        let output = [height, width].map(|extent| (extent + 2 * padding - taps) / stride + 1);
        Layer {
            images,
            input: [height, width],
            output,
            channels,
            filters,
            taps,
            stride,
            padding,
            groups,
        }
    }

    fn x(&self) -> [usize; 4] {
        [self.images, self.input[0], self.input[1], self.channels]
    }

    fn y(&self) -> [usize; 4] {
        [self.images, self.output[0], self.output[1], self.filters]
    }

    fn w(&self) -> [usize; 4] {
        let channels = self.channels / self.groups;
        [self.filters, self.taps, self.taps, channels]
    }

    fn flops(&self) -> f64 {
        let [filters, high, wide, channels] = self.w();
        let pixels = self.images * self.output[0] * self.output[1];
        2.0 * (pixels * filters * high * wide * channels) as f64
    }
}

struct Set {
    x: Buffer<bf16>,
    w: Buffer<bf16>,
    y: Buffer<bf16>,
}

pub(crate) fn run(device: &Device, filter: &str) {
    let convolutions = Convolutions::new(device);
    let stream = Stream::new(device).unwrap();
    for sizes in LAYERS {
        let (layer, name) = (
            Layer::of(sizes),
            sizes.map(|size| size.to_string()).join("x"),
        );
        let passes = ["forward", "gradient", "filters"];
        let names = passes.map(|pass| (format!("convolution {name} {pass}"), pass));
        let mut wanted = names.into_iter().filter(|(name, _)| name.contains(filter));
        let Some(first) = wanted.next() else { continue };
        let shapes = [layer.x(), layer.w(), layer.y()];
        let data = [0, 1, 2].map(|tensor| {
            let count = shapes[tensor].iter().product();
            normal(count, tensor as u64 + 1)
        });
        for (name, pass) in std::iter::once(first).chain(wanted) {
            time_layer(&convolutions, &stream, (&name, pass), &layer, &data);
        }
    }
}

fn time_layer(
    convolutions: &Convolutions,
    stream: &Stream,
    (name, pass): (&str, &str),
    layer: &Layer,
    data: &[Vec<bf16>; 3],
) {
    let device = stream.device();
    let elements: usize = data.iter().map(Vec::len).sum();
    let sets: Vec<Set> = (0..sets(2 * elements))
        .map(|_| {
            let [x, w, y] = [0, 1, 2].map(|of| Buffer::from_slice(device, &data[of]).unwrap());
            Set { x, w, y }
        })
        .collect();
    let options = Options {
        stride: &[layer.stride],
        padding: &[layer.padding],
        groups: layer.groups,
        ..Options::default()
    };
    let call = |set: &Set, stream: &Stream| {
        let (x, w, y) = (
            set.x.view(layer.x()),
            set.w.view(layer.w()),
            set.y.view(layer.y()),
        );
        let done = match pass {
            "forward" => convolutions.forward(stream, &x, &w, &y, &options),
            "gradient" => convolutions.image_gradient(stream, &y, &w, &x, &options),
            _ => convolutions.filter_gradient(stream, &x, &y, &w, &options),
        };
        done.unwrap();
    };
    let first = &sets[0];
    for set in &sets {
        call(set, stream);
    }
    stream.synchronize().unwrap();
    check(pass, layer, first, data);
    let (x, w, y) = (
        first.x.view(layer.x()),
        first.w.view(layer.w()),
        first.y.view(layer.y()),
    );
    let plan = match pass {
        "forward" => convolutions.plan(&x, &w, &y, &options),
        "gradient" => convolutions.plan_image_gradient(&y, &w, &x, &options),
        _ => convolutions.plan_filter_gradient(&x, &y, &w, &options),
    };
    let Times {
        single,
        back_to_back,
        host,
    } = time(device, stream, &sets, call);
    let rate = layer.flops() / back_to_back / 1e6;
    println!(
        "{name:48} single {single:8.1} us  back to back {back_to_back:8.1} us {rate:6.1} TFLOP/s  host {host:5.1} us  {}",
        plan.unwrap()
    );
}

/// Some elements of the result, against f64.
fn check(pass: &str, layer: &Layer, set: &Set, [x, w, y]: &[Vec<bf16>; 3]) {
    let (written, shape) = match pass {
        "forward" => (&set.y, layer.y()),
        "gradient" => (&set.x, layer.x()),
        _ => (&set.w, layer.w()),
    };
    let got = written.to_vec().unwrap();
    let step = (got.len() / if pass == "filters" { 23 } else { 997 }).max(1);
    for at in (0..got.len()).step_by(step | 1) {
        let mut index = [0; 4];
        let mut rest = at;
        for (index, extent) in index.iter_mut().zip(shape).rev() {
            (*index, rest) = (rest % extent, rest / extent);
        }
        let mut sum = 0.0;
        let mut magnitude = 0.0;
        each(pass, layer, index, |of_x, of_w, of_y| {
            let of = |all: &[bf16], at: usize| all[at].to_f64();
            let product = match pass {
                "forward" => of(x, of_x) * of(w, of_w),
                "gradient" => of(y, of_y) * of(w, of_w),
                _ => of(x, of_x) * of(y, of_y),
            };
            sum += product;
            magnitude += product * product;
        });
        let apart = (got[at].to_f64() - sum).abs();
        let most = 4e-3 * sum.abs() + 1e-3 * magnitude.sqrt() + 1e-6;
        assert!(
            apart < most,
            "{pass} of {shape:?}: element {index:?} is {}, not {sum}",
            got[at]
        );
    }
}

/// Calls `f` with the places in the image, the filters and the result of each product of an element.
fn each(pass: &str, layer: &Layer, index: [usize; 4], mut f: impl FnMut(usize, usize, usize)) {
    let place = |shape: [usize; 4], at: [usize; 4]| {
        let both = shape.iter().zip(at);
        both.fold(0, |all, (extent, at)| all * extent + at)
    };
    let of_group = [layer.channels, layer.filters].map(|count| count / layer.groups);
    let under = |output: usize, tap: usize, extent: usize| {
        let at = (output * layer.stride + tap).checked_sub(layer.padding)?;
        (at < extent).then_some(at)
    };
    let above = |input: usize, tap: usize, extent: usize| {
        let at = (input + layer.padding).checked_sub(tap)?;
        (at % layer.stride == 0 && at / layer.stride < extent).then(|| at / layer.stride)
    };
    let taps = || (0..layer.taps).flat_map(|i| (0..layer.taps).map(move |j| [i, j]));
    let mut product = |image: usize,
                       [row, column]: [usize; 2],
                       at: [usize; 2],
                       tap: [usize; 2],
                       channel: usize,
                       filter: usize| {
        let group = filter / of_group[1];
        f(
            place(
                layer.x(),
                [image, row, column, group * of_group[0] + channel],
            ),
            place(layer.w(), [filter, tap[0], tap[1], channel]),
            place(layer.y(), [image, at[0], at[1], filter]),
        );
    };
    match pass {
        "forward" => {
            let [image, row, column, filter] = index;
            for [i, j] in taps() {
                let place = (
                    under(row, i, layer.input[0]),
                    under(column, j, layer.input[1]),
                );
                let (Some(y), Some(x)) = place else { continue };
                for channel in 0..of_group[0] {
                    product(image, [y, x], [row, column], [i, j], channel, filter);
                }
            }
        }
        "gradient" => {
            let [image, row, column, channel] = index;
            let (group, channel) = (channel / of_group[0], channel % of_group[0]);
            for [i, j] in taps() {
                let place = (
                    above(row, i, layer.output[0]),
                    above(column, j, layer.output[1]),
                );
                let (Some(y), Some(x)) = place else { continue };
                for filter in group * of_group[1]..(group + 1) * of_group[1] {
                    product(image, [row, column], [y, x], [i, j], channel, filter);
                }
            }
        }
        _ => {
            let [filter, i, j, channel] = index;
            for image in 0..layer.images {
                for y in 0..layer.output[0] {
                    for x in 0..layer.output[1] {
                        let place = (under(y, i, layer.input[0]), under(x, j, layer.input[1]));
                        let (Some(row), Some(column)) = place else {
                            continue;
                        };
                        product(image, [row, column], [y, x], [i, j], channel, filter);
                    }
                }
            }
        }
    }
}
