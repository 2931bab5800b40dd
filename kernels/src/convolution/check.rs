//! Checks of a call, and what follows from them.

use std::fmt;

use tilekit::Buffer;
use tilekit::prelude::*;

use super::error::{Result, expect};
use super::filters::ADDED;
use super::filters_plan::FilterPlan;
use super::options::Options;
use super::pad::ELEMENTS;
use super::plan::Tiled;
use super::reach::Reach;
use super::shape::{Along, Shape};
use super::sizes::{Sizes, View, dense, same};
use crate::overlap::{Elements, Overlap, is_same_view};
use crate::products::factor::UNIT_BYTES;

/// Elements of which a map wants the channels of a pixel to be a multiple, in 16 bits.
pub(super) const UNIT: usize = UNIT_BYTES / 2;

/// The most pixels, so that indices fit 32 bits.
const MOST_PIXELS: usize = 1 << 30;

/// How an image gets to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loaded {
    /// From where it lies.
    InPlace,
    /// From a copy whose pixels have more channels, of zeros.
    Padded,
    /// From a copy whose lines have the padding, so that all taps of a line are channels of one: pixels of so many channels, in lines of so many elements.
    Lines { channels: usize, length: usize },
}

/// A call that has been checked.
pub(super) struct Call {
    /// What a program asked for.
    pub(super) asked: Shape,
    /// What is computed: by which image and channels.
    pub(super) shape: Shape,
    pub(super) loaded: Loaded,
    /// The result goes through a workspace: its pixels are not multiples of 16 bytes.
    pub(super) is_copied_back: bool,
    pub(super) tiled: Tiled,
}

/// How a call computes its convolution.
#[derive(Clone, Debug, PartialEq)]
pub struct CallPlan {
    /// The kernel's tile and its CTAs; none where there is nothing to compute.
    pub kernel: Option<String>,
    /// What is copied, and why.
    pub copies: Vec<String>,
}

impl fmt::Display for CallPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kernel {
            Some(kernel) => write!(f, "{kernel}")?,
            None => write!(f, "nothing")?,
        }
        self.copies
            .iter()
            .try_for_each(|copy| write!(f, "; {copy}"))
    }
}

/// Numbers of each filter.
fn check_numbers<T: DeviceElement>(options: &Options<'_, T>, filters: usize) -> Result<()> {
    let lengths = [
        ("options.scales", options.scales.map(Buffer::len)),
        ("options.bias", options.bias.map(Buffer::len)),
    ];
    for (name, found) in lengths {
        let found = found.unwrap_or(filters);
        expect(
            found == filters,
            name,
            || format!("{found} numbers"),
            format!("{filters}: one for each filter"),
        )?;
    }
    Ok(())
}

