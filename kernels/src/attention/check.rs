//! Checks of the arguments of a call.

use tilekit::TensorPlace;
use tilekit::prelude::*;

use super::error::{Result, expect};
use super::mainloop::problem::ROWS;
use super::modifier::{Alibi, Modifier, Plain};
use super::options::{Lengths, Options};
use super::plan::{Mask, Sizes};
use super::table::{Operand, masked};

/// The most elements that 32-bit indices address.
pub(super) const MOST: usize = 1 << 28;

/// The facts of a valid call that a launch needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked {
    pub(super) sizes: Sizes,
    pub(super) mask: Mask,
    pub(super) scale: f32,
}

/// Elements from one batch, head and token of a tensor to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strides {
    pub(super) batch: usize,
    pub(super) head: usize,
    pub(super) token: usize,
}

impl Strides {
    /// The strides of a view of four dimensions. No index multiplies that of an extent of 1, which may be any number: it is 0 here, as kernels may rely on multiples of 8.
    pub(super) fn of<T: DeviceElement>(view: &TensorView<'_, T>) -> Strides {
        let place = view.place();
        let stride = |dim: usize| {
            if place.shape[dim] > 1 {
                place.strides[dim]
            } else {
                0
            }
        };
        Strides {
            batch: stride(0),
            head: stride(1),
            token: stride(2),
        }
    }

    /// Of batches, heads and tokens, as kernels take them.
    pub(super) fn numbers(self) -> [i64; 3] {
        [self.batch, self.head, self.token].map(|stride| stride as i64)
    }
}

