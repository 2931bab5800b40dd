//! Checks of the arguments of a call that attends to a cache.

use tilekit::prelude::*;

use super::call::{Cache, CacheScales};
use super::table::{CacheElement, caches, is_scaled};
use crate::attention::check::{
    MOST, check_built, check_inside, check_lse_apart, check_not_empty, check_results,
    check_strides, extents,
};
use crate::attention::error::{Result, expect};
use crate::attention::modifier::Plain;
use crate::attention::options::Options;
use crate::attention::plan::Sizes;
use crate::attention::table::Operand;
use crate::attention::written::check_written;
use crate::overlap::Elements;

/// The facts of a valid call that a launch needs. `keys` of the sizes is the capacity of a sequence in tokens.
#[derive(Clone, Copy, Debug)]
pub(in crate::attention) struct CheckedCache {
    pub(super) sizes: Sizes,
    pub(super) scale: f32,
    /// Tokens of a page, and pages of a sequence.
    pub(super) page: usize,
    pub(super) pages: usize,
}

/// Checks a call; the error names the first invalid argument.
pub(in crate::attention) fn check_decode<T: Operand, C: CacheElement<T>>(
    q: &TensorView<'_, T>,
    cache: &Cache<'_, C>,
    out: &TensorView<'_, T>,
    lse: &Buffer<f32>,
    options: &Options<'_>,
) -> Result<CheckedCache> {
    let checked = check_decode_inputs(q, cache, options)?;
    let Sizes {
        batch,
        heads,
        queries,
        depths: [_, columns],
        ..
    } = checked.sizes;
    let expected = [batch, heads, queries, columns];
    check_results(expected, extents("out", out)?, lse)?;
    check_strides("out", out)?;
    let read = [
        ("q", Elements::bytes_of(q)),
        ("cache.keys", Elements::bytes_of(cache.keys)),
        ("cache.values", Elements::bytes_of(cache.values)),
    ];
    check_written(("out", out), &read)?;
    let scales = cache.scales;
    let numbers = [
        ("options.alibi", options.alibi),
        ("options.sinks", options.sinks),
        (
            "cache.scales.keys",
            scales.map(|scales| scales.keys.source()),
        ),
        (
            "cache.scales.values",
            scales.map(|scales| scales.values.source()),
        ),
    ];
    check_lse_apart(lse, numbers)?;
    Ok(checked)
}

/// Checks what a call reads: all that may be wrong before there are results.
pub(in crate::attention) fn check_decode_inputs<T: Operand, C: CacheElement<T>>(
    q: &TensorView<'_, T>,
    cache: &Cache<'_, C>,
    options: &Options<'_>,
) -> Result<CheckedCache> {
    let of_q = extents("q", q)?;
    let of_k = extents("cache.keys", cache.keys)?;
    let of_v = extents("cache.values", cache.values)?;
    let [batch, heads, queries, depth] = of_q;
    check_not_empty("q", of_q, &["batch", "heads", "tokens", "depth"])?;
    check_not_empty("cache.keys", of_k, &["pages", "heads", "tokens"])?;
    let kv_heads = of_k[1];
    expect(
        heads.is_multiple_of(kv_heads),
        "cache.keys",
        || format!("heads {kv_heads}"),
        format!("a divisor of q's {heads} heads"),
    )?;
    expect(
        of_k[3] == depth,
        "cache.keys",
        || format!("depth {}", of_k[3]),
        format!("{depth}, that of q"),
    )?;
    expect(
        of_v[..3] == of_k[..3],
        "cache.values",
        || format!("pages, heads and tokens {:?}", &of_v[..3]),
        format!("{:?}, those of cache.keys", &of_k[..3]),
    )?;
    check_strides("q", q)?;
    check_strides("cache.keys", cache.keys)?;
    check_strides("cache.values", cache.values)?;
    check_instances::<T, C>([depth, of_v[3]], heads / kv_heads)?;
    let (page, pages) = check_pages(cache, of_k, batch)?;
    check_scales(cache.scales, of_k, is_scaled::<T, C>())?;
    check_lengths_of_cache(cache.lengths, batch)?;
    check_options(options, heads)?;
    Ok(CheckedCache {
        sizes: Sizes {
            batch,
            heads,
            kv_heads,
            queries,
            keys: page * pages,
            depths: [depth, of_v[3]],
        },
        scale: options.scale.unwrap_or(1.0 / (depth as f32).sqrt()),
        page,
        pages,
    })
}

