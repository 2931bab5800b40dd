//! Checks of the arguments of a call with 8-bit floats.

use tilekit::prelude::*;

use super::call_fp8::Factors;
use super::table_fp8::narrow;
use crate::attention::check::{
    check_built, check_factors, check_lse_apart, check_tensors, sizes_of,
};
use crate::attention::error::{Result, expect};
use crate::attention::options::Options;
use crate::attention::plan::Sizes;
use crate::attention::written::{check_written, read_by};

/// Checks a call; the error names the first invalid argument.
pub(super) fn check_fp8(
    qkv: [&TensorView<'_, E4m3>; 3],
    factors: &Factors<'_>,
    out: &TensorView<'_, bf16>,
    lse: &Buffer<f32>,
    options: &Options<'_>,
) -> Result<Sizes> {
    let sizes = check_fp8_inputs(qkv, factors, options)?;
    check_tensors(qkv, out, lse)?;
    check_written(("out", out), &read_by(qkv))?;
    let factors = [
        ("factors.q", Some(factors.q)),
        ("factors.k", Some(factors.k)),
        ("factors.v", Some(factors.v)),
    ];
    check_lse_apart(lse, factors)?;
    Ok(sizes)
}

/// Checks what a call reads: all that may be wrong before there are results.
pub(super) fn check_fp8_inputs(
    qkv: [&TensorView<'_, E4m3>; 3],
    factors: &Factors<'_>,
    options: &Options<'_>,
) -> Result<Sizes> {
    let sizes = sizes_of(qkv)?;
    check_built(sizes.depths, narrow().iter().map(|row| row.depths))?;
    expect(
        sizes.queries == sizes.keys,
        "k",
        || format!("tokens {}", sizes.keys),
        format!("{}, those of q, for 8-bit floats", sizes.queries),
    )?;
    for (name, buffer, heads) in [
        ("factors.q", factors.q, sizes.heads),
        ("factors.k", factors.k, sizes.kv_heads),
        ("factors.v", factors.v, sizes.kv_heads),
    ] {
        let lines = sizes.batch * heads;
        expect(
            buffer.len() == lines,
            name,
            || format!("{} elements", buffer.len()),
            format!("{lines}, one for each head of each batch"),
        )?;
    }
    check_options(options, sizes.heads)?;
    Ok(sizes)
}

fn check_options(options: &Options<'_>, heads: usize) -> Result<()> {
    for (name, is_there) in [
        ("options.window", options.window != [None, None]),
        ("options.chunk", options.chunk.is_some()),
        ("options.softcap", options.softcap.is_some()),
        ("options.alibi", options.alibi.is_some()),
        ("options.sinks", options.sinks.is_some()),
        ("options.lengths", options.lengths.is_some()),
        ("options.dropout", options.dropout.is_some()),
    ] {
        expect(
            !is_there,
            name,
            || "a value".to_string(),
            "none: 8-bit floats have `causal` and `scale` alone",
        )?;
    }
    check_factors(options, heads)
}
