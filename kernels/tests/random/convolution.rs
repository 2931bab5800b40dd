//! Convolutions of images and their gradients, of random sizes and options.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit_kernels::convolution::{Activation, Convolutions, Options, Pixel, Result};

use crate::broken::{Broken, Views, refused};
use crate::calls::{device, each, is_on_gpu};
use crate::near::{Within, exact};
use crate::numbers::{Number, factors, small};
use crate::products::activate;

/// What a call computes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Forward,
    ImageGradient,
    FilterGradient,
}

/// A dimension of images.
#[derive(Clone, Copy, Debug)]
struct Along {
    input: usize,
    taps: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
}

impl Along {
    fn any() -> impl Strategy<Value = Along> {
        let stride = prop_oneof![6 => Just(1_usize), 2 => 2..5_usize, 1 => 5..13_usize];
        let dilation = prop_oneof![3 => Just(1_usize), 1 => 2..4_usize];
        let sizes = (
            1..24_usize,
            prop_oneof![1 => Just(1_usize), 2 => 2..6_usize],
        );
        (sizes, stride, 0..4_usize, dilation).prop_map(
            |((input, taps), stride, padding, dilation)| {
                let reach = (taps - 1) * dilation + 1;
                Along {
                    // Filters lie within the padded image.
                    input: input.max(reach.saturating_sub(2 * padding)).max(1),
                    taps,
                    stride,
                    padding,
                    dilation,
                }
            },
        )
    }

    fn output(&self) -> usize {
        (self.input + 2 * self.padding - (self.taps - 1) * self.dilation - 1) / self.stride + 1
    }

    /// The input pixel of an output pixel and a tap, if there is one.
    fn under(&self, output: usize, tap: usize) -> Option<usize> {
        let pixel = (output * self.stride + tap * self.dilation).checked_sub(self.padding)?;
        (pixel < self.input).then_some(pixel)
    }
}

/// What happens to sums.
#[derive(Clone, Copy, Debug)]
struct Extras {
    has_scales: bool,
    has_bias: bool,
    beta: f32,
    has_source: bool,
    activation: Activation,
}

impl Extras {
    fn any() -> impl Strategy<Value = Extras> {
        let beta = prop_oneof![Just(0.0), Just(1.0), Just(-0.5)];
        let activation = prop_oneof![
            2 => Just(Activation::None),
            1 => Just(Activation::Relu),
            1 => Just(Activation::Gelu),
            1 => Just(Activation::Silu),
        ];
        let flags = (any::<[bool; 3]>(), beta, activation);
        flags.prop_map(
            |([has_scales, has_bias, has_source], beta, activation)| Extras {
                has_scales,
                has_bias,
                beta,
                has_source,
                activation,
            },
        )
    }
}

/// A call.
#[derive(Clone, Debug)]
struct Call {
    kind: Kind,
    images: usize,
    along: Vec<Along>,
    groups: usize,
    /// Channels and filters of a group.
    channels: usize,
    filters: usize,
    extras: Option<Extras>,
    /// Elements in front of image, filters, result and source.
    offsets: [usize; 4],
}

impl Call {
    fn any() -> impl Strategy<Value = Call> {
        let products = if is_on_gpu() { 1 << 25 } else { 1 << 20 };
        let kind = prop_oneof![2 => Just(Kind::Forward), 1 => Just(Kind::ImageGradient), 1 => Just(Kind::FilterGradient)];
        let spatial = prop_oneof![1 => Just(1_usize), 3 => Just(2), 1 => Just(3)];
        let along = spatial.prop_flat_map(|count| proptest::collection::vec(Along::any(), count));
        let count =
            || prop_oneof![1 => 1..80_usize, 1 => (1..20_usize).prop_map(|eights| 8 * eights)];
        // Groups of as many channels as there are without, small ones, and those of one channel and filter.
        let groups = prop_oneof![
            6 => (Just(1_usize), count(), count()),
            2 => (2..4_usize, count(), count()),
            2 => (2..40_usize, 1..6_usize, 1..6_usize),
            1 => (2..80_usize, Just(1_usize), Just(1_usize)),
            1 => ((1..10_usize).prop_map(|eights| 8 * eights), Just(1_usize), Just(1_usize)),
        ];
        let offset = || prop_oneof![3 => Just(0_usize), 1 => Just(8_usize), 1 => 1..20_usize];
        let sizes = (1..4_usize, along, groups);
        let offsets = [offset(), offset(), offset(), offset()];
        let call = (kind, sizes, proptest::option::of(Extras::any()), offsets);
        let call = call.prop_map(
            |(kind, (images, along, (groups, channels, filters)), extras, offsets)| {
                Call {
                    kind,
                    images,
                    along,
                    groups,
                    channels,
                    filters,
                    // Gradients have their sums alone.
                    extras: extras.filter(|_| kind == Kind::Forward),
                    offsets,
                }
            },
        );
        call.prop_filter("too long on the host", move |call| {
            let taps: usize = call.along.iter().map(|along| along.taps).product();
            call.pixels() * taps * call.groups * call.channels * call.filters <= products
        })
    }