/// The channels of a pixel in lines whose pixels begin, a stride apart, at multiples of 16 bytes.
fn in_lines(shape: &Shape) -> Option<(Shape, Loaded)> {
    let [_, _, wide] = shape.along;
    let fits = shape.groups == 1 && !shape.has_depth && wide.dilation == 1;
    let channels = shape
        .channels
        .next_multiple_of(UNIT / gcd(wide.stride, UNIT));
    let pixels = (wide.output - 1) * wide.stride + wide.taps;
    let lines = Along {
        input: wide.output,
        taps: 1,
        stride: 1,
        lower: 0,
        ..wide
    };
    let shape = Shape {
        channels: wide.taps * channels,
        along: [Along::NONE, shape.along[1], lines],
        ..*shape
    };
    let length = (pixels * channels).next_multiple_of(UNIT);
    fits.then_some((shape, Loaded::Lines { channels, length }))
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A gradient has nothing beside its sums.
fn has_sums_alone<T: DeviceElement>(options: &Options<'_, T>) -> Result<()> {
    expect(
        options.epilogue().is_none(),
        "options",
        || "scales, bias, a source or an activation".to_owned(),
        "none of them: a gradient has its sums alone",
    )
}

/// No element of a result is one of what is read while it is written.
fn are_apart<T: DeviceElement>(
    (name, result): (&'static str, &View<'_, T>),
    read: [(&str, &View<'_, T>); 2],
) -> Result<()> {
    let elements = Elements::of(result);
    for (other, view) in read {
        expect(
            elements.overlap(&Elements::of(view)) == Overlap::None,
            name,
            || format!("elements of `{other}`"),
            "memory of its own",
        )?;
    }
    Ok(())
}

/// No element of `y` is one of the numbers of filters, which other threads read while it is written.
fn are_numbers_apart<T: DeviceElement>(options: &Options<'_, T>, y: &View<'_, T>) -> Result<()> {
    let scales = options.scales;
    let scales = scales.map(|scales| Elements::bytes_of(&scales.view([scales.len()])));
    let bias = options.bias;
    let bias = bias.map(|bias| Elements::bytes_of(&bias.view([bias.len()])));
    let elements = Elements::bytes_of(y);
    for (name, numbers) in [("options.scales", scales), ("options.bias", bias)] {
        expect(
            numbers.is_none_or(|numbers| elements.overlap(&numbers) == Overlap::None),
            "y",
            || format!("elements of `{name}`"),
            "memory of its own",
        )?;
    }
    Ok(())
}

/// A source that is read is `y` itself, each of whose elements is read before it is written, or apart from it.
fn is_source_apart<T: DeviceElement>(
    source: &View<'_, T>,
    y: &View<'_, T>,
    beta: f32,
) -> Result<()> {
    let is_apart = || Elements::of(source).overlap(&Elements::of(y)) == Overlap::None;
    expect(
        beta == 0.0 || is_same_view(source, y) || is_apart(),
        "options.source",
        || "a part of the memory of `y`".to_owned(),
        "`y` itself, or memory apart from it: it is read while `y` is written",
    )
}

/// Gradients are not copied.
fn are_whole<T: DeviceElement>(
    argument: &'static str,
    shape: &Shape,
    views: &[&View<'_, T>],
) -> Result<()> {
    let [channels, filters] = [shape.channels, shape.filters];
    let begin = views
        .iter()
        .all(|view| view.place().offset.is_multiple_of(UNIT));
    expect(
        begin && channels.is_multiple_of(UNIT) && filters.is_multiple_of(UNIT),
        argument,
        || {
            let offsets: Vec<usize> = views.iter().map(|view| view.place().offset).collect();
            format!(
                "{channels} channels and {filters} filters of a group, in tensors behind {offsets:?} elements"
            )
        },
        format!("multiples of {UNIT} of all: pad channels and filters with zeros"),
    )
}

/// What has groups is not copied. A gradient of the image loads the result, whose channels are filters, and stores channels.
fn check_groups(asked: &Shape, are_aligned: bool, is_gradient: bool) -> Result<()> {
    let [loaded, stored] = if is_gradient {
        ["filters", "channels"]
    } else {
        ["channels", "filters"]
    };
    let (of_loaded, of_stored) = (asked.channels, asked.filters);
    expect(
        of_loaded.is_multiple_of(16) && of_stored.is_multiple_of(UNIT),
        "options.groups",
        || format!("{of_loaded} {loaded} and {of_stored} {stored} a group"),
        format!(
            "multiples of 16 {loaded} and of {UNIT} {stored}: smaller groups, also those of one channel, have no kernel yet; pad them with zeros"
        ),
    )?;
    expect(
        are_aligned,
        "options.groups",
        || format!("a tensor that begins between multiples of {UNIT} elements"),
        format!(
            "tensors that begin at multiples of {UNIT} elements: what has groups is not copied"
        ),
    )
}

/// Where no im2col map reaches all pixels of the tensor that is loaded by it.
fn out_of_reach<R>(loaded: &str, shape: &Shape) -> Result<R> {
    let found = || shape.out_of_reach(loaded);
    let expected = format!("what im2col maps reach: {}", Reach::of(shape));
    expect(false, "options", found, expected).map(|()| unreachable!())
}

fn check_pixels(name: &'static str, pixels: usize) -> Result<()> {
    expect(
        pixels <= MOST_PIXELS,
        name,
        || format!("{pixels} pixels of the result"),
        format!("at most {MOST_PIXELS}: indices have 32 bits; divide the images among calls"),
    )
}

/// Elements of a line that is copied: the last program of one has indices past the end, which fit an i32 too.
const MOST_IN_LINE: usize = (i32::MAX as usize + 1) - ELEMENTS;

fn check_line(name: &'static str, elements: usize) -> Result<()> {
    expect(
        elements <= MOST_IN_LINE,
        name,
        || format!("a line of {elements} elements, which is copied"),
        format!("at most {MOST_IN_LINE}: indices have 32 bits; divide the line among calls"),
    )
}

/// Elements of the gradient of filters: the last program that adds parts has indices past the end, which fit an i32 too.
const MOST_SUMS: usize = (i32::MAX as usize + 1) - ADDED[0][0];

/// The gradient of filters that has been checked; no plan where there are no pixels, and so zeros.
pub(super) struct FilterCall {
    pub(super) shape: Shape,
    pub(super) plan: Option<FilterPlan>,
}

impl FilterCall {
    /// None where there are no filters.
    pub(super) fn check<T: DeviceElement>(
        [x, dy, dfilters]: [&View<'_, T>; 3],
        options: &Options<'_, T>,
    ) -> Result<Option<FilterCall>> {
        let Sizes {
            shape,
            rank,
            result,
        } = Sizes::of(("x", x), ("dfilters", dfilters), options)?;
        same(
            "dy",
            dense("dy", dy, rank)?,
            &result,
            "as x, dfilters and options say",
        )?;
        are_apart(("dfilters", dfilters), [("x", x), ("dy", dy)])?;
        has_sums_alone(options)?;
        if shape.filters == 0 {
            return Ok(None);
        }
        are_whole("dfilters", &shape, &[x, dy])?;
        check_pixels("x", shape.pixels())?;
        let numbers = shape.of_filters();
        expect(
            numbers <= MOST_SUMS,
            "dfilters",
            || format!("{numbers} elements"),
            format!("at most {MOST_SUMS}: indices have 32 bits"),
        )?;
        if shape.pixels() == 0 {
            return Ok(Some(FilterCall { shape, plan: None }));
        }
        match FilterPlan::best(&shape) {
            None => out_of_reach("x", &shape),
            plan => Ok(Some(FilterCall { shape, plan })),
        }
    }
}

impl Call {
    /// The forward pass; none where the result is empty.
    pub(super) fn forward<T: DeviceElement>(
        [x, filters, y]: [&View<'_, T>; 3],
        options: &Options<'_, T>,
    ) -> Result<Option<Call>> {
        let Sizes {
            shape,
            rank,
            result,
        } = Sizes::of(("x", x), ("filters", filters), options)?;
        same(
            "y",
            dense("y", y, rank)?,
            &result,
            "as x, filters and options say",
        )?;
        are_apart(("y", y), [("x", x), ("filters", filters)])?;
        check_numbers(options, shape.filters * shape.groups)?;
        are_numbers_apart(options, y)?;
        if let Some(source) = options.source {
            let found = dense("options.source", source, rank)?;
            same("options.source", found, &result, "as y")?;
            is_source_apart(source, y, options.beta)?;
        }
        let begins = |view: &View<'_, T>| view.place().offset.is_multiple_of(UNIT);
        let aligned = [begins(x) && begins(filters), begins(y)];
        Call::of(shape, aligned, options.beta != 0.0, false)
    }

    /// The gradient of the image; none where it is empty.
    pub(super) fn image_gradient<T: DeviceElement>(
        [dy, filters, dx]: [&View<'_, T>; 3],
        options: &Options<'_, T>,
    ) -> Result<Option<Call>> {
        let Sizes {
            shape,
            rank,
            result,
        } = Sizes::of(("dx", dx), ("filters", filters), options)?;
        same(
            "dy",
            dense("dy", dy, rank)?,
            &result,
            "as dx, filters and options say",
        )?;
        are_apart(("dx", dx), [("dy", dy), ("filters", filters)])?;
        has_sums_alone(options)?;
        expect(
            shape.filters > 0 || shape.images == 0,
            "filters",
            || "none".to_owned(),
            "one or more: the gradient of an image is a sum over them",
        )?;
        let Some(gradient) = shape.gradient() else {
            let found = || format!("{:?}", options.stride);
            let expected = "1: the gradient of an image has no kernel for others yet";
            return expect(false, "options.stride", found, expected).map(|()| None);
        };
        are_whole("dx", &shape, &[dy, filters, dx])?;
        Call::of(gradient, [true, true], false, true)
    }

    fn of(
        asked: Shape,
        [is_aligned, ends_aligned]: [bool; 2],
        has_source: bool,
        is_gradient: bool,
    ) -> Result<Option<Call>> {
        let elements = [asked.images, asked.filters, asked.groups];
        if elements.contains(&0) {
            return Ok(None);
        }
        let pixels = asked.pixels();
        // A gradient of the image loads the result.
        let [image, loaded] = if is_gradient {
            ["dx", "dy"]
        } else {
            ["x", "x"]
        };
        check_pixels(image, pixels)?;
        let numbers = pixels.saturating_mul(asked.filters * asked.groups);
        expect(
            !has_source || i32::try_from(numbers).is_ok(),
            "options.source",
            || format!("{numbers} elements"),
            format!(
                "at most {}: indices have 32 bits; divide the images among calls",
                i32::MAX
            ),
        )?;
        let is_whole = asked.channels.is_multiple_of(UNIT) && is_aligned;
        let is_copied_back = !asked.filters.is_multiple_of(UNIT) || !ends_aligned;
        if asked.groups > 1 {
            check_groups(&asked, is_aligned && ends_aligned, is_gradient)?;
        }
        let padded = Shape {
            channels: asked.channels.next_multiple_of(UNIT),
            ..asked
        };
        let mut ways = vec![(
            padded,
            if is_whole {
                Loaded::InPlace
            } else {
                Loaded::Padded
            },
        )];
        if !is_whole && !is_gradient {
            ways.extend(in_lines(&asked));
        }
        let planned = ways.into_iter().filter_map(|(shape, loaded)| {
            let tiled = Tiled::best(&shape, is_gradient)?;
            Some((shape, loaded, tiled))
        });
        let best = planned.min_by(|x, y| x.2.microseconds.total_cmp(&y.2.microseconds));
        let Some((shape, loaded, tiled)) = best else {
            return out_of_reach(loaded, &asked);
        };
        let call = Call {
            asked,
            shape,
            loaded,
            is_copied_back,
            tiled,
        };
        call.check_lines()?;
        Ok(Some(call))
    }

    /// Lines of the image and of the result, if they are copied, and those of the copies.
    fn check_lines(&self) -> Result<()> {
        let [_, _, wide] = self.asked.along;
        let of_image = match self.loaded {
            Loaded::InPlace => 0,
            Loaded::Padded => wide.input.saturating_mul(self.shape.channels),
            Loaded::Lines { length, .. } => {
                length.max(wide.input.saturating_mul(self.asked.channels))
            }
        };
        check_line("x", of_image)?;
        if !self.is_copied_back {
            return Ok(());
        }
        let filters = self.asked.filters.next_multiple_of(UNIT);
        check_line("y", wide.output.saturating_mul(filters))
    }

    pub(super) fn plan(&self) -> CallPlan {
        let mut copies = Vec::new();
        let (from, to) = (self.asked.channels, self.shape.channels);
        match self.loaded {
            Loaded::InPlace => {}
            Loaded::Padded => copies.push(format!(
                "`x` and `filters` copied: {from} channels, where {to} are taken"
            )),
            Loaded::Lines { channels, .. } => copies.push(format!(
                "`x` and `filters` copied: {from} channels, where the {to} of a line of taps of {channels} are taken"
            )),
        }
        if self.is_copied_back {
            copies.push(format!(
                "`y` copied: {} filters, where multiples of {UNIT} are stored",
                self.asked.filters
            ));
        }
        CallPlan {
            kernel: Some(self.tiled.to_string()),
            copies,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was said of those of `dx` that they are in `x`.
    #[test]
    fn too_many_pixels_name_the_image() {
        let shape = Shape {
            images: MOST_PIXELS + 1,
            channels: UNIT,
            filters: UNIT,
            groups: 1,
            along: [Along::NONE; 3],
            has_depth: false,
        };
        for (is_gradient, name) in [(false, "x"), (true, "dx")] {
            let found = Call::of(shape, [true; 2], false, is_gradient).map(|_| ());
            let said = found.unwrap_err().to_string();
            assert!(said.contains(&format!("`{name}`: found")), "{said}");
        }
    }
}
