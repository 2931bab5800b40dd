//! Checks of a call, and what follows from them.

use std::fmt;

use tilekit::prelude::*;
use tilekit::{Buffer, TensorView};

use super::error::{Result, expect};
use super::options::Options;
use super::plan::Tiled;
use super::shape::{Along, Shape};
use crate::products::factor::UNIT_BYTES;

pub(super) type View<'a, T> = TensorView<'a, T>;

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

/// The shape of a tensor without gaps, inside of its buffer.
fn dense<'v, T: DeviceElement>(
    name: &'static str,
    view: &'v View<'_, T>,
    rank: usize,
) -> Result<&'v [usize]> {
    let place = view.place();
    let found = place.shape.len();
    expect(
        found == rank,
        name,
        || format!("{found} dimensions"),
        format!("{rank}, as x has: images, pixels, channels last"),
    )?;
    let plain = tilekit::TensorPlace::dense(&place.shape);
    let same = |dim: usize| place.shape[dim] <= 1 || place.strides[dim] == plain.strides[dim];
    expect(
        (0..rank).all(same),
        name,
        || format!("strides {:?}", place.strides),
        format!(
            "{:?}: no gaps; copy it into a tensor without any",
            plain.strides
        ),
    )?;
    let elements = place
        .shape
        .iter()
        .try_fold(1_usize, |all, &n| all.checked_mul(n));
    let end = elements.and_then(|count| count.checked_add(place.offset));
    let room = view.source().len();
    expect(
        end.is_some_and(|end| end <= room),
        name,
        || format!("shape {:?} behind {} elements", place.shape, place.offset),
        format!("a tensor inside of its buffer of {room} elements"),
    )?;
    Ok(&place.shape)
}

/// The number of a list for each spatial dimension, 1 to 3 of them, the last ones of depth, height and width.
fn numbers(
    name: &'static str,
    list: &[usize],
    spatial: usize,
    least: usize,
    none: usize,
) -> Result<[usize; 3]> {
    expect(
        list.len() == spatial || list.len() == 1,
        name,
        || format!("{} numbers", list.len()),
        format!("{spatial}: one for each spatial dimension, or one for all"),
    )?;
    expect(
        list.iter().all(|number| (least..=1 << 16).contains(number)),
        name,
        || format!("{list:?}"),
        format!("numbers from {least} to {}", 1 << 16),
    )?;
    let of = |dim: usize| list.get(dim).or(list.first()).copied().unwrap_or(none);
    Ok(std::array::from_fn(|dim| {
        (dim + spatial).checked_sub(3).map_or(none, of)
    }))
}

/// The sizes that a call says: of images, filters and options.
fn shape_of<T: DeviceElement>(
    x: &[usize],
    filters: &[usize],
    options: &Options<'_, T>,
) -> Result<Shape> {
    let spatial = x.len() - 2;
    let stride = numbers("options.stride", options.stride, spatial, 1, 1)?;
    let padding = numbers("options.padding", options.padding, spatial, 0, 0)?;
    let dilation = numbers("options.dilation", options.dilation, spatial, 1, 1)?;
    let (groups, channels, count) = (options.groups, x[spatial + 1], filters[0]);
    expect(
        groups > 0
            && channels > 0
            && channels.is_multiple_of(groups)
            && count.is_multiple_of(groups),
        "options.groups",
        || format!("{groups}, with {channels} channels and {count} filters"),
        "a divisor of both, and a channel at least",
    )?;
    let of_filter = filters[spatial + 1];
    expect(
        of_filter == channels / groups,
        "filters",
        || format!("{of_filter} channels"),
        format!("{}: the channels of x over the groups", channels / groups),
    )?;
    let mut along = [Along::NONE; 3];
    for dim in 0..spatial {
        let at = 3 - spatial + dim;
        let (input, taps) = (x[1 + dim], filters[1 + dim]);
        let found = Along::new([input, taps], [stride[at], padding[at], dilation[at]]);
        let Some(found) = found.filter(|_| input > 0) else {
            let text = || format!("{taps} taps, {} pixels apart", dilation[at]);
            let expected = format!(
                "one or more, within {input} pixels padded by {} on each side",
                padding[at]
            );
            return expect(false, "filters", text, expected).map(|()| unreachable!());
        };
        along[at] = found;
    }
    Ok(Shape {
        images: x[0],
        channels: channels / groups,
        filters: count / groups,
        groups,
        along,
        has_depth: spatial == 3,
    })
}

