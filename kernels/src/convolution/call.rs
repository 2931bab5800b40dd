//! Convolutions as a program calls them.

use std::any::TypeId;
use std::sync::Arc;

use tilekit::prelude::*;
use tilekit::{Argument, Buffer, Device};

use super::check::{Call, CallPlan, FilterCall, Loaded, UNIT};
use super::error::Result;
use super::filters::{ADDED, add_parts, adding, filter_gradient, with_added};
use super::filters_plan::FilterPlan;
use super::implicit::convolve;
use super::launch::{FilterHandles, Handles, arguments, of_walk};
use super::options::Options;
use super::pad::{ELEMENTS, pad};
use super::shape::Shape;
use super::sizes::View;
use crate::products::Products;
use crate::products::epilogue::{Epilogue, Plain};
use crate::products::factor::{Operand, ResultOf};
use crate::products::workspace::{Role, workspace};

/// An element type of images: bf16 or f16.
pub trait Pixel: Operand + ResultOf<Self> + Float {}

impl Pixel for bf16 {}
impl Pixel for f16 {}

/// Convolutions on a device, channels last: the kernels that calls have needed so far, and what each stream needs of its own.
///
/// An image is `[images, height, width, channels]`, filters are `[filters, taps along height, taps along width, channels of a group]`, and the result is `[images,
/// height, width, filters]`, all without gaps; lines have no height, and volumes a depth before it. Sums are f32, and results are rounded once. [`Options`] has strides, padding, dilation,
/// groups, and what happens to sums.
///
/// Images are loaded in im2col mode, so that nothing is stored but the result. Channels that are no multiple of 8 are copied to others of zeros first, or, where that
/// multiplies fewer zeros, such as for images of 3 channels, so that all taps of a line are channels of one. With groups, each has a multiple of 16 channels and of 8 filters. [`plan`](Convolutions::plan) says
/// all that and launches nothing.
///
/// The first call that needs a kernel compiles and loads it, and the first one of a stream that copies allocates a workspace, which waits for the device: neither may happen
/// while a graph is captured. Threads may share a stream: calls that use workspaces put their launches on it one call after the other.
///
/// ```
/// use tilekit::prelude::*;
/// use tilekit_kernels::convolution::{Convolutions, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::auto(); // a GPU where there is one, else the emulator
/// let stream = Stream::new(&device)?;
/// let convolutions = Convolutions::new(&device);
///
/// let x = Buffer::from_slice(&device, &[bf16::ONE; 5 * 6 * 16])?;
/// let filters = Buffer::from_slice(&device, &[bf16::ONE; 8 * 3 * 3 * 16])?;
/// let y = Buffer::<bf16>::zeros(&device, 5 * 6 * 8)?;
/// let options = Options { padding: &[1], ..Options::default() };
/// convolutions.forward(&stream, &x.view([1, 5, 6, 16]), &filters.view([8, 3, 3, 16]), &y.view([1, 5, 6, 8]), &options)?;
/// stream.synchronize()?;
/// let y = y.to_vec()?;
/// assert_eq!(y[0], bf16::from_f32(4.0 * 16.0)); // in a corner four taps are inside
/// assert_eq!(y[(6 + 1) * 8], bf16::from_f32(9.0 * 16.0));
/// # Ok(())
/// # }
/// ```
pub struct Convolutions {
    /// Kernels and workspaces are kept beside those of products.
    products: Products,
}

/// Lines that are copied: how many, pixels and channels of one, elements and channels of its copy, and pixels of zeros before it.
#[derive(Clone, Copy)]
struct Lines {
    count: usize,
    from: [usize; 2],
    to: [usize; 2],
    before: i64,
}

/// All of a workspace.
fn whole<T: DeviceElement>(room: &Buffer<T>) -> View<'_, T> {
    room.view([room.len()])
}

/// What begins where a tensor without gaps does.
fn begin_of<'v, T: DeviceElement>(view: &View<'v, T>) -> View<'v, T> {
    let place = view.place();
    let all = view.source().view(place.shape.as_slice());
    all.with_offset(place.offset)
}

/// Whether a tensor begins at a multiple of the elements that wide stores take.
fn begins_whole<T: DeviceElement>(view: &View<'_, T>) -> bool {
    view.place().offset.is_multiple_of(UNIT)
}

