//! Results of several sets of keys, merged, as a program calls it.

use tilekit::prelude::*;

use super::results::{ROWS, merge_results};
use crate::attention::call::{Attention, Forward, View, extent};
use crate::attention::check::{Strides, check_results, check_strides, extents, rows_of};
use crate::attention::decode::call::{Cache, three_strides};
use crate::attention::decode::check::check_decode_inputs;
use crate::attention::decode::table::CacheElement;
use crate::attention::error::{Error, Result, expect};
use crate::attention::options::Options;
use crate::attention::table::Operand;
use crate::handles::handles;
use crate::overlap::{Elements, Overlap, is_same_view};

/// The results of some keys.
#[derive(Clone, Copy)]
pub struct PartialResult<'a, T> {
    /// The output, `[batch, heads, tokens, depth]`. Rows are contiguous; other strides are multiples of 16 bytes.
    pub out: &'a TensorView<'a, T>,
    /// LSE, `[batch, heads, tokens]`: the natural logarithm of the sum of exponentials, -inf for a query that sees none of the keys, whose row is not read.
    pub lse: &'a Buffer<f32>,
}

/// The parameters of `merge_results`.
type ResultsHandles<A, B, O> = handles! {
    a: Ptr<A>,
    a_lse: Ptr<f32>,
    b: Ptr<B>,
    b_lse: Ptr<f32>,
    out: Ptr<O>,
    lse: Ptr<f32>,
    rows heads tokens: Scalar<i32>,
    a_strides b_strides out_strides a_lse_strides b_lse_strides: [Scalar<i64>; 3],
};

/// A tensor and its LSE, `[batch, heads, tokens]`.
type Pair<'a, T> = (&'a View<'a, T>, &'a View<'a, f32>);