/// Of images, pixels and channels, those of a result.
fn result_of(shape: &Shape, spatial: usize) -> Vec<usize> {
    let mut result = vec![shape.images];
    result.extend(shape.along[3 - spatial..].iter().map(|along| along.output));
    result.push(shape.filters * shape.groups);
    result
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

impl Call {
    /// The forward pass; none where the result is empty.
    pub(super) fn forward<T: DeviceElement>(
        [x, filters, y]: [&View<'_, T>; 3],
        options: &Options<'_, T>,
    ) -> Result<Option<Call>> {
        let rank = x.place().shape.len();
        expect(
            (3..=5).contains(&rank),
            "x",
            || format!("{rank} dimensions"),
            "3 to 5: images, 1 to 3 of pixels, channels last",
        )?;
        let shape = shape_of(
            dense("x", x, rank)?,
            dense("filters", filters, rank)?,
            options,
        )?;
        let (found, wanted) = (dense("y", y, rank)?, result_of(&shape, rank - 2));
        expect(
            found == wanted,
            "y",
            || format!("shape {found:?}"),
            format!("{wanted:?}, as x, filters and options say"),
        )?;
        check_numbers(options, shape.filters * shape.groups)?;
        if let Some(source) = options.source {
            let found = dense("options.source", source, rank)?;
            expect(
                found == wanted,
                "options.source",
                || format!("shape {found:?}"),
                format!("{wanted:?}, as y"),
            )?;
        }
        let is_aligned = [x, filters]
            .iter()
            .all(|view| view.place().offset.is_multiple_of(UNIT));
        let ends_aligned = y.place().offset.is_multiple_of(UNIT);
        let has_source = options.beta != 0.0;
        Call::of(shape, [is_aligned, ends_aligned], has_source, false)
    }

    /// The gradient of the image.
    pub(super) fn image_gradient<T: DeviceElement>(
        [dy, filters, dx]: [&View<'_, T>; 3],
        options: &Options<'_, T>,
    ) -> Result<Option<Call>> {
        let rank = dx.place().shape.len();
        expect(
            (3..=5).contains(&rank),
            "dx",
            || format!("{rank} dimensions"),
            "3 to 5: images, 1 to 3 of pixels, channels last",
        )?;
        let shape = shape_of(
            dense("dx", dx, rank)?,
            dense("filters", filters, rank)?,
            options,
        )?;
        let (found, wanted) = (dense("dy", dy, rank)?, result_of(&shape, rank - 2));
        expect(
            found == wanted,
            "dy",
            || format!("shape {found:?}"),
            format!("{wanted:?}, as dx, filters and options say"),
        )?;
        expect(
            options.epilogue().is_none(),
            "options",
            || "scales, bias, a source or an activation".to_owned(),
            "none of them: a gradient has its sums alone",
        )?;
        let Some(gradient) = shape.gradient() else {
            let found = || format!("{:?}", options.stride);
            return expect(
                false,
                "options.stride",
                found,
                "1: the gradient of an image has no kernel for others yet",
            )
            .map(|()| None);
        };
        let [is_aligned, ends_aligned] =
            [dy, dx].map(|view: &View<'_, T>| view.place().offset.is_multiple_of(UNIT));
        let whole = [shape.channels, shape.filters]
            .iter()
            .all(|count| count.is_multiple_of(UNIT));
        expect(
            whole && is_aligned && ends_aligned && filters.place().offset.is_multiple_of(UNIT),
            "dx",
            || {
                format!(
                    "{} channels and {} filters of a group",
                    shape.channels, shape.filters
                )
            },
            format!(
                "multiples of {UNIT} of both, and tensors that begin at multiples of 16 bytes: pad them with zeros"
            ),
        )?;
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
        expect(
            pixels <= MOST_PIXELS,
            "x",
            || format!("{pixels} pixels of the result"),
            format!("at most {MOST_PIXELS}: indices have 32 bits; divide the images among calls"),
        )?;
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
            expect(
                asked.channels.is_multiple_of(16) && !is_copied_back && is_aligned,
                "options.groups",
                || {
                    format!(
                        "{} channels and {} filters a group",
                        asked.channels, asked.filters
                    )
                },
                "multiples of 16 channels and of 8 filters: smaller groups, also those of one channel, have no kernel yet; pad them with zeros",
            )?;
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
            let found = || {
                format!(
                    "{:?} taps, strides and paddings",
                    asked
                        .along
                        .map(|along| (along.taps, along.stride, -along.lower))
                )
            };
            let expected = "what im2col maps reach: strides to 8; with two spatial dimensions padding to 128 and taps that span 255 pixels, with three 16 and 31";
            return expect(false, "options", found, expected).map(|()| None);
        };
        Ok(Some(Call {
            asked,
            shape,
            loaded,
            is_copied_back,
            tiled,
        }))
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
