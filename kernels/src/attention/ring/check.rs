//! Checks of the arguments of a call.

use tilekit::prelude::*;

use super::options::{Placement, RingOptions};
use super::plan::Need;
use crate::attention::backward::check::{check_lines, check_scale};
use crate::attention::call::View;
use crate::attention::check::{
    MOST, check_built, check_factors, check_lse_apart, check_strides, check_tensors, extents,
    scale_of,
};
use crate::attention::modifier::Plain;
use crate::attention::options::Options;
use crate::attention::plan::Sizes;
use crate::attention::table::{Operand, masked};
use crate::error::{Error, Result};
use crate::overlap::{Elements, Overlap};
use crate::parallel::mail::MOST_RANKS;

/// The tensors of all ranks, by rank.
#[derive(Clone, Copy)]
pub(super) struct Tensors<'a, 'v, T> {
    pub(super) qkv: [&'a [View<'v, T>]; 3],
    pub(super) out: &'a [View<'v, T>],
    pub(super) lse: &'a [&'v Buffer<f32>],
}

fn expect(
    holds: bool,
    argument: &'static str,
    found: impl FnOnce() -> String,
    expected: impl Into<String>,
) -> Result<()> {
    crate::error::expect(holds, ["ring attention", argument], found, expected)
}

/// An error of attention, found `place`.
fn found_at(error: Error, place: &str) -> Error {
    match error {
        Error::Argument {
            argument,
            found,
            expected,
            ..
        } => Error::Argument {
            operation: "ring attention",
            argument,
            found: format!("{found}{place}"),
            expected,
        },
        Error::Runtime(error) => Error::Runtime(error),
    }
}

/// Checks a call on so many ranks; the error names the first invalid argument and its rank.
pub(super) fn check<T: Operand>(
    ranks: usize,
    tensors: Tensors<'_, '_, T>,
    options: &RingOptions<'_>,
) -> Result<Need> {
    let found = || format!("{ranks} ranks");
    let expected = format!("at most {MOST_RANKS}");
    expect(ranks <= MOST_RANKS, "world", found, expected)?;
    let Tensors { qkv, out, lse } = tensors;
    let counts = [
        ("q", qkv[0].len()),
        ("k", qkv[1].len()),
        ("v", qkv[2].len()),
        ("out", out.len()),
        ("lse", lse.len()),
    ];
    for (name, count) in counts {
        let expected = format!("{ranks}: one for each rank");
        expect(
            count == ranks,
            name,
            || format!("{count} tensors"),
            expected,
        )?;
    }
    let sizes = sizes_of_all(ranks, tensors)?;
    check_sizes::<T>(ranks, sizes, options)?;
    check_sinks(lse, sizes, options)?;
    Ok(Need {
        sizes,
        ranks,
        // Without a mask, the order of keys does not matter.
        chunks: if options.is_masked() {
            options.placement.chunks()
        } else {
            1
        },
        is_causal: options.causal,
        element_bytes: size_of::<T>(),
    })
}

/// The sizes that all ranks have.
fn sizes_of_all<T: Operand>(ranks: usize, tensors: Tensors<'_, '_, T>) -> Result<Sizes> {
    let Tensors { qkv, out, lse } = tensors;
    let of_rank = |rank: usize| {
        let [q, k, v] = qkv.map(|views| &views[rank]);
        let sizes = check_tensors([q, k, v], &out[rank], lse[rank])
            .map_err(|error| found_at(error, &format!(" on rank {rank}")))?;
        check_memory(rank, [q, k, v], &out[rank])?;
        Ok::<Sizes, Error>(sizes)
    };
    let sizes = of_rank(0)?;
    for rank in 1..ranks {
        of_rank(rank)?;
        for (name, views) in [("q", qkv[0]), ("k", qkv[1]), ("v", qkv[2])] {
            let [first, shape] = [0, rank].map(|rank| &views[rank].place().shape);
            let found = || format!("shape {shape:?} on rank {rank}");
            let expected = format!("{first:?}, as on rank 0");
            expect(shape == first, name, found, expected)?;
        }
    }
    Ok(sizes)
}

fn check_sizes<T: Operand>(ranks: usize, sizes: Sizes, options: &RingOptions<'_>) -> Result<()> {
    let built = masked::<T, Plain>();
    let built = check_built(sizes.depths, built.iter().map(|row| row.depths));
    built.map_err(|error| found_at(error, ""))?;
    let Sizes { queries, keys, .. } = sizes;
    let expected = format!("{queries}, those of q");
    expect(keys == queries, "k", || format!("{keys} tokens"), expected)?;
    let all = keys.saturating_mul(ranks);
    let found = || format!("{all} tokens of all ranks");
    expect(all <= MOST, "k", found, format!("at most {MOST}"))?;
    let is_whole = keys.is_multiple_of(options.placement.chunks());
    let found = || format!("{queries} tokens");
    expect(
        options.placement == Placement::Contiguous || is_whole,
        "q",
        found,
        "an even number: two chunks of equal lengths (options.placement)",
    )?;
    let factors = Options {
        causal: options.causal,
        window: options.window,
        scale: options.scale,
        softcap: options.softcap,
        ..Options::default()
    };
    check_factors(&factors, sizes.heads).map_err(|error| found_at(error, ""))
}

