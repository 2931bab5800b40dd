//! Checks of the arguments of a call for gradients.

use tilekit::prelude::*;
use tilekit::target::SM_90A;

use super::call::Upstream;
use super::table::passes;
use crate::attention::check::{Checked, check, check_built, check_strides, extents};
use crate::attention::error::{Result, expect};
use crate::attention::options::Options;
use crate::attention::plan::Sizes;
use crate::attention::table::Operand;
use crate::overlap::{Elements, Overlap};

const GRADIENTS: [&str; 3] = ["dq", "dk", "dv"];

/// The least factor of scores: LSE divided by it is finite, and what stands for the LSE of a row that sees no key makes its P 0 (`lines.rs`).
const LEAST_SCALE: f32 = 1e-30;

/// Checks a call for gradients; the error names the first invalid argument.
pub(super) fn check_backward<T: Operand>(
    qkv: [&TensorView<'_, T>; 3],
    upstream: Upstream<'_, T>,
    gradients: [&TensorView<'_, T>; 3],
    options: &Options<'_>,
) -> Result<Checked> {
    let checked = check_backward_inputs(qkv, upstream, options)?;
    let Upstream { out, dout, .. } = upstream;
    for ((name, gradient), of) in GRADIENTS.into_iter().zip(gradients).zip(qkv) {
        check_like(name, gradient, of)?;
    }
    let inputs = ["q", "k", "v", "out", "dout"];
    let inputs = inputs.into_iter().zip([qkv[0], qkv[1], qkv[2], out, dout]);
    let inputs: Vec<_> = inputs.collect();
    for (at, gradient) in gradients.into_iter().enumerate() {
        let name = GRADIENTS[at];
        let elements = Elements::of(gradient);
        expect(
            elements.are_apart(),
            name,
            || format!("strides {:?}", gradient.place().strides),
            "strides by which no two elements are in the same place",
        )?;
        let before = GRADIENTS.into_iter().zip(gradients).take(at);
        for (other, view) in inputs.iter().copied().chain(before) {
            let found = match elements.overlap(&Elements::of(view)) {
                Overlap::None => continue,
                Overlap::Some => format!("elements of `{other}`"),
                Overlap::Unknown => format!("strides that may overlap `{other}`"),
            };
            expect(false, name, || found, "memory of its own")?;
        }
    }
    Ok(checked)
}

/// Checks what a call reads: all that may be wrong before there are gradients.
pub(super) fn check_backward_inputs<T: Operand>(
    qkv: [&TensorView<'_, T>; 3],
    Upstream { out, lse, dout }: Upstream<'_, T>,
    options: &Options<'_>,
) -> Result<Checked> {
    let checked = check(qkv, out, lse, options)?;
    check_scale(checked.scale)?;
    check_lines(checked.sizes, options)?;
    let built = passes::<T>();
    check_built(checked.sizes.depths, built.iter().map(|row| row.depths))?;
    check_like("dout", dout, out)?;
    Ok(checked)
}

/// Checks the factor of scores.
pub(in crate::attention) fn check_scale(scale: f32) -> Result<()> {
    let expected = format!("{LEAST_SCALE:e} or more, for gradients");
    let found = || format!("{scale:e}");
    expect(scale >= LEAST_SCALE, "options.scale", found, expected)
}

/// Checks that a tensor has the shape of another, and its strides.
fn check_like<T: DeviceElement>(
    name: &'static str,
    view: &TensorView<'_, T>,
    of: &TensorView<'_, T>,
) -> Result<()> {
    let (found, expected) = (extents(name, view)?, &of.place().shape);
    let is_same = found[..] == expected[..];
    expect(
        is_same,
        name,
        || format!("shape {found:?}"),
        format!("{expected:?}"),
    )?;
    check_strides(name, view)
}

/// Checks that heads are no more than a grid has programs along its second dimension, and sequences than along its third where launches have all of them: numbers of dropout follow from the batch.
pub(in crate::attention) fn check_lines(sizes: Sizes, options: &Options<'_>) -> Result<()> {
    check_line("q", "heads", sizes.heads)?;
    if options.lengths.is_some() {
        check_line("options.lengths.query_offsets", "sequences", sizes.batch)?;
    }
    if options.dropout.is_some() {
        check_batches(sizes.batch)?;
    }
    Ok(())
}

/// Checks that batches are no more than a grid has programs along its third dimension.
pub(super) fn check_batches(batch: usize) -> Result<()> {
    check_line("q", "batch", batch)
}

fn check_line(argument: &'static str, name: &str, count: usize) -> Result<()> {
    const MOST: usize = SM_90A.grid[1] as usize;
    let found = || format!("{name} {count}");
    let expected = format!("at most {MOST} for gradients");
    expect(count <= MOST, argument, found, expected)
}