/// The image of a call, or its copy, as it is loaded.
fn image_of<'v, T: DeviceElement>(
    call: &Call,
    x: &View<'v, T>,
    copy: Option<&'v Buffer<T>>,
) -> View<'v, T> {
    let (shape, view) = (&call.shape, copy.map_or_else(|| begin_of(x), whole));
    let Loaded::Lines { channels, length } = call.loaded else {
        return shape.image(view);
    };
    let [_, high, wide] = shape.along;
    let step = call.asked.along[2].stride * channels;
    let view = view.with_shape([shape.images, high.input, wide.input, shape.channels]);
    shape.windowed(view.with_strides([high.input * length, length, step, 1]))
}

/// The filters of a call, or their copy, a tap at a time.
fn filters_of<'v, T: DeviceElement>(
    call: &Call,
    filters: &View<'v, T>,
    copy: Option<&'v Buffer<T>>,
) -> View<'v, T> {
    let shape = &call.shape;
    let (count, channels) = if call.tiled.form.is_gradient {
        (shape.channels, shape.filters)
    } else {
        (shape.filters, shape.channels)
    };
    let view = copy.map_or_else(|| begin_of(filters), whole);
    Shape::taps_of(view, [count * shape.groups, shape.taps(), channels])
}

impl Convolutions {
    /// On `device`. Nothing is compiled yet.
    pub fn new(device: &Device) -> Convolutions {
        Convolutions {
            products: Products::new(device),
        }
    }

    /// `y = activation(scales · (x convolved with filters) + bias + beta · source)`. No element of `y` is one of `x` or `filters`.
    ///
    /// # Errors
    /// [`Error::Argument`](super::Error::Argument) names what does not fit; otherwise what the device has against it.
    pub fn forward<T: Pixel>(
        &self,
        stream: &Stream,
        x: &View<'_, T>,
        filters: &View<'_, T>,
        y: &View<'_, T>,
        options: &Options<'_, T>,
    ) -> Result<()> {
        let Some(call) = Call::forward([x, filters, y], options)? else {
            return Ok(());
        };
        match options.epilogue() {
            None => self.run(stream, &call, [x, filters, y], options, Plain),
            Some(epilogue) => self.run(stream, &call, [x, filters, y], options, epilogue),
        }
    }

    /// The gradient of the image, `dx`, from that of the result, `dy`, with strides of 1: the options are those of the forward pass, without what happens to sums. Channels and filters
    /// of a group are multiples of 8, and of several groups the filters of each of 16.
    ///
    /// # Errors
    /// As for [`forward`](Convolutions::forward).
    pub fn image_gradient<T: Pixel>(
        &self,
        stream: &Stream,
        dy: &View<'_, T>,
        filters: &View<'_, T>,
        dx: &View<'_, T>,
        options: &Options<'_, T>,
    ) -> Result<()> {
        match Call::image_gradient([dy, filters, dx], options)? {
            None => Ok(()),
            Some(call) => self.run(stream, &call, [dy, filters, dx], options, Plain),
        }
    }

    /// The gradient of the filters, `dfilters`, from an image and the gradient of the result, `dy`: the options are those of the forward pass, without what happens to sums. Channels and
    /// filters of a group are multiples of 8. CTAs have some of the pixels each, and their sums are added in a fixed order, so that results have the same bits in every run.
    ///
    /// # Errors
    /// As for [`forward`](Convolutions::forward).
    pub fn filter_gradient<T: Pixel>(
        &self,
        stream: &Stream,
        x: &View<'_, T>,
        dy: &View<'_, T>,
        dfilters: &View<'_, T>,
        options: &Options<'_, T>,
    ) -> Result<()> {
        let call = FilterCall::check([x, dy, dfilters], options)?;
        let Some(FilterCall { shape, plan }) = call else {
            return Ok(());
        };
        match plan {
            Some(plan) if plan.parts == 1 && begins_whole(dfilters) => {
                self.sum_pixels(stream, (&shape, &plan), [x, dy], dfilters)
            }
            _ => self.sum_parts(stream, (&shape, plan.as_ref()), [x, dy], dfilters),
        }
    }

