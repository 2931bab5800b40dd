//! Checks of the arguments of a call that appends to a cache.

use tilekit::prelude::*;

use super::call::{NewTokens, Rotary};
use super::kernel::{AppendForm, RotaryForm, Scaling};
use crate::attention::check::{MOST, check_not_empty, check_strides, extents};
use crate::attention::decode::call::Cache;
use crate::attention::decode::check::{check_lengths_of_cache, check_pages, check_scales};
use crate::attention::decode::table::{CacheElement, is_scaled};
use crate::attention::error::{Result, expect};
use crate::attention::table::Operand;
use crate::overlap::{Elements, Overlap, is_same_view};

/// The depths of rows.
const DEPTHS: [usize; 3] = [64, 128, 256];

/// The fewest pairs that are rotated.
const LEAST_PAIRS: usize = 8;

/// The facts of a valid call that a launch needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckedTokens {
    pub(super) form: AppendForm,
    /// Sequences, and new tokens of the longest.
    pub(super) batch: usize,
    pub(super) longest: usize,
    /// Tokens of a page, and pages of a sequence.
    pub(super) page: usize,
    pub(super) pages: usize,
    /// Rows of the tables of angles.
    pub(super) positions: usize,
}

/// Checks a call; the error names the first invalid argument.
pub(super) fn check_append<T: Operand, C: CacheElement<T>>(
    new: &NewTokens<'_, T>,
    cache: &Cache<'_, C>,
) -> Result<CheckedTokens> {
    let of_new = extents("new.keys", new.keys)?;
    let of_cache = extents("cache.keys", cache.keys)?;
    check_shapes(new, cache, of_new, of_cache)?;
    let (batch, longest) = check_sequences(new, of_new)?;
    let (page, pages) = check_pages(cache, of_cache, batch)?;
    check_lengths_of_cache(cache.lengths, batch)?;
    check_scales(cache.scales, of_cache, is_scaled::<T, C>())?;
    check_queries(new, of_new)?;
    let depth = of_new[3];
    let rotary = new.rotary.map(|rotary| check_rotary(rotary, depth));
    let (rotary, positions) = rotary.transpose()?.unzip();
    let scaling = scaling(new, cache)?;
    check_memory(new, cache)?;
    Ok(CheckedTokens {
        form: AppendForm {
            depth,
            rotary,
            scaling,
        },
        batch,
        longest,
        page,
        pages,
        positions: positions.unwrap_or(0),
    })
}

/// Checks new rows and cache against each other.
fn check_shapes<T: Operand, C: CacheElement<T>>(
    new: &NewTokens<'_, T>,
    cache: &Cache<'_, C>,
    of_new: [usize; 4],
    of_cache: [usize; 4],
) -> Result<()> {
    check_not_empty("new.keys", of_new, &["batch", "heads", "tokens", "depth"])?;
    let depth = of_new[3];
    expect(
        DEPTHS.contains(&depth),
        "new.keys",
        || format!("depth {depth}"),
        format!("one of {DEPTHS:?}"),
    )?;
    let of_values = extents("new.values", new.values)?;
    expect(
        of_values == of_new,
        "new.values",
        || format!("shape {of_values:?}"),
        format!("{of_new:?}, that of new.keys"),
    )?;
    check_not_empty("cache.keys", of_cache, &["pages", "heads", "tokens"])?;
    for (dim, name) in [(1, "heads"), (3, "depth")] {
        expect(
            of_cache[dim] == of_new[dim],
            "cache.keys",
            || format!("{name} {}", of_cache[dim]),
            format!("{}, that of new.keys", of_new[dim]),
        )?;
    }
    let of_values = extents("cache.values", cache.values)?;
    expect(
        of_values == of_cache,
        "cache.values",
        || format!("shape {of_values:?}"),
        format!("{of_cache:?}, that of cache.keys"),
    )?;
    check_strides("new.keys", new.keys)?;
    check_strides("new.values", new.values)?;
    check_strides("cache.keys", cache.keys)?;
    check_strides("cache.values", cache.values)
}

