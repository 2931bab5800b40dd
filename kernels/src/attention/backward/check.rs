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
    let Upstream { out, lse, dout } = upstream;
    let checked = check(qkv, out, lse, options)?;
    expect(
        checked.scale >= LEAST_SCALE,
        "options.scale",
        || format!("{:e}", checked.scale),
        format!("{LEAST_SCALE:e} or more, for gradients"),
    )?;
    check_lines(checked.sizes, options)?;
    let built = passes::<T>();
    check_built(checked.sizes.depths, built.iter().map(|row| row.depths))?;
    let like = |name: &'static str, view: &TensorView<'_, T>, of: &TensorView<'_, T>| {
        let (found, expected) = (extents(name, view)?, &of.place().shape);
        let is_same = found[..] == expected[..];
        expect(
            is_same,
            name,
            || format!("shape {found:?}"),
            format!("{expected:?}"),
        )?;
        check_strides(name, view)
    };
    like("dout", dout, out)?;
    for ((name, gradient), of) in GRADIENTS.into_iter().zip(gradients).zip(qkv) {
        like(name, gradient, of)?;
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

/// Checks that heads and sequences are no more than a grid has programs along its second and third dimension.
fn check_lines(sizes: Sizes, options: &Options<'_>) -> Result<()> {
    const MOST: usize = SM_90A.grid[1] as usize;
    let (argument, sequences) = match options.lengths {
        Some(_) => ("options.lengths.query_offsets", "sequences"),
        None => ("q", "batch"),
    };
    for (argument, name, count) in [
        ("q", "heads", sizes.heads),
        (argument, sequences, sizes.batch),
    ] {
        let found = || format!("{name} {count}");
        expect(
            count <= MOST,
            argument,
            found,
            format!("at most {MOST} for gradients"),
        )?;
    }
    Ok(())
}