    /// The sums of all parts, one after the other from the beginning of `out`.
    fn sum_pixels<T: Pixel, O: Numeric + DeviceElement>(
        &self,
        stream: &Stream,
        (shape, plan): (&Shape, &FilterPlan),
        [x, dy]: [&View<'_, T>; 2],
        out: impl Argument<Ptr<O>>,
    ) -> Result<()> {
        let key = (
            TypeId::of::<(T, O)>(),
            format!("filter_gradient {}", plan.form),
        );
        let compile =
            || fixed(filter_gradient::<T, O>, plan.form).compile(self.products.compiler());
        let kernel = self
            .products
            .named_programmatic::<FilterHandles<T, O>>(key, compile)?;
        let maps = (
            shape.image(begin_of(x)),
            begin_of(dy).with_shape([shape.pixels(), shape.filters * shape.groups]),
            out,
        );
        let arguments = of_walk(shape, maps, plan.parts);
        kernel.launch(stream, grid(plan.programs), arguments)?;
        Ok(())
    }

    /// The sums of parts in a workspace, and what they add up to; zeros without a plan.
    fn sum_parts<T: Pixel>(
        &self,
        stream: &Stream,
        (shape, plan): (&Shape, Option<&FilterPlan>),
        factors: [&View<'_, T>; 2],
        dfilters: &View<'_, T>,
    ) -> Result<()> {
        let length = shape.of_filters();
        let count = plan.map_or(0, |plan| plan.parts);
        let room = count.max(1) * length;
        let _turn = stream.turn();
        let parts = workspace::<f32>(stream, Role::Result, room)?;
        if let Some(plan) = plan {
            self.sum_pixels(stream, (shape, plan), factors, &*parts)?;
        }
        let number = adding(count);
        let [elements, at_once] = ADDED[number];
        let key = (TypeId::of::<T>(), format!("add_parts {at_once}"));
        let compiler = self.products.compiler();
        let compile = || with_added!(number, T, kernel => kernel.compile(compiler));
        let kernel = self.products.named_programmatic(key, compile)?;
        let blocks = length.div_ceil(elements);
        kernel.launch(
            stream,
            grid(blocks),
            (&*parts, dfilters, count as i32, length as i32),
        )?;
        Ok(())
    }

    /// How [`filter_gradient`](Convolutions::filter_gradient) would compute it. Nothing is compiled or launched.
    ///
    /// # Errors
    /// [`Error::Argument`](super::Error::Argument) names what does not fit.
    pub fn plan_filter_gradient<T: Pixel>(
        &self,
        x: &View<'_, T>,
        dy: &View<'_, T>,
        dfilters: &View<'_, T>,
        options: &Options<'_, T>,
    ) -> Result<CallPlan> {
        let call = FilterCall::check([x, dy, dfilters], options)?;
        let plan = call.and_then(|call| call.plan);
        Ok(CallPlan {
            kernel: plan.map(|plan| plan.to_string()),
            copies: Vec::new(),
        })
    }

    /// How [`forward`](Convolutions::forward) would compute it. Nothing is compiled or launched.
    ///
    /// # Errors
    /// [`Error::Argument`](super::Error::Argument) names what does not fit.
    pub fn plan<T: Pixel>(
        &self,
        x: &View<'_, T>,
        filters: &View<'_, T>,
        y: &View<'_, T>,
        options: &Options<'_, T>,
    ) -> Result<CallPlan> {
        let call = Call::forward([x, filters, y], options)?;
        let nothing = CallPlan {
            kernel: None,
            copies: Vec::new(),
        };
        Ok(call.map_or(nothing, |call| call.plan()))
    }

    fn run<T: Pixel, E: Epilogue<T>>(
        &self,
        stream: &Stream,
        call: &Call,
        [x, filters, y]: [&View<'_, T>; 3],
        options: &Options<'_, T>,
        epilogue: E,
    ) -> Result<()> {
        let shape = &call.shape;
        let _turn = stream.turn();
        let copies = self.copied(stream, call, [x, filters])?;
        let out = result::<T>(stream, call)?;
        let [of_x, of_y] = [0, 1].map(|side| copies.as_ref().map(|copies| &*copies[side]));
        let image = image_of(call, x, of_x);
        let of_filters = filters_of(call, filters, of_y);
        let result = match &out {
            None => shape.result(begin_of(y), shape.filters),
            Some(room) => shape.result(whole(room), shape.filters.next_multiple_of(UNIT)),
        };
        let source = options.source.unwrap_or(y);
        let nothing = workspace::<f32>(stream, Role::Nothing, 1)?;
        let form = call.tiled.form;
        let key = (
            TypeId::of::<(T, E)>(),
            format!("convolve {} {}", form.with(Plain), epilogue.name()),
        );
        let compile = || {
            let form = form.with(epilogue);
            fixed(convolve::<T, T, E>, form).compile(self.products.compiler())
        };
        let kernel = self.products.named::<Handles<T>>(key, compile)?;
        let numbers = (
            options.beta,
            source,
            options.bias.unwrap_or(y.source()),
            options.scales.unwrap_or(&nothing),
        );
        let arguments = arguments(shape, (&image, &of_filters, &result), numbers);
        kernel.launch(stream, grid(call.tiled.programs), arguments)?;
        match &out {
            None => Ok(()),
            Some(room) => {
                let filters = call.asked.filters;
                let pixels = shape.along[2].output;
                let lines = Lines {
                    count: shape.pixels() / pixels,
                    from: [pixels, filters.next_multiple_of(UNIT)],
                    to: [pixels * filters, filters],
                    before: 0,
                };
                self.pad(stream, &whole(room), y, lines)
            }
        }
    }

    /// A copy of a call's image and filters, if it takes one.
    fn copied<T: Pixel>(
        &self,
        stream: &Stream,
        call: &Call,
        [x, filters]: [&View<'_, T>; 2],
    ) -> Result<Option<[Arc<Buffer<T>>; 2]>> {
        let (asked, taken) = (&call.asked, call.shape.channels);
        let [deep, high, wide] = asked.along;
        let [lines, rows] = [
            asked.images * deep.input * high.input,
            asked.filters * deep.taps * high.taps,
        ];
        let (of_image, of_filters) = match call.loaded {
            Loaded::InPlace => return Ok(None),
            Loaded::Padded => ([wide.input * taken, taken], [wide.taps * taken, taken]),
            Loaded::Lines { channels, length } => {
                ([length, channels], [taken.next_multiple_of(UNIT), channels])
            }
        };
        let before = match call.loaded {
            Loaded::Lines { .. } => -wide.lower,
            Loaded::InPlace | Loaded::Padded => 0,
        };
        let copy = |role, view, lines: Lines| -> Result<Arc<Buffer<T>>> {
            let room = workspace::<T>(stream, role, lines.count * lines.to[0])?;
            self.pad(stream, view, &whole(&room), lines)?;
            Ok(room)
        };
        let image = Lines {
            count: lines,
            from: [wide.input, asked.channels],
            to: of_image,
            before,
        };
        let of_filter = Lines {
            count: rows,
            from: [wide.taps, asked.channels],
            to: of_filters,
            before: 0,
        };
        Ok(Some([
            copy(Role::X, x, image)?,
            copy(Role::Y, filters, of_filter)?,
        ]))
    }

    /// Copies lines.
    fn pad<T: Pixel>(
        &self,
        stream: &Stream,
        from: &View<'_, T>,
        to: &View<'_, T>,
        lines: Lines,
    ) -> Result<()> {
        let key = (TypeId::of::<T>(), "pad".to_owned());
        let compile = || pad::<T>.compile(self.products.compiler());
        let kernel = self.products.named(key, compile)?;
        let [pixels, channels] = lines.from.map(|count| count as i32);
        let [length, to_channels] = lines.to.map(|count| count as i32);
        let blocks = lines.to[0].div_ceil(ELEMENTS);
        kernel.launch(
            stream,
            grid(lines.count * blocks),
            (
                from,
                pixels,
                channels,
                to,
                length,
                to_channels,
                lines.before as i32,
            ),
        )?;
        Ok(())
    }
}

/// Where a result is stored before it is copied, if it is.
fn result<T: Pixel>(stream: &Stream, call: &Call) -> Result<Option<Arc<Buffer<T>>>> {
    if !call.is_copied_back {
        return Ok(None);
    }
    // Where a source is the result itself, it is read from where it lies.
    let elements = call.shape.pixels() * call.shape.filters.next_multiple_of(UNIT);
    let room = workspace::<T>(stream, Role::Result, elements)?;
    Ok(Some(room))
}