    fn shape(&self, pixels: fn(&Along) -> usize, channels: usize) -> Vec<usize> {
        let ends = [self.images, channels * self.groups];
        let mut shape = vec![ends[0]];
        shape.extend(self.along.iter().map(pixels));
        shape.push(ends[1]);
        shape
    }

    /// The shapes of image, filters, result and source.
    fn shapes(&self) -> [Vec<usize>; 4] {
        let mut filters = vec![self.filters * self.groups];
        filters.extend(self.along.iter().map(|along| along.taps));
        filters.push(self.channels);
        let result = self.shape(Along::output, self.filters);
        [
            self.shape(|along| along.input, self.channels),
            filters,
            result.clone(),
            result,
        ]
    }

    /// Output pixels of all images.
    fn pixels(&self) -> usize {
        self.images * self.along.iter().map(Along::output).product::<usize>()
    }

    /// Calls `f` with the places of an element of the image, of the filters and of the result, for each product.
    fn each(&self, mut f: impl FnMut([usize; 3])) {
        let taps: usize = self.along.iter().map(|along| along.taps).product();
        let of_image = self.pixels() / self.images;
        for pixel in 0..self.pixels() {
            for tap in 0..taps {
                let Some(under) = self.under(pixel % of_image, tap) else {
                    continue;
                };
                let inputs: usize = self.along.iter().map(|along| along.input).product();
                let under = pixel / of_image * inputs + under;
                for filter in 0..self.filters * self.groups {
                    let first = filter / self.filters * self.channels;
                    for channel in 0..self.channels {
                        f([
                            under * self.channels * self.groups + first + channel,
                            (filter * taps + tap) * self.channels + channel,
                            pixel * self.filters * self.groups + filter,
                        ]);
                    }
                }
            }
        }
    }

    /// The number of the input pixel under a tap.
    fn under(&self, mut output: usize, mut tap: usize) -> Option<usize> {
        let (mut pixel, mut stride) = (0, 1);
        for along in self.along.iter().rev() {
            pixel += stride * along.under(output % along.output(), tap % along.taps)?;
            stride *= along.input;
            output /= along.output();
            tap /= along.taps;
        }
        Some(pixel)
    }
}

/// The tensors of a call: image, filters, result and source.
struct Problem<T> {
    call: Call,
    tensors: [Buffer<T>; 4],
    scales: Vec<f32>,
    bias: Vec<T>,
}

impl<T: Pixel + Number> Problem<T> {
    fn new(device: &Device, call: Call) -> Problem<T> {
        let shapes = call.shapes();
        let tensor = |at: usize| {
            let count = call.offsets[at] + shapes[at].iter().product::<usize>() + 3;
            Buffer::from_slice(device, &small(count, at as u64 + 1)).unwrap()
        };
        let filters = call.filters * call.groups;
        Problem {
            tensors: [0, 1, 2, 3].map(tensor),
            scales: factors(filters, 6),
            bias: small(filters, 7),
            call,
        }
    }

    /// Which tensor is computed.
    fn target(&self) -> usize {
        match self.call.kind {
            Kind::Forward => 2,
            Kind::ImageGradient => 0,
            Kind::FilterGradient => 1,
        }
    }

