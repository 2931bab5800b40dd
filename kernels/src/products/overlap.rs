//! Whether a result shares memory with what is read while it is written.

use tilekit::prelude::*;

use super::check::View;
use super::error::{Result, expect};
use super::factor::Stored;
use super::options::Options;
use crate::overlap::{Elements, Overlap, is_same_view};

/// Whether an element of one has a byte of one of the other. Those that a long search does not find count as none.
fn overlap<T: DeviceElement, O: DeviceElement>(x: &View<'_, T>, y: &View<'_, O>) -> bool {
    // Offset and strides of an empty one may be any.
    let is_empty = x.place().shape.contains(&0) || y.place().shape.contains(&0);
    !is_empty && Elements::bytes_of(x).overlap(&Elements::bytes_of(y)) == Overlap::Some
}

/// No element of a result is one of an operand.
pub(super) fn check_apart<T: DeviceElement, O: DeviceElement>(
    (name, operand): (&str, &View<'_, T>),
    (result, c): (&'static str, &View<'_, O>),
) -> Result<()> {
    expect(
        !overlap(operand, c),
        result,
        || format!("memory of `{name}`"),
        "a result apart from the operands, which are read while it is written",
    )
}

/// No element of a result is one of the numbers that its rows or columns are multiplied by, or that are added to them: other threads read those while it is written.
pub(super) fn check_numbers_apart<O: Stored, P: DeviceElement>(
    options: &Options<'_, O>,
    result: (&'static str, &View<'_, P>),
) -> Result<()> {
    for (name, scales) in [
        ("options.a_scales", options.a_scales),
        ("options.b_scales", options.b_scales),
    ] {
        if let Some(scales) = scales {
            check_apart((name, &scales.view([scales.len()])), result)?;
        }
    }
    match options.bias {
        Some((bias, _)) => check_apart(("options.bias", &bias.view([bias.len()])), result),
        None => Ok(()),
    }
}

/// A source is the result itself, each of whose elements is read before it is written, or apart from it.
pub(super) fn check_source_apart<S: DeviceElement, O: DeviceElement>(
    source: &View<'_, S>,
    c: &View<'_, O>,
) -> Result<()> {
    expect(
        !overlap(source, c) || is_same_view(source, c),
        "options.source",
        || "a part of the memory of the result".to_owned(),
        "the result itself, or memory apart from it: it is read while the result is written",
    )
}
