//! Checks of a call, and what follows from them.

use tilekit::Buffer;
use tilekit::prelude::*;

use super::error::{Result, expect};
use super::options::Options;
use super::reach::Reach;
use super::residue::Residue;
use super::shape::{Shape, UNIT};
use super::sizes::{Sizes, View, dense, same, sizes_of};
use super::ways::{Aligned, Way};
use crate::overlap::{Elements, Overlap, is_same_view};
use crate::products::Products;

/// The most pixels, so that indices fit 32 bits.
const MOST_PIXELS: usize = 1 << 30;

/// Whether a tensor begins at a multiple of the elements that wide accesses take.
pub(super) fn begins_whole<T: DeviceElement>(view: &View<'_, T>) -> bool {
    view.place().offset.is_multiple_of(UNIT)
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

/// A gradient has nothing beside its sums.
pub(super) fn has_sums_alone<T: DeviceElement>(options: &Options<'_, T>) -> Result<()> {
    expect(
        options.epilogue().is_none(),
        "options",
        || "scales, bias, a source or an activation".to_owned(),
        "none of them: a gradient has its sums alone",
    )
}

/// No element of a result is one of what is read while it is written.
pub(super) fn are_apart<T: DeviceElement>(
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

/// Where no im2col map reaches all pixels of the tensor that is loaded by it.
pub(super) fn out_of_reach<R>(loaded: &str, shape: &Shape) -> Result<R> {
    let found = || shape.out_of_reach(loaded);
    let expected = format!("what im2col maps reach: {}", Reach::of(shape));
    expect(false, "options", found, expected).map(|()| unreachable!())
}

pub(super) fn check_count(name: &'static str, pixels: usize) -> Result<()> {
    expect(
        pixels <= MOST_PIXELS,
        name,
        || format!("{pixels} pixels of the result"),
        format!("at most {MOST_PIXELS}: indices have 32 bits; divide the images among calls"),
    )
}

/// The forward pass as it is computed; none where the result is empty.
pub(super) fn forward<T: DeviceElement>(
    [x, filters, y]: [&View<'_, T>; 3],
    options: &Options<'_, T>,
    products: &Products,
) -> Result<Option<Way>> {
    let Sizes {
        shape,
        rank,
        result,
    } = sizes_of([("x", x), ("filters", filters), ("y", y)], options)?;
    are_apart(("y", y), [("x", x), ("filters", filters)])?;
    check_numbers(options, shape.filters * shape.groups)?;
    are_numbers_apart(options, y)?;
    if let Some(source) = options.source {
        let found = dense("options.source", source, rank)?;
        same("options.source", found, &result, "as y")?;
        is_source_apart(source, y, options.beta)?;
    }
    let aligned = Aligned {
        image: begins_whole(x),
        filters: begins_whole(filters),
        result: begins_whole(y),
    };
    let has_source = options.beta != 0.0;
    way_of(&shape, (false, has_source), aligned, products)
}

/// The gradient of the image as it is computed; none where it is empty.
pub(super) fn image_gradient<T: DeviceElement>(
    [dy, filters, dx]: [&View<'_, T>; 3],
    options: &Options<'_, T>,
    products: &Products,
) -> Result<Option<Way>> {
    let views = [("dx", dx), ("filters", filters), ("dy", dy)];
    let Sizes { shape, .. } = sizes_of(views, options)?;
    are_apart(("dx", dx), [("dy", dy), ("filters", filters)])?;
    has_sums_alone(options)?;
    expect(
        shape.filters > 0 || shape.images == 0,
        "filters",
        || "none".to_owned(),
        "one or more: the gradient of an image is a sum over them",
    )?;
    let aligned = Aligned {
        image: begins_whole(dy),
        filters: begins_whole(filters),
        result: begins_whole(dx),
    };
    way_of(&shape, (true, false), aligned, products)
}

fn way_of(
    asked: &Shape,
    (is_gradient, has_source): (bool, bool),
    aligned: Aligned,
    products: &Products,
) -> Result<Option<Way>> {
    if [asked.images, asked.filters, asked.groups].contains(&0) {
        return Ok(None);
    }
    check_pixels(asked, is_gradient, has_source)?;
    let Some(way) = Way::best(asked, is_gradient, aligned, products) else {
        // A gradient of the image loads that of the result.
        return if is_gradient {
            let residues = Residue::of_gradient(asked);
            let unreached = residues.iter().find(|residue| !residue.shape.fits_maps());
            out_of_reach("dy", unreached.map_or(asked, |residue| &residue.shape))
        } else {
            out_of_reach("x", asked)
        };
    };
    way.check_lines()?;
    Ok(Some(way))
}

fn check_pixels(asked: &Shape, is_gradient: bool, has_source: bool) -> Result<()> {
    let (image, pixels) = if is_gradient {
        ("dx", asked.input_pixels())
    } else {
        ("x", asked.pixels())
    };
    check_count(image, pixels)?;
    let numbers = pixels.saturating_mul(asked.filters * asked.groups);
    expect(
        !has_source || i32::try_from(numbers).is_ok(),
        "options.source",
        || format!("{numbers} elements"),
        format!(
            "at most {}: indices have 32 bits; divide the images among calls",
            i32::MAX
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::shape::Along;
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
            let found = check_pixels(&shape, is_gradient, false);
            let said = found.unwrap_err().to_string();
            assert!(said.contains(&format!("`{name}`: found")), "{said}");
        }
    }
}
