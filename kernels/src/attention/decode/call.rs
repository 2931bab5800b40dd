//! Attention to a cache as a program calls it.

use std::sync::{Arc, PoisonError};

use tilekit::prelude::*;

use super::check::{CheckedCache, check_decode, check_decode_inputs};
use super::check_pages::check_pages;
use super::table::{CacheElement, CacheInstance, caches, merges};
use crate::attention::call::{Attention, Forward, View, extent};
use crate::attention::check::Strides;
use crate::attention::error::Result;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::merge::splits::MOST_SPLITS;
use crate::attention::modifier::{Alibi, Modifier, Plain, Softcap};
use crate::attention::options::Options;
use crate::attention::plan::{Mask, reach, splits_of};
use crate::attention::table::Operand;
use crate::attention::workspace::{SplitRows, Workspace};

/// A cache of keys and values.
#[derive(Clone, Copy)]
pub struct Cache<'a, T> {
    /// Keys, `[batch, heads, tokens, depth]`; with a `table`, `[pages, heads, tokens, depth]`, with a multiple of 16 tokens a page.
    /// Rows are contiguous; other strides are multiples of 16 bytes.
    pub keys: &'a TensorView<'a, T>,
    /// Values, in the same shape with their own depth.
    pub values: &'a TensorView<'a, T>,
    /// The length of each sequence in tokens, including those of the queries; on the device.
    pub lengths: &'a Buffer<i32>,
    /// The pages of each sequence, `[batch, pages]`; on the device. Entries past the last token are not read.
    pub table: Option<&'a Buffer<i32>>,
    /// What elements of 8 bits are multiplied by; `None` where the cache has the elements of the queries.
    pub scales: Option<CacheScales<'a>>,
    /// Whether a kernel checks lengths and table first: a length beyond the capacity of its sequence, or a page outside of the cache, fails a
    /// device assertion. Without the check nothing is read outside of the cache: a length beyond the capacity counts as the capacity, a negative one as 0, and a page
    /// outside of the cache as zeros.
    pub checked: bool,
}

/// The factors of a cache of [`E4m3`] or [`E5m2`]: an element times its factor is the number that is meant. It is rounded to the type of the queries where tokens or pages have
/// factors of their own.
///
/// Factors are finite, and those of keys are 0 or more: a head or a token of zeros may have 0.
///
/// Both are `[pages, heads, tokens]` as the cache, on the device, with any strides: 0 along the dimensions whose elements share a factor.
///
/// ```
/// use tilekit::prelude::*;
/// use tilekit_kernels::attention::CacheScales;
///
/// # fn main() -> tilekit::Result<()> {
/// # let device = Device::emulator();
/// let (pages, heads, tokens) = (6, 2, 16);
/// // One factor for all keys, and one for each head of the values.
/// let [of_keys, of_values] = [Buffer::from_slice(&device, &[0.5f32])?, Buffer::from_slice(&device, &[1.0f32, 2.0])?];
/// let keys = of_keys.view([pages, heads, tokens]).with_strides([0, 0, 0]);
/// let values = of_values.view([pages, heads, tokens]).with_strides([0, 1, 0]);
/// let scales = CacheScales { keys: &keys, values: &values };
/// # let _ = scales;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct CacheScales<'a> {
    /// Of keys.
    pub keys: &'a TensorView<'a, f32>,
    /// Of values.
    pub values: &'a TensorView<'a, f32>,
}

/// A call that has been checked.
struct Call<'a, T, C> {
    stream: &'a Stream,
    q: &'a View<'a, T>,
    cache: &'a Cache<'a, C>,
    out: &'a View<'a, T>,
    lse: &'a Buffer<f32>,
    options: &'a Options<'a>,
    checked: CheckedCache,
}

