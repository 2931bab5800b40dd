//! Checks that what a call writes has memory of its own.

use tilekit::prelude::*;

use super::check::{Checked, check};
use super::error::{Result, expect};
use super::options::Options;
use super::table::Operand;
use crate::overlap::{Elements, Overlap};

/// Checks that the elements of a result are in places of their own, none of which is one of what the call reads.
pub(super) fn check_written<T: DeviceElement>(
    (name, view): (&'static str, &TensorView<'_, T>),
    read: &[(&'static str, Elements)],
) -> Result<()> {
    let elements = Elements::bytes_of(view);
    expect(
        elements.are_apart(),
        name,
        || format!("strides {:?}", view.place().strides),
        "strides by which no two elements are in the same place",
    )?;
    for (other, of_other) in read {
        let found = match elements.overlap(of_other) {
            Overlap::None => continue,
            Overlap::Some => format!("elements of `{other}`"),
            Overlap::Unknown => format!("strides that may overlap `{other}`"),
        };
        expect(false, name, || found, "memory of its own")?;
    }
    Ok(())
}

/// Checks a forward pass; the error names the first invalid argument.
pub(super) fn check_forward<T: Operand>(
    qkv: [&TensorView<'_, T>; 3],
    out: &TensorView<'_, T>,
    lse: &Buffer<f32>,
    options: &Options<'_>,
) -> Result<Checked> {
    let checked = check(qkv, out, lse, options)?;
    check_written(("out", out), &read_by(qkv))?;
    Ok(checked)
}

/// What a forward pass reads, by its names.
pub(super) fn read_by<T: DeviceElement>(
    qkv: [&TensorView<'_, T>; 3],
) -> [(&'static str, Elements); 3] {
    let [q, k, v] = qkv.map(Elements::bytes_of);
    [("q", q), ("k", k), ("v", v)]
}