/// Sinks of each rank.
fn check_sinks(lse: &[&Buffer<f32>], sizes: Sizes, options: &RingOptions<'_>) -> Result<()> {
    let ranks = lse.len();
    let Some(sinks) = options.sinks else {
        return Ok(());
    };
    let found = || format!("{} buffers", sinks.len());
    let expected = format!("{ranks}: one for each rank");
    expect(sinks.len() == ranks, "options.sinks", found, expected)?;
    for (rank, sinks) in sinks.iter().enumerate() {
        let factors = Options {
            sinks: Some(sinks),
            ..Options::default()
        };
        let checked = check_factors(&factors, sizes.heads)
            .and_then(|()| check_lse_apart(lse[rank], [("options.sinks", Some(sinks))]));
        checked.map_err(|error| found_at(error, &format!(" on rank {rank}")))?;
    }
    Ok(())
}

/// Checks a call for gradients, of which `dout` is the gradient of the output.
pub(super) fn check_gradients<T: Operand>(
    ranks: usize,
    tensors: Tensors<'_, '_, T>,
    (dout, gradients): (&[View<'_, T>], [&[View<'_, T>]; 3]),
    options: &RingOptions<'_>,
) -> Result<Need> {
    let need = check(ranks, tensors, options)?;
    let scale = Options {
        scale: options.scale,
        ..Options::default()
    };
    let checked = check_scale(scale_of(&scale, need.sizes))
        .and_then(|()| check_lines(need.sizes, &Options::default()));
    checked.map_err(|error| found_at(error, ""))?;
    let [q, k, v] = tensors.qkv;
    let [dq, dk, dv] = gradients;
    let pairs = [
        ("dout", dout, tensors.out),
        ("dq", dq, q),
        ("dk", dk, k),
        ("dv", dv, v),
    ];
    for (name, views, like) in pairs {
        let found = || format!("{} tensors", views.len());
        let expected = format!("{ranks}: one for each rank");
        expect(views.len() == ranks, name, found, expected)?;
        for (rank, (view, like)) in views.iter().zip(like).enumerate() {
            let place = |error| found_at(error, &format!(" on rank {rank}"));
            let (shape, expected) = (extents(name, view).map_err(place)?, &like.place().shape);
            let found = || format!("shape {shape:?} on rank {rank}");
            expect(
                shape[..] == expected[..],
                name,
                found,
                format!("{expected:?}"),
            )?;
            check_strides(name, view).map_err(place)?;
        }
    }
    for rank in 0..ranks {
        check_apart(
            rank,
            tensors,
            (&dout[rank], gradients.map(|views| &views[rank])),
        )?;
    }
    Ok(need)
}

/// Checks that gradients share no element with another tensor of the rank.
fn check_apart<T: DeviceElement>(
    rank: usize,
    Tensors { qkv, out, .. }: Tensors<'_, '_, T>,
    (dout, gradients): (&View<'_, T>, [&View<'_, T>; 3]),
) -> Result<()> {
    let [q, k, v] = qkv.map(|views| &views[rank]);
    let read = [
        ("q", q),
        ("k", k),
        ("v", v),
        ("out", &out[rank]),
        ("dout", dout),
    ];
    let names = ["dq", "dk", "dv"];
    for (at, gradient) in gradients.into_iter().enumerate() {
        let elements = Elements::of(gradient);
        let found = || format!("strides by which elements are in the same place on rank {rank}");
        let expected = "a place for each element, since it is written";
        expect(elements.are_apart(), names[at], found, expected)?;
        let before = names.into_iter().zip(gradients).take(at);
        for (name, view) in read.into_iter().chain(before) {
            let is_apart = elements.overlap(&Elements::of(view)) == Overlap::None;
            let found = || format!("memory of {name} on rank {rank}");
            expect(is_apart, names[at], found, "memory of its own")?;
        }
    }
    Ok(())
}

/// Checks that each element of the output has a place of its own: Q, K and V are read until all ranks are done.
fn check_memory<T: DeviceElement>(
    rank: usize,
    qkv: [&View<'_, T>; 3],
    out: &View<'_, T>,
) -> Result<()> {
    let elements = Elements::of(out);
    let found = || format!("strides by which elements are in the same place on rank {rank}");
    let expected = "a place for each element, since it is written";
    expect(elements.are_apart(), "out", found, expected)?;
    for (name, view) in ["q", "k", "v"].into_iter().zip(qkv) {
        let is_apart = elements.overlap(&Elements::of(view)) == Overlap::None;
        let found = || format!("memory of {name} on rank {rank}");
        expect(is_apart, "out", found, "memory of its own")?;
    }
    Ok(())
}