impl Attention {
    /// Attention of the last tokens of each sequence, `q` as `[batch, heads, tokens, depth]`, to all of its cache, into new buffers.
    ///
    /// Query heads that share a head of the cache are rows of one tile, at most 64 heads, and so are several tokens. Where sequences and heads do not
    /// fill the device, the keys of each are split among CTAs, and a second kernel merges the results. Grid and workspace depend on shapes
    /// alone, so a captured graph can be replayed while lengths and pages change on the device. A sequence without tokens gives rows of
    /// zeros and an LSE of -inf.
    ///
    /// The cache has the elements of `q`, or [`E4m3`] or [`E5m2`] with [`scales`](Cache::scales): half of the bytes. Its elements are converted in shared memory. Where all tokens of
    /// a sequence and head share a factor, that is the faster way: products are of f16, which holds elements as they are, and queries of bf16 are moved to its range by powers of
    /// two. Otherwise products are those of the type of `q`, to which elements times factors are rounded.
    ///
    /// `options` are those of [`forward`](Attention::forward) except `chunk`, `lengths` and `from_first`. The first call with given
    /// shapes compiles and allocates, which may not happen while a graph is captured.
    ///
    /// ```
    /// use tilekit::prelude::*;
    /// use tilekit_kernels::attention::{Attention, Cache, Options};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::auto(); // a GPU where there is one, else the emulator
    /// let stream = Stream::new(&device)?;
    /// let attention = Attention::new(&device);
    ///
    /// // 6 pages of 16 tokens, of which each of two sequences has three.
    /// let of_cache = Buffer::from_slice(&device, &vec![bf16::ONE; 6 * 16 * 64])?;
    /// let pages = of_cache.view([6, 1, 16, 64]);
    /// let table = Buffer::from_slice(&device, &[5, 0, 3, 1, 2, 4])?;
    /// let lengths = Buffer::from_slice(&device, &[40, 17])?;
    /// let cache = Cache { keys: &pages, values: &pages, lengths: &lengths, table: Some(&table), scales: None, checked: true };
    ///
    /// // The next token of each, with 8 query heads.
    /// let of_queries = Buffer::from_slice(&device, &vec![bf16::ONE; 2 * 8 * 64])?;
    /// let q = of_queries.view([2, 8, 1, 64]);
    /// let result = attention.decode(&stream, &q, &cache, &Options::default())?;
    /// stream.synchronize()?;
    /// assert!(result.out.to_vec()?.iter().all(|&x| x == bf16::ONE));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`](crate::attention::Error::Argument) for an argument that is not supported; otherwise an error of the device.
    pub fn decode<T: Operand, C: CacheElement<T>>(
        &self,
        stream: &Stream,
        q: &View<'_, T>,
        cache: &Cache<'_, C>,
        options: &Options<'_>,
    ) -> Result<Forward<T>> {
        check_decode_inputs(q, cache, options)?;
        self.results(("q", q), extent(cache.values, 3), |out, lse| {
            self.decode_into(stream, q, cache, out, lse, options)
        })
    }

    /// [`decode`](Attention::decode) into `out`, whose strides follow the rules of `q`, and into `lse`.
    ///
    /// # Errors
    /// As for [`decode`](Attention::decode).
    pub fn decode_into<T: Operand, C: CacheElement<T>>(
        &self,
        stream: &Stream,
        q: &View<'_, T>,
        cache: &Cache<'_, C>,
        out: &View<'_, T>,
        lse: &Buffer<f32>,
        options: &Options<'_>,
    ) -> Result<()> {
        let call = Call {
            stream,
            q,
            cache,
            out,
            lse,
            options,
            checked: check_decode(q, cache, out, lse, options)?,
        };
        if cache.checked {
            let CheckedCache {
                sizes, page, pages, ..
            } = call.checked;
            let counts = [sizes.batch, pages, page, cache.keys.place().shape[0]];
            self.launch_check(stream, cache.lengths, cache.table, counts)?;
        }
        match (options.softcap, options.alibi) {
            (Some(_), _) => self.launch_decode::<T, C, Softcap>(&call, None),
            (None, Some(slopes)) => self.launch_decode::<T, C, Alibi>(&call, Some(slopes)),
            (None, None) => self.launch_decode::<T, C, Plain>(&call, None),
        }
    }