/// How many sequences there are, and the new tokens of the longest.
fn check_sequences<T: DeviceElement>(
    new: &NewTokens<'_, T>,
    of_new: [usize; 4],
) -> Result<(usize, usize)> {
    /// The extent of a grid's second dimension.
    const MOST_SEQUENCES: usize = tilekit::target::SM_90A.grid[1] as usize;
    let [batch, _, tokens, _] = of_new;
    let (batch, longest) = match new.lengths {
        None => (batch, tokens),
        Some(lengths) => {
            let offsets = lengths.offsets.len();
            expect(
                offsets >= 2,
                "new.lengths.offsets",
                || format!("{offsets} offsets"),
                "2 or more: a begin for each sequence and the last end",
            )?;
            expect(
                batch == 1,
                "new.keys",
                || format!("batch {batch}"),
                "1, since new.lengths says where sequences begin",
            )?;
            expect(
                (1..=tokens).contains(&lengths.longest),
                "new.lengths.longest",
                || lengths.longest.to_string(),
                format!("1 to the {tokens} tokens of new.keys"),
            )?;
            (offsets - 1, lengths.longest)
        }
    };
    expect(
        batch <= MOST_SEQUENCES,
        "new.keys",
        || format!("{batch} sequences"),
        format!("at most {MOST_SEQUENCES}"),
    )?;
    let heads = new
        .queries
        .map_or(0, |[from, _]| crate::attention::call::extent(from, 1));
    let rows = longest.saturating_mul(heads + 2 * of_new[1]);
    expect(
        rows <= MOST,
        "new.keys",
        || format!("{rows} rows of a sequence, those of queries and values among them"),
        format!("at most {MOST}"),
    )?;
    Ok((batch, longest))
}

/// Checks queries, and that they are rotated in place or to other memory.
fn check_queries<T: Operand>(new: &NewTokens<'_, T>, of_new: [usize; 4]) -> Result<()> {
    let Some([from, to]) = new.queries else {
        return Ok(());
    };
    let of_from = extents("new.queries[0]", from)?;
    let expected = [of_new[0], of_from[1], of_new[2], of_new[3]];
    expect(
        of_from == expected && of_from[1] > 0,
        "new.queries[0]",
        || format!("shape {of_from:?}"),
        format!("{expected:?} with 1 head or more, tokens and depth as those of new.keys"),
    )?;
    let of_to = extents("new.queries[1]", to)?;
    expect(
        of_to == of_from,
        "new.queries[1]",
        || format!("shape {of_to:?}"),
        format!("{of_from:?}, that of new.queries[0]"),
    )?;
    check_strides("new.queries[0]", from)?;
    check_strides("new.queries[1]", to)?;
    check_apart("new.queries[1]", &Elements::of(to))?;
    Ok(())
}