/// Checks a call; the error names the first invalid argument.
pub(super) fn check<T: Operand>(
    qkv: [&TensorView<'_, T>; 3],
    out: &TensorView<'_, T>,
    lse: &Buffer<f32>,
    options: &Options<'_>,
) -> Result<Checked> {
    let checked = check_inputs(qkv, options)?;
    check_output(qkv, out, lse)?;
    check_lse_apart(
        lse,
        [
            ("options.alibi", options.alibi),
            ("options.sinks", options.sinks),
        ],
    )?;
    Ok(checked)
}

/// Checks what a call reads: all that may be wrong before there are results.
pub(super) fn check_inputs<T: Operand>(
    qkv: [&TensorView<'_, T>; 3],
    options: &Options<'_>,
) -> Result<Checked> {
    let sizes = sizes_of(qkv)?;
    check_depths::<T>(sizes.depths)?;
    let sizes = match options.lengths {
        Some(lengths) => check_lengths(lengths, sizes, options)?,
        None => sizes,
    };
    check_options(options, sizes)?;
    Ok(Checked {
        sizes,
        mask: options.mask(),
        scale: scale_of(options, sizes),
    })
}

/// Checks that LSE has memory of its own: other threads read the numbers of heads while it is written.
pub(super) fn check_lse_apart<const N: usize>(
    lse: &Buffer<f32>,
    read: [(&str, Option<&Buffer<f32>>); N],
) -> Result<()> {
    for (name, numbers) in read {
        let is_apart = |numbers: &Buffer<f32>| lse.is_empty() || numbers.address() != lse.address();
        expect(
            numbers.is_none_or(is_apart),
            "lse",
            || format!("the memory of {name}"),
            "memory of its own",
        )?;
    }
    Ok(())
}

/// The factor of scores.
pub(super) fn scale_of(options: &Options<'_>, sizes: Sizes) -> f32 {
    let depth = sizes.depths[0] as f32;
    options.scale.unwrap_or(1.0 / depth.sqrt())
}

/// Checks shapes and strides of tensors, whose output may have another element type.
pub(super) fn check_tensors<T: DeviceElement, O: DeviceElement>(
    qkv: [&TensorView<'_, T>; 3],
    out: &TensorView<'_, O>,
    lse: &Buffer<f32>,
) -> Result<Sizes> {
    let sizes = sizes_of(qkv)?;
    check_output(qkv, out, lse)?;
    Ok(sizes)
}

/// Checks the output of `[q, k, v]`, which have been checked.
fn check_output<T: DeviceElement, O: DeviceElement>(
    [q, _, v]: [&TensorView<'_, T>; 3],
    out: &TensorView<'_, O>,
    lse: &Buffer<f32>,
) -> Result<()> {
    let (of_q, of_v) = (&q.place().shape, &v.place().shape);
    let expected = [of_q[0], of_q[1], of_q[2], of_v[3]];
    check_results(expected, extents("out", out)?, lse)?;
    check_strides("out", out)
}

/// Checks shapes and strides of `[q, k, v]`.
pub(super) fn sizes_of<T: DeviceElement>([q, k, v]: [&TensorView<'_, T>; 3]) -> Result<Sizes> {
    let of_q = extents("q", q)?;
    let of_k = extents("k", k)?;
    let of_v = extents("v", v)?;
    check_shapes([of_q, of_k, of_v])?;
    for (name, view) in [("q", q), ("k", k), ("v", v)] {
        check_strides(name, view)?;
    }
    let [batch, heads, queries, depth] = of_q;
    Ok(Sizes {
        batch,
        heads,
        kv_heads: of_k[1],
        queries,
        keys: of_k[2],
        depths: [depth, of_v[3]],
    })
}

/// Checks that the output has the `expected` extents, and `lse` a number for each row.
pub(super) fn check_results(
    expected: [usize; 4],
    of_out: [usize; 4],
    lse: &Buffer<f32>,
) -> Result<()> {
    expect(
        of_out == expected,
        "out",
        || format!("shape {of_out:?}"),
        format!("{expected:?}"),
    )?;
    let [batch, heads, queries, _] = expected;
    let rows = batch.saturating_mul(heads).saturating_mul(queries);
    expect(
        lse.len() == rows && rows <= MOST,
        "lse",
        || format!("{} elements", lse.len()),
        format!("{rows}: one for each query of each head, at most {MOST}"),
    )
}

/// The rows of results of so many batches, heads and tokens, of which views that repeat elements may have any number.
pub(super) fn rows_of(name: &'static str, extents: [usize; 3]) -> Result<usize> {
    let rows = extents.into_iter().fold(1, usize::saturating_mul);
    expect(
        rows <= MOST,
        name,
        || format!("batch, heads and tokens {extents:?}"),
        format!("at most {MOST} rows in all"),
    )?;
    Ok(rows)
}

/// One element past the last.
fn end_of(place: &TensorPlace) -> u128 {
    if place.shape.contains(&0) {
        return 0;
    }
    let dims = place.shape.iter().zip(&place.strides);
    let reaches = dims.map(|(&extent, &stride)| (extent as u128 - 1) * stride as u128);
    place.offset as u128 + reaches.sum::<u128>() + 1
}

/// Batches, heads, tokens and depth of a view, which lies inside of its buffer.
pub(super) fn extents<T: DeviceElement>(
    name: &'static str,
    view: &TensorView<'_, T>,
) -> Result<[usize; 4]> {
    let place = view.place();
    let (rank, steps) = (place.shape.len(), place.strides.len());
    expect(
        rank == 4 && steps == 4,
        name,
        || format!("{rank} dimensions and {steps} strides"),
        "4 of each: batch, heads, tokens, depth",
    )?;
    let shape = std::array::from_fn(|dim| place.shape[dim]);
    let most = shape.iter().copied().max().unwrap_or(0);
    expect(
        most <= MOST,
        name,
        || format!("shape {shape:?}"),
        format!("at most {MOST} along a dimension"),
    )?;
    check_inside(name, view)?;
    Ok(shape)
}

/// Checks that a view lies inside of its buffer.
pub(super) fn check_inside<T: DeviceElement>(
    name: &'static str,
    view: &TensorView<'_, T>,
) -> Result<()> {
    let (end, room) = (end_of(view.place()), view.source().len());
    expect(
        end <= room as u128,
        name,
        || format!("a tensor that ends at element {end}"),
        format!("one inside of its buffer of {room} elements"),
    )
}

/// Checks that the shapes of Q, K and V fit together.
fn check_shapes([q, k, v]: [[usize; 4]; 3]) -> Result<()> {
    let names = ["batch", "heads", "tokens", "depth"];
    check_not_empty("q", q, &names)?;
    let found = |name: &str, is: usize| format!("{name} {is}");
    expect(
        k[0] == q[0],
        "k",
        || found("batch", k[0]),
        format!("{}, that of q", q[0]),
    )?;
    expect(
        k[3] == q[3],
        "k",
        || found("depth", k[3]),
        format!("{}, that of q", q[3]),
    )?;
    expect(
        k[1] > 0 && q[1].is_multiple_of(k[1]),
        "k",
        || found("heads", k[1]),
        format!("a divisor of q's {} heads", q[1]),
    )?;
    for (dim, name) in names.iter().enumerate().take(3) {
        expect(
            v[dim] == k[dim],
            "v",
            || found(name, v[dim]),
            format!("{}, that of k", k[dim]),
        )?;
    }
    let rows = q[0].saturating_mul(q[1]).saturating_mul(q[2]);
    expect(
        rows <= MOST,
        "q",
        || format!("{rows} rows in all heads"),
        format!("at most {MOST}"),
    )
}

/// Checks the strides against the rules of a tensor map.
pub(super) fn check_strides<T: DeviceElement>(
    name: &'static str,
    view: &TensorView<'_, T>,
) -> Result<()> {
    const UNIT_BYTES: usize = 16;
    let unit = UNIT_BYTES / size_of::<T>();
    let place = view.place();
    let last = place.strides[3];
    expect(
        last == 1,
        name,
        || format!("a stride of {last} along the depth"),
        "1",
    )?;
    let found = || format!("an offset of {} elements", place.offset);
    let expected = format!("a multiple of {unit}, {UNIT_BYTES} bytes");
    expect(
        place.offset.is_multiple_of(unit),
        name,
        found,
        expected.as_str(),
    )?;
    for (dim, of) in ["batches", "heads", "tokens"].into_iter().enumerate() {
        let stride = place.strides[dim];
        let is_used = place.shape[dim] > 1;
        expect(
            !is_used || stride.is_multiple_of(unit),
            name,
            || format!("a stride of {stride} elements from one of the {of} to the next"),
            expected.as_str(),
        )?;
    }
    Ok(())
}

fn check_depths<T: Operand>(depths: [usize; 2]) -> Result<()> {
    let built = masked::<T, Plain>();
    check_built(depths, built.iter().map(|row| row.depths))
}

/// Checks that the first dimensions of a tensor, which have these names, have an extent.
pub(super) fn check_not_empty(
    argument: &'static str,
    extents: [usize; 4],
    names: &[&str],
) -> Result<()> {
    for (extent, name) in extents.into_iter().zip(names) {
        let found = || format!("{name} {extent}");
        expect(extent > 0, argument, found, format!("{name} of 1 or more"))?;
    }
    Ok(())
}

/// Checks that depths are among those that are built.
pub(super) fn check_built(
    depths: [usize; 2],
    built: impl IntoIterator<Item = [usize; 2]>,
) -> Result<()> {
    let mut built: Vec<[usize; 2]> = built.into_iter().collect();
    built.sort_unstable();
    built.dedup();
    let list: Vec<String> = built
        .iter()
        .map(|[depth, values]| format!("{depth}/{values}"))
        .collect();
    let [depth, values] = depths;
    expect(
        built.contains(&depths),
        "q",
        || format!("depth {depth} with values of {values}"),
        format!("one that is built (depth/values): {}", list.join(", ")),
    )
}

/// Checks the offsets and lengths of sequences of several lengths.
fn check_lengths(lengths: Lengths<'_>, sizes: Sizes, options: &Options<'_>) -> Result<Sizes> {
    let Lengths {
        query_offsets,
        key_offsets,
        longest,
        longest_keys,
    } = lengths;
    let of_q = query_offsets.len();
    expect(
        of_q >= 2,
        "options.lengths.query_offsets",
        || format!("{of_q} offsets"),
        "2 or more: a begin for each sequence and the last end",
    )?;
    let of_k = key_offsets.len();
    expect(
        of_k == of_q,
        "options.lengths.key_offsets",
        || format!("{of_k} offsets"),
        format!("{of_q}, as many as query_offsets"),
    )?;
    let batch = sizes.batch;
    expect(
        batch == 1,
        "q",
        || format!("batch {batch}"),
        "1, since options.lengths says where sequences begin",
    )?;
    let queries = sizes.queries;
    expect(
        (1..=queries).contains(&longest),
        "options.lengths.longest",
        || longest.to_string(),
        format!("1 to q's {queries} tokens"),
    )?;
    let keys = sizes.keys;
    expect(
        longest_keys <= keys && (longest_keys > 0 || keys == 0),
        "options.lengths.longest_keys",
        || longest_keys.to_string(),
        format!("1 to k's {keys} tokens"),
    )?;
    expect(
        !options.from_first,
        "options.from_first",
        || "true beside lengths".to_string(),
        "false: places count from the end of each sequence",
    )?;
    for (name, longest, heads) in [
        ("options.lengths.longest", longest, sizes.heads),
        ("options.lengths.longest_keys", longest_keys, sizes.kv_heads),
    ] {
        check_tiles(name, longest, [of_q - 1, heads])?;
    }
    Ok(Sizes {
        batch: of_q - 1,
        queries: longest,
        keys: longest_keys,
        ..sizes
    })
}

/// Checks that 32-bit numbers count the tiles of sequences that may all be as long as the longest.
fn check_tiles(name: &'static str, longest: usize, [sequences, heads]: [usize; 2]) -> Result<()> {
    const MOST_TILES: usize = i32::MAX as usize;
    let of_head = longest.div_ceil(ROWS);
    let tiles = of_head.saturating_mul(sequences).saturating_mul(heads);
    expect(
        tiles <= MOST_TILES,
        name,
        || format!("{longest} for each of {sequences} sequences"),
        format!(
            "a bound by which there are at most {MOST_TILES} tiles of {ROWS} tokens in all heads"
        ),
    )
}

/// Checks the options that do not depend on the number of keys.
pub(super) fn check_factors(options: &Options<'_>, heads: usize) -> Result<()> {
    for (name, value) in [
        ("options.scale", options.scale),
        ("options.softcap", options.softcap),
    ] {
        let is_right = value.is_none_or(|value| value.is_finite() && value > 0.0);
        expect(
            is_right,
            name,
            || format!("{value:?}"),
            "a finite number above 0",
        )?;
    }
    expect(
        options.softcap.is_none() || options.alibi.is_none(),
        "options.softcap",
        || "softcap beside alibi".to_string(),
        "one of them; a `Modifier` can do both",
    )?;
    for (name, buffer) in [
        ("options.alibi", options.alibi),
        ("options.sinks", options.sinks),
    ] {
        let is_right = buffer.is_none_or(|buffer| buffer.len() == heads);
        let found = || format!("{} elements", buffer.map_or(0, Buffer::len));
        expect(
            is_right,
            name,
            found,
            format!("{heads}, one for each head of q"),
        )?;
    }
    let rate = options.dropout.map_or(0.0, |dropout| dropout.rate);
    expect(
        (0.0..1.0).contains(&rate),
        "options.dropout",
        || format!("a rate of {rate}"),
        "0 or more, and less than 1",
    )?;
    let behind = options.window[1];
    let is_right = !options.causal || behind.is_none_or(|behind| behind == 0);
    expect(
        is_right,
        "options.window",
        || format!("{} keys behind", behind.unwrap_or(0)),
        "none or 0 with causal",
    )
}

/// By the positions that a modifier reads the last query has the last key's, whatever the mask counts from.
pub(super) fn check_positions<M: Modifier>(options: &Options<'_>, sizes: Sizes) -> Result<()> {
    let (queries, keys) = (sizes.queries, sizes.keys);
    expect(
        !M::READS_PLACE || !options.from_first || queries == keys,
        "options.from_first",
        || {
            format!(
                "true with {queries} queries and {keys} keys, beside slopes or a modifier that reads positions"
            )
        },
        "false, or as many queries as keys: those positions count from the last key",
    )
}

fn check_options(options: &Options<'_>, sizes: Sizes) -> Result<()> {
    check_factors(options, sizes.heads)?;
    if options.alibi.is_some() {
        check_positions::<Alibi>(options, sizes)?;
    }
    expect(
        options.chunk != Some(0),
        "options.chunk",
        || "0 keys".to_string(),
        "1 or more",
    )?;
    let (queries, keys) = (sizes.queries, sizes.keys);
    expect(
        options.chunk.is_none() || !options.from_first || queries == keys,
        "options.chunk",
        || format!("chunks that count from the first of {queries} queries and {keys} keys"),
        "as many queries as keys, or from_first false",
    )
}