    /// Has the device check lengths and table of `batch` sequences of so many pages of so many tokens in a cache of so many pages.
    pub(in crate::attention) fn launch_check(
        &self,
        stream: &Stream,
        lengths: &Buffer<i32>,
        table: Option<&Buffer<i32>>,
        [batch, pages, page, of_cache]: [usize; 4],
    ) -> Result<()> {
        let instance =
            super::table::instance([0, 0], [0, 1], |compiler| check_pages.compile(compiler));
        let kernel = self.kernel::<(), _>("check_pages", 0, &instance)?;
        let nothing = &Workspace::of(stream)?.nothing;
        kernel.launch(
            stream,
            batch,
            (
                lengths,
                table.unwrap_or(&nothing.0),
                i32::from(table.is_some()),
                page as i32,
                pages as i32,
                of_cache as i32,
            ),
        )?;
        Ok(())
    }

    fn launch_decode<T: Operand, C: CacheElement<T>, M: Modifier>(
        &self,
        call: &Call<'_, T, C>,
        data: Option<&Buffer<f32>>,
    ) -> Result<()> {
        let CheckedCache {
            sizes,
            scale,
            page,
            pages,
        } = call.checked;
        let group = sizes.heads / sizes.kv_heads;
        let is_by_head = call.cache.scales.is_some_and(|scales| {
            let [keys, values] = [scales.keys, scales.values].map(three_strides);
            let of_pages = call.cache.table.is_some();
            [keys, values]
                .iter()
                .all(|by| by[2] == 0 && (by[0] == 0 || !of_pages))
        });
        let fits = |(_, row): &(usize, CacheInstance<T, C>)| {
            let is_whole = call.cache.table.is_none() || page.is_multiple_of(row.piece);
            let is_right = row.instance.depths == sizes.depths && row.is_by_head == is_by_head;
            is_right && is_whole && group <= row.instance.tile.pack
        };
        let mut instances = caches::<T, C, M>().into_iter().enumerate();
        let (index, CacheInstance { instance, .. }) = instances
            .find(fits)
            .expect("the check of a call knows depths, groups and pages of this table");
        let kernel = self.kernel::<(T, C, M), _>("decode", index, &instance)?;
        let tile = instance.tile;
        let tiles = sizes.batch * sizes.kv_heads * sizes.queries.div_ceil(ROWS / tile.pack);
        let resident = self.programs(&kernel, usize::from(u16::MAX))?;
        let splits = splits_of(tiles, resident, sizes.keys.div_ceil(tile.keys), MOST_SPLITS);
        let rows = if splits > 1 {
            splits * sizes.batch * sizes.heads * sizes.queries
        } else {
            1
        };
        let _turn = call.stream.turn();
        let rows = self.split_rows(call.stream, [rows, sizes.depths[1]])?;
        let workspace = Workspace::of(call.stream)?;
        let (no_table, no_numbers) = &workspace.nothing;
        let of_out = Strides::of(call.out);
        let Mask { left, right, .. } = call.options.mask();
        let [score_scale, exponent_scale] = M::factors(scale, call.options.softcap.unwrap_or(1.0));
        let no_scales = no_numbers.view([1, 1, 1]);
        let scales = call.cache.scales;
        let [of_keys, of_values] = scales.map_or([&no_scales; 2], |of| [of.keys, of.values]);
        let [by_keys, by_values] = [of_keys, of_values].map(three_strides);
        kernel.launch(
            call.stream,
            self.programs(&kernel, tiles * splits)?,
            (
                &grouped(call.q, sizes.kv_heads),
                call.cache.keys,
                call.cache.values,
                call.out,
                call.lse,
                &rows.sums,
                &rows.lse,
                &workspace.counter,
                call.cache.lengths,
                call.cache.table.unwrap_or(no_table),
                call.options.sinks.unwrap_or(no_numbers),
                data.unwrap_or(no_numbers),
                of_keys,
                of_values,
                sizes.batch as i32,
                sizes.kv_heads as i32,
                group as i32,
                sizes.queries as i32,
                splits as i32,
                i32::from(call.cache.table.is_some()),
                page as i32,
                pages as i32,
                (page * pages) as i32,
                call.cache.keys.place().shape[0] as i32,
                i32::from(call.options.sinks.is_some()),
                reach(left, 0),
                reach(right, 0),
                exponent_scale * LOG2_E as f32,
                score_scale,
                of_out.numbers(),
                by_keys,
                by_values,
            ),
        )?;
        if splits > 1 {
            self.launch_merge(call, &rows, [splits, ROWS / tile.pack])?;
        }
        Ok(())
    }