fn check_instances<T: Operand, C: CacheElement<T>>(depths: [usize; 2], group: usize) -> Result<()> {
    let instances = caches::<T, C, Plain>();
    check_built(depths, instances.iter().map(|row| row.instance.depths))?;
    let most = instances
        .iter()
        .map(|row| row.instance.tile.pack)
        .max()
        .unwrap_or(0);
    expect(
        group <= most,
        "q",
        || format!("{group} heads for each head of the cache"),
        format!("at most {most}"),
    )
}

/// Checks that each sequence of a cache has its length.
pub(in crate::attention) fn check_lengths_of_cache(
    lengths: &Buffer<i32>,
    batch: usize,
) -> Result<()> {
    let lengths = lengths.len();
    expect(
        lengths == batch,
        "cache.lengths",
        || format!("{lengths} elements"),
        format!("{batch}, one for each sequence"),
    )
}

/// The entries that a table of pages has for each sequence.
pub(in crate::attention) fn pages_of_a_sequence(
    table: &Buffer<i32>,
    batch: usize,
) -> Result<usize> {
    let entries = table.len();
    expect(
        entries > 0 && entries.is_multiple_of(batch),
        "cache.table",
        || format!("{entries} entries"),
        format!("as many, 1 or more, for each of {batch} sequences"),
    )?;
    Ok(entries / batch)
}

/// Checks that a cache has factors if its elements are scaled, `[pages, heads, tokens]` as those of `of_k`.
pub(in crate::attention) fn check_scales(
    scales: Option<CacheScales<'_>>,
    of_k: [usize; 4],
    is_scaled: bool,
) -> Result<()> {
    let found = if is_scaled { "none" } else { "a value" };
    let expected = if is_scaled {
        "factors, since the cache has elements of 8 bits"
    } else {
        "none: the cache has the elements of q"
    };
    let found = || found.to_string();
    expect(
        scales.is_some() == is_scaled,
        "cache.scales",
        found,
        expected,
    )?;
    let Some(CacheScales { keys, values }) = scales else {
        return Ok(());
    };
    for (name, view) in [("cache.scales.keys", keys), ("cache.scales.values", values)] {
        let place = view.place();
        expect(
            place.shape == of_k[..3] && place.strides.len() == 3,
            name,
            || {
                format!(
                    "shape {:?} with {} strides",
                    place.shape,
                    place.strides.len()
                )
            },
            format!("{:?}, pages, heads and tokens of cache.keys", &of_k[..3]),
        )?;
        check_inside(name, view)?;
    }
    Ok(())
}

/// Tokens of a page, and pages of a sequence.
pub(in crate::attention) fn check_pages<C: DeviceElement>(
    cache: &Cache<'_, C>,
    of_k: [usize; 4],
    batch: usize,
) -> Result<(usize, usize)> {
    const UNIT: usize = 16;
    let Some(table) = cache.table else {
        expect(
            of_k[0] == batch,
            "cache.keys",
            || format!("batch {}", of_k[0]),
            format!("{batch}, one for each sequence, without a table of pages"),
        )?;
        return Ok((of_k[2], 1));
    };
    let page = of_k[2];
    expect(
        page.is_multiple_of(UNIT),
        "cache.keys",
        || format!("pages of {page} tokens"),
        format!("a multiple of {UNIT}"),
    )?;
    let pages = pages_of_a_sequence(table, batch)?;
    let tokens = pages.saturating_mul(page);
    expect(
        tokens <= MOST,
        "cache.table",
        || format!("room for {tokens} tokens of a sequence"),
        format!("at most {MOST}"),
    )?;
    Ok((page, pages))
}

fn check_options(options: &Options<'_>, heads: usize) -> Result<()> {
    for (name, is_there) in [
        ("options.chunk", options.chunk.is_some()),
        ("options.lengths", options.lengths.is_some()),
        ("options.from_first", options.from_first),
        ("options.dropout", options.dropout.is_some()),
    ] {
        expect(
            !is_there,
            name,
            || "a value".to_string(),
            "none: a sequence has the length that cache.lengths says, and its last query is at its last key",
        )?;
    }
    crate::attention::check::check_factors(options, heads)
}
