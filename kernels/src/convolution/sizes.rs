//! The sizes that a call's tensors and options say, and checks of them.

use tilekit::prelude::*;

use super::error::{Result, expect};
use super::options::Options;
use super::shape::{Along, Shape};

/// A tensor of a call.
pub(super) type View<'a, T> = TensorView<'a, T>;

/// The sizes of a call.
pub(super) struct Sizes {
    pub(super) shape: Shape,
    /// Dimensions of its tensors.
    pub(super) rank: usize,
    /// The shape of the result.
    pub(super) result: Vec<usize>,
}

impl Sizes {
    /// Those of an image and of filters, by their names.
    fn of<T: DeviceElement>(
        (image, x): (&'static str, &View<'_, T>),
        (name, filters): (&'static str, &View<'_, T>),
        options: &Options<'_, T>,
    ) -> Result<Sizes> {
        let rank = x.place().shape.len();
        expect(
            (3..=5).contains(&rank),
            image,
            || format!("{rank} dimensions"),
            "3 to 5: images, 1 to 3 of pixels, channels last",
        )?;
        let taps = dense(name, filters, rank)?;
        let found = dense(image, x, rank)?;
        expect(
            !found[1..rank - 1].contains(&0),
            image,
            || format!("shape {found:?}"),
            "one pixel or more along each dimension",
        )?;
        let shape = shape_of(found, (name, taps), options)?;
        let result = result_of(&shape, rank - 2);
        Ok(Sizes {
            shape,
            rank,
            result,
        })
    }
}

/// The sizes of a call whose result, or the gradient of one, has the shape that an image, filters and options say, by the names of the three.
pub(super) fn sizes_of<T: DeviceElement>(
    [image, filters, result]: [(&'static str, &View<'_, T>); 3],
    options: &Options<'_, T>,
) -> Result<Sizes> {
    let sizes = Sizes::of(image, filters, options)?;
    let (name, view) = result;
    let why = format!("as {}, {} and options say", image.0, filters.0);
    same(name, dense(name, view, sizes.rank)?, &sizes.result, &why)?;
    Ok(sizes)
}

/// A shape is what others say.
pub(super) fn same(name: &'static str, found: &[usize], wanted: &[usize], why: &str) -> Result<()> {
    expect(
        found == wanted,
        name,
        || format!("shape {found:?}"),
        format!("{wanted:?}, {why}"),
    )
}

/// The shape of a tensor without gaps, inside of its buffer.
pub(super) fn dense<'v, T: DeviceElement>(
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
        format!("{rank}, as the image has: images, pixels, channels last"),
    )?;
    let steps = place.strides.len();
    expect(
        steps == rank,
        name,
        || format!("{steps} strides"),
        format!("{rank}, one for each dimension"),
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
    (name, filters): (&'static str, &[usize]),
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
        name,
        || format!("{of_filter} channels"),
        format!(
            "{}: the channels of the image over the groups",
            channels / groups
        ),
    )?;
    let mut along = [Along::NONE; 3];
    for dim in 0..spatial {
        let at = 3 - spatial + dim;
        let (input, taps) = (x[1 + dim], filters[1 + dim]);
        let found = Along::new([input, taps], [stride[at], padding[at], dilation[at]]);
        let Some(found) = found else {
            let text = || format!("{taps} taps, {} pixels apart", dilation[at]);
            let expected = format!(
                "one or more, within {input} pixels padded by {} on each side",
                padding[at]
            );
            return expect(false, name, text, expected).map(|()| unreachable!());
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