    fn launch_merge<T: Operand, C>(
        &self,
        call: &Call<'_, T, C>,
        rows: &SplitRows,
        [splits, tokens]: [usize; 2],
    ) -> Result<()> {
        let sizes = call.checked.sizes;
        let mut instances = merges::<T>().into_iter().enumerate();
        let (index, instance) = instances
            .find(|(_, instance)| instance.depths[1] == sizes.depths[1])
            .expect("each depth of values of `caches` has a row");
        let kernel = self.kernel::<T, _>("merge_splits", index, &instance)?;
        let of_out = Strides::of(call.out);
        kernel.launch(
            call.stream,
            sizes.batch * sizes.heads * sizes.queries,
            (
                &rows.sums,
                &rows.lse,
                call.out,
                call.lse,
                call.cache.lengths,
                (call.checked.page * call.checked.pages) as i32,
                sizes.heads as i32,
                sizes.queries as i32,
                splits as i32,
                tokens as i32,
                reach(call.options.mask().left, 0),
                of_out.numbers(),
            ),
        )?;
        Ok(())
    }

    /// The workspace for so many rows of results of splits, of so many columns: that of an earlier call, if it is large enough.
    pub(in crate::attention) fn split_rows(
        &self,
        stream: &Stream,
        [rows, columns]: [usize; 2],
    ) -> Result<Arc<SplitRows>> {
        let elements = rows * columns;
        let workspace = Workspace::of(stream)?;
        let mut kept = workspace
            .splits
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let room = kept
            .as_ref()
            .map_or([0, 0], |kept| [kept.lse.len(), kept.sums.len()]);
        if let Some(kept) = kept
            .as_ref()
            .filter(|_| room[0] >= rows && room[1] >= elements)
        {
            return Ok(Arc::clone(kept));
        }
        let made = Arc::new(SplitRows {
            sums: Buffer::new(&self.device, elements.max(room[1]))?,
            lse: Buffer::new(&self.device, rows.max(room[0]))?,
        });
        // Earlier launches may still use the smaller one.
        stream.synchronize()?;
        *kept = Some(Arc::clone(&made));
        Ok(made)
    }
}

/// The strides of numbers of rows, by page or batch, head and token.
pub(in crate::attention) fn three_strides(of_rows: &TensorView<'_, f32>) -> [i64; 3] {
    let strides = &of_rows.place().strides;
    [0, 1, 2].map(|dim| strides[dim] as i64)
}

/// The view with the heads of a group as a dimension after the tokens.
fn grouped<'a, T: DeviceElement>(view: &View<'a, T>, kv_heads: usize) -> View<'a, T> {
    let (place, strides) = (view.place(), Strides::of(view));
    let shape = &place.shape;
    let group = shape[1] / kv_heads;
    let groups = [shape[0], kv_heads, shape[2], group, shape[3]];
    let groups = view.source().view(groups).with_strides([
        strides.batch,
        strides.head * group,
        strides.token,
        strides.head,
        1,
    ]);
    groups.with_offset(place.offset)
}