/// Checks that what is written has memory of its own: it is neither read, except for queries that are rotated in place, nor written twice.
fn check_memory<T: DeviceElement, C: DeviceElement>(
    new: &NewTokens<'_, T>,
    cache: &Cache<'_, C>,
) -> Result<()> {
    check_apart("cache.keys", &Elements::of(cache.keys))?;
    check_apart("cache.values", &Elements::of(cache.values))?;
    let mut written = vec![
        ("cache.keys", Elements::bytes_of(cache.keys)),
        ("cache.values", Elements::bytes_of(cache.values)),
    ];
    let mut read = vec![
        ("new.keys", Elements::bytes_of(new.keys)),
        ("new.values", Elements::bytes_of(new.values)),
        ("cache.lengths", all_of(cache.lengths)),
    ];
    if let Some(scales) = cache.scales {
        let of_scales = [
            ("cache.scales.keys", Elements::bytes_of(scales.keys)),
            ("cache.scales.values", Elements::bytes_of(scales.values)),
        ];
        let kind = if new.computes_scales {
            &mut written
        } else {
            &mut read
        };
        kind.extend(of_scales);
    }
    if let Some([from, to]) = new.queries {
        if !is_same_view(from, to) {
            read.push(("new.queries[0]", Elements::bytes_of(from)));
        }
        written.push(("new.queries[1]", Elements::bytes_of(to)));
    }
    if let Some(rotary) = new.rotary {
        read.push(("new.rotary.cos", all_of(rotary.cos)));
        read.push(("new.rotary.sin", all_of(rotary.sin)));
    }
    read.extend(cache.table.map(|table| ("cache.table", all_of(table))));
    let offsets = new.lengths.map(|lengths| lengths.offsets);
    read.extend(offsets.map(|offsets| ("new.lengths.offsets", all_of(offsets))));
    for (at, (name, elements)) in written.iter().enumerate() {
        for (other, of_other) in written[..at].iter().chain(&read) {
            expect(
                elements.overlap(of_other) == Overlap::None,
                name,
                || format!("some of the memory of {other}"),
                match *other {
                    "new.queries[0]" if *name == "new.queries[1]" => {
                        "the same view, or memory of its own"
                    }
                    _ => "memory of its own, since it is written",
                },
            )?;
        }
    }
    Ok(())
}

fn all_of<T: DeviceElement>(buffer: &Buffer<T>) -> Elements {
    Elements::bytes_of(&buffer.view([buffer.len()]))
}

fn check_apart(name: &'static str, elements: &Elements) -> Result<()> {
    expect(
        elements.are_apart(),
        name,
        || "strides by which elements are in the same place".to_string(),
        "a place for each element, since it is written",
    )
}

/// The rotation of rows of so many columns, and the rows of the tables.
fn check_rotary(rotary: Rotary<'_>, depth: usize) -> Result<(RotaryForm, usize)> {
    let Rotary {
        cos,
        sin,
        pairs,
        interleaved,
    } = rotary;
    expect(
        pairs.is_power_of_two() && (LEAST_PAIRS..=depth / 2).contains(&pairs),
        "new.rotary.pairs",
        || pairs.to_string(),
        format!(
            "a power of two from {LEAST_PAIRS} to {}, half of a row",
            depth / 2
        ),
    )?;
    let (elements, positions) = (cos.len(), cos.len() / pairs);
    expect(
        positions > 0 && elements.is_multiple_of(pairs) && positions <= MOST,
        "new.rotary.cos",
        || format!("{elements} elements"),
        format!("{pairs} for each of 1 to {MOST} positions"),
    )?;
    expect(
        sin.len() == elements,
        "new.rotary.sin",
        || format!("{} elements", sin.len()),
        format!("{elements}, as many as new.rotary.cos"),
    )?;
    let form = RotaryForm {
        pairs,
        is_interleaved: interleaved,
    };
    Ok((form, positions))
}

/// Where the factors of 8-bit rows come from.
fn scaling<T: Operand, C: CacheElement<T>>(
    new: &NewTokens<'_, T>,
    cache: &Cache<'_, C>,
) -> Result<Scaling> {
    expect(
        is_scaled::<T, C>() || !new.computes_scales,
        "new.computes_scales",
        || "true".to_string(),
        "false: the cache has the elements of the new rows",
    )?;
    let Some(scales) = cache.scales else {
        return Ok(Scaling::None);
    };
    if !new.computes_scales {
        return Ok(Scaling::Given);
    }
    let [keys, values] = [scales.keys, scales.values].map(Elements::of);
    for (name, elements) in [
        ("cache.scales.keys", &keys),
        ("cache.scales.values", &values),
    ] {
        expect(
            elements.are_apart(),
            name,
            || "a scale that several rows share".to_string(),
            "one for each token and head, since new.computes_scales stores them",
        )?;
    }
    Ok(Scaling::Computed(C::LARGEST))
}