    /// With a view of image, filters or result broken.
    fn run(
        &self,
        convolutions: &Convolutions,
        device: &Device,
        broken: Option<Broken>,
    ) -> Result<()> {
        let views = Views {
            broken,
            count: 3,
            // All are without gaps.
            results: 0..3,
            // As many pixels may be those of other strides.
            is_fixed: |dimension, rank| dimension == 0 || dimension + 1 == rank,
        };
        let shapes = self.call.shapes();
        let [x, filters, y, source] = [0, 1, 2, 3].map(|at| {
            let view = self.tensors[at].view(&*shapes[at]);
            views.view(at, &view.with_offset(self.call.offsets[at]))
        });
        let lists = [
            |along: &Along| along.stride,
            |along: &Along| along.padding,
            |along: &Along| along.dilation,
        ];
        let [stride, padding, dilation] =
            lists.map(|of| self.call.along.iter().map(of).collect::<Vec<_>>());
        let scales = Buffer::from_slice(device, &self.scales).unwrap();
        let bias = Buffer::from_slice(device, &self.bias).unwrap();
        let mut options = Options {
            stride: &stride,
            padding: &padding,
            dilation: &dilation,
            groups: self.call.groups,
            ..Options::default()
        };
        if let Some(extras) = self.call.extras {
            options.scales = extras.has_scales.then_some(&scales);
            options.bias = extras.has_bias.then_some(&bias);
            options.beta = extras.beta;
            options.source = extras.has_source.then_some(&source);
            options.activation = extras.activation;
        }
        let stream = Stream::new(device).unwrap();
        match self.call.kind {
            Kind::Forward => convolutions.forward(&stream, &x, &filters, &y, &options),
            Kind::ImageGradient => convolutions.image_gradient(&stream, &y, &filters, &x, &options),
            Kind::FilterGradient => {
                convolutions.filter_gradient(&stream, &x, &y, &filters, &options)
            }
        }?;
        stream.synchronize()?;
        Ok(())
    }

    fn numbers(&self, at: usize) -> Vec<f64> {
        self.tensors[at]
            .to_vec()
            .unwrap()
            .into_iter()
            .map(Number::back)
            .collect()
    }

    /// Elements of the buffer of what is computed, with their errors before they are rounded.
    fn wanted(&self, before: &[f64]) -> Within {
        let [x, filters, y, source] = [0, 1, 2, 3].map(|at| self.numbers(at));
        let (offsets, target) = (self.call.offsets, self.target());
        let count = self.call.shapes()[target].iter().product();
        let mut sums = vec![0.0; count];
        let (a, b) = [(1, 2), (0, 2), (0, 1)][target];
        let tensors = [&x, &filters, &y];
        self.call.each(|places| {
            let element = |at: usize| tensors[at][offsets[at] + places[at]];
            sums[places[target]] += element(a) * element(b);
        });
        let mut wanted = vec![None; before.len()];
        for (at, sum) in sums.into_iter().enumerate() {
            let filter = at % (self.call.filters * self.call.groups);
            let place = offsets[target] + at;
            let of_source = |extras: Extras| {
                if extras.has_source {
                    source[offsets[3] + at]
                } else {
                    before[place]
                }
            };
            let result = self.call.extras.map_or((sum, 0.0), |extras| {
                let scale = if extras.has_scales {
                    f64::from(self.scales[filter])
                } else {
                    1.0
                };
                let bias = if extras.has_bias {
                    self.bias[filter].back()
                } else {
                    0.0
                };
                let all = scale * sum + bias + f64::from(extras.beta) * of_source(extras);
                activate(extras.activation, all)
            });
            wanted[place] = Some((result.0, result.1 + 1e-6 * sum.abs()));
        }
        wanted
    }
}

fn check<T: Pixel + Number>() {
    let device = device();
    let convolutions = Convolutions::new(&device);
    each(12, &Call::any(), |call| {
        let problem = Problem::<T>::new(&device, call);
        let before = problem.numbers(problem.target());
        let wanted = problem.wanted(&before);
        problem.run(&convolutions, &device, None).unwrap();
        exact(
            "result",
            &problem.numbers(problem.target()),
            &wanted,
            &before,
            T::ROUNDING,
        );
    });
}

#[test]
fn of_bf16() {
    check::<bf16>();
}

#[test]
fn of_f16() {
    check::<f16>();
}

#[test]
fn broken() {
    let device = device();
    let convolutions = Convolutions::new(&device);
    each(40, &(Call::any(), Broken::any()), |(call, broken)| {
        let problem = Problem::<bf16>::new(&device, call);
        let target = problem.target();
        let before = problem.numbers(target);
        let result = problem.run(&convolutions, &device, Some(broken));
        refused(result, &[[before, problem.numbers(target)]]);
    });
}