impl Attention {
    /// Merges results of the same queries for several sets of keys, which have no key in common, to those of all of these keys, in new buffers.
    ///
    /// ```
    /// use tilekit::prelude::*;
    /// use tilekit_kernels::attention::{Attention, PartialResult};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::auto(); // a GPU where there is one, else the emulator
    /// let stream = Stream::new(&device)?;
    /// let [one, four] = [1.0, 4.0].map(|x| Buffer::from_slice(&device, &[bf16::from_f32(x); 64]));
    /// let (one, four) = (one?, four?);
    /// let [few, many] = [0.0, 2.0_f32.ln()].map(|lse| Buffer::from_slice(&device, &[lse]));
    /// let (few, many) = (few?, many?);
    /// let [one, four] = [&one, &four].map(|x| x.view([1, 1, 1, 64]));
    /// // Weights of 1/3 and 2/3.
    /// let parts = [PartialResult { out: &one, lse: &few }, PartialResult { out: &four, lse: &many }];
    /// let all = Attention::new(&device).merge(&stream, &parts)?;
    /// stream.synchronize()?;
    /// assert_eq!(all.out.to_vec()?, [bf16::from_f32(3.0); 64]);
    /// assert!((all.lse.to_vec()?[0] - 3.0_f32.ln()).abs() < 1e-6);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`](crate::attention::Error::Argument) for an argument that is not supported; otherwise an error of the device.
    pub fn merge<T: Operand>(
        &self,
        stream: &Stream,
        parts: &[PartialResult<'_, T>],
    ) -> Result<Forward<T>> {
        check_parts(parts)?;
        let of_first = parts[0].out;
        self.results(
            ("parts[0].out", of_first),
            extent(of_first, 3),
            |out, lse| self.merge_into(stream, parts, out, lse),
        )
    }

    /// [`merge`](Attention::merge) into `out`, which may be the view of a part, and into `lse`, which is other memory than that of the parts.
    ///
    /// # Errors
    /// As for [`merge`](Attention::merge).
    pub fn merge_into<T: Operand>(
        &self,
        stream: &Stream,
        parts: &[PartialResult<'_, T>],
        out: &View<'_, T>,
        lse: &Buffer<f32>,
    ) -> Result<()> {
        let shape = check_merge(parts, out, lse)?;
        let [batch, heads, tokens, columns] = shape;
        let (of_rows, rows) = ([batch, heads, tokens], batch * heads * tokens);
        let lines = parts.iter().map(|part| part.lse.view(of_rows));
        let lines: Vec<View<'_, f32>> = lines.collect();
        let to = (out, &lse.view(of_rows));
        let first = (parts[0].out, &lines[0]);
        let last = parts.len() - 1;
        if last == 1 {
            return self.launch_results(stream, shape, first, (parts[1].out, &lines[1]), to);
        }
        // Sums of all but the last part stay f32, in two places in turn.
        let _turn = stream.turn();
        let room = self.split_rows(stream, [2 * rows, columns])?;
        let places = [0, 1].map(|at| {
            let sums = room.sums.view(shape).with_offset(at * rows * columns);
            (sums, room.lse.view(of_rows).with_offset(at * rows))
        });
        let place = |at: usize| (&places[at % 2].0, &places[at % 2].1);
        self.launch_results(stream, shape, first, (parts[1].out, &lines[1]), place(1))?;
        for at in 2..last {
            let part = (parts[at].out, &lines[at]);
            self.launch_results(stream, shape, place(at - 1), part, place(at))?;
        }
        let part = (parts[last].out, &lines[last]);
        self.launch_results(stream, shape, place(last - 1), part, to)
    }

    fn launch_results<A, B, O>(
        &self,
        stream: &Stream,
        [batch, heads, tokens, columns]: [usize; 4],
        a: Pair<'_, A>,
        b: Pair<'_, B>,
        to: Pair<'_, O>,
    ) -> Result<()>
    where
        A: Float + DeviceElement,
        B: Float + DeviceElement,
        O: Float + DeviceElement,
    {
        let kernel = self.kernel_of::<(A, B, O), ResultsHandles<A, B, O>>(
            format!("merge_results {columns}"),
            |compiler| fixed(merge_results::<A, B, O>, columns).compile(compiler),
        )?;
        let rows = batch * heads * tokens;
        let [of_a, of_b, of_out] = [Strides::of(a.0), Strides::of(b.0), Strides::of(to.0)];
        let [of_a_lse, of_b_lse] = [a.1, b.1].map(three_strides);
        kernel.launch(
            stream,
            rows.div_ceil(ROWS),
            (
                a.0,
                a.1,
                b.0,
                b.1,
                to.0,
                to.1,
                rows as i32,
                heads as i32,
                tokens as i32,
                of_a.numbers(),
                of_b.numbers(),
                of_out.numbers(),
                of_a_lse,
                of_b_lse,
            ),
        )?;
        Ok(())
    }

    /// [`decode`](Attention::decode) of sequences that share their first keys, those of `prefix`, a cache of one sequence, and have the others in `cache`: the shared keys are read once for
    /// all sequences, not once for each.
    ///
    /// The results of `prefix`, to all of whose keys every query attends, and those of `cache` are merged; both are rounded to `T` before. Lengths of `cache` do not count the shared keys. `options` has neither `window` nor
    /// `alibi`, beside what [`decode`](Attention::decode) refuses. Several query tokens are next to each other in memory from one sequence to the next: the strides of batches are those of
    /// tokens times their number. It allocates results, so it cannot be captured; `decode_into` and [`merge_into`](Attention::merge_into) can.
    ///
    /// # Errors
    /// As for [`decode`](Attention::decode); those of the shared keys name `prefix.keys` and the like. Nothing is launched then.
    pub fn decode_shared<T: Operand, P: CacheElement<T>, C: CacheElement<T>>(
        &self,
        stream: &Stream,
        q: &View<'_, T>,
        prefix: &Cache<'_, P>,
        cache: &Cache<'_, C>,
        options: &Options<'_>,
    ) -> Result<Forward<T>> {
        let [batch, heads, tokens, depth] = extents("q", q)?;
        for (name, is_there) in [
            ("options.window", options.window != [None, None]),
            ("options.alibi", options.alibi.is_some()),
        ] {
            expect(
                !is_there,
                name,
                || "a value".to_string(),
                "none: a shared prefix has no distance to queries",
            )?;
        }
        let (place, strides) = (q.place(), Strides::of(q));
        let is_one_line =
            tokens == 1 || batch == 1 || strides.batch == tokens.saturating_mul(strides.token);
        expect(
            is_one_line,
            "q",
            || {
                format!(
                    "strides of {} elements between batches and {} between tokens",
                    strides.batch, strides.token
                )
            },
            "batches as far apart as their tokens, which attend to the prefix as those of one sequence",
        )?;
        let of_token = if tokens == 1 {
            strides.batch
        } else {
            strides.token
        };
        let all = q.source().view([1, heads, batch * tokens, depth]);
        let all = all
            .with_strides([0, strides.head, of_token, 1])
            .with_offset(place.offset);
        let to_all = Options {
            causal: false,
            sinks: None,
            ..*options
        };
        // Both are checked before the first launch.
        check_decode_inputs(q, cache, options)?;
        check_decode_inputs(&all, prefix, &to_all).map_err(of_prefix)?;
        let columns = extent(cache.values, 3);
        let own = self.results(("q", q), columns, |_, _| Ok(()))?;
        let shared = self.results(("q", &all), extent(prefix.values, 3), |_, _| Ok(()))?;
        let shape = [batch, heads, tokens, columns];
        let to = shared.out.view([1, heads, batch * tokens, columns]);
        self.decode_into(stream, &all, prefix, &to, &shared.lse, &to_all)?;
        let to = own.out.view(shape);
        self.decode_into(stream, q, cache, &to, &own.lse, options)?;
        let rows = batch * heads * tokens;
        let of_shared = shared.out.view(shape).with_strides([
            tokens * columns,
            batch * tokens * columns,
            columns,
            1,
        ]);
        // In the order heads, batch, tokens.
        let of_rows = [batch, heads, tokens];
        let of_shared_lse = shared
            .lse
            .view(of_rows)
            .with_strides([tokens, batch * tokens, 1]);
        let (of_own, of_own_lse) = (own.out.view(shape), own.lse.view(of_rows));
        let out = Buffer::new(&self.device, rows * columns)?;
        let lse = Buffer::new(&self.device, rows)?;
        let to = (&out.view(shape), &lse.view(of_rows));
        let a = (&of_shared, &of_shared_lse);
        self.launch_results(stream, shape, a, (&of_own, &of_own_lse), to)?;
        Ok(Forward { out, lse })
    }
}

/// An error of a cache that is the prefix of others, with the name that it has there.
fn of_prefix(error: Error) -> Error {
    match error {
        Error::Argument {
            operation,
            argument,
            found,
            expected,
        } => Error::Argument {
            operation,
            argument: match argument {
                "cache.keys" => "prefix.keys",
                "cache.values" => "prefix.values",
                "cache.lengths" => "prefix.lengths",
                "cache.table" => "prefix.table",
                "cache.scales" => "prefix.scales",
                "cache.scales.keys" => "prefix.scales.keys",
                "cache.scales.values" => "prefix.scales.values",
                other => other,
            },
            found,
            expected: expected.replace("cache.", "prefix."),
        },
        error @ Error::Runtime(_) => error,
    }
}

/// Checks the parts of a merge; returns the extents of the output.
fn check_parts<T: Operand>(parts: &[PartialResult<'_, T>]) -> Result<[usize; 4]> {
    /// Columns of the widest row.
    const WIDEST: usize = 512;
    check_count(parts)?;
    let shape = extents("parts[0].out", parts[0].out)?;
    let is_built = (8..=WIDEST).contains(&shape[3]) && shape[3].is_multiple_of(8);
    let found = || format!("shape {shape:?}");
    expect(
        is_built && shape[..3].iter().all(|&extent| extent > 0),
        "parts[0].out",
        found,
        format!("extents of 1 or more, and a depth that is a multiple of 8 up to {WIDEST}"),
    )?;
    let rows = rows_of("parts[0].out", [shape[0], shape[1], shape[2]])?;
    for PartialResult { out, lse } in parts {
        let of_part = extents("parts[].out", out)?;
        expect(
            of_part == shape,
            "parts[].out",
            || format!("shape {of_part:?}"),
            format!("{shape:?}, that of parts[0].out"),
        )?;
        expect(
            lse.len() == rows,
            "parts[].lse",
            || format!("{} elements", lse.len()),
            format!("{rows}, one for each query of each head"),
        )?;
        check_strides("parts[].out", out)?;
    }
    Ok(shape)
}

/// Checks the parts of a merge, and where it goes; returns the extents of the output.
fn check_merge<T: Operand>(
    parts: &[PartialResult<'_, T>],
    out: &View<'_, T>,
    lse: &Buffer<f32>,
) -> Result<[usize; 4]> {
    let shape = check_parts(parts)?;
    check_results(shape, extents("out", out)?, lse)?;
    check_strides("out", out)?;
    let elements = Elements::of(out);
    expect(
        elements.are_apart(),
        "out",
        || format!("strides {:?}", out.place().strides),
        "strides by which no two elements are in the same place",
    )?;
    for part in parts {
        let is_same = is_same_view(part.out, out);
        expect(
            is_same || elements.overlap(&Elements::of(part.out)) == Overlap::None,
            "out",
            || "some of the memory of a part".to_string(),
            "the view of a part, or memory of its own",
        )?;
        expect(
            part.lse.address() != lse.address(),
            "lse",
            || "the LSE of a part".to_string(),
            "memory of its own",
        )?;
    }
    Ok(shape)
}

fn check_count<T>(parts: &[PartialResult<'_, T>]) -> Result<()> {
    expect(
        parts.len() >= 2,
        "parts",
        || format!("{} results", parts.len()),
        "2 or more",
    )
}
