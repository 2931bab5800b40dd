//! New tokens for a cache as a program calls it.

use tilekit::prelude::*;

use super::check::{CheckedTokens, check_append};
use super::kernel::{HEADS, append};
use crate::attention::call::Attention;
use crate::attention::decode::call::{Cache, three_strides};
use crate::attention::decode::table::CacheElement;
use crate::attention::error::Result;
use crate::attention::table::Operand;
use crate::attention::workspace::Workspace;
use crate::handles::handles;

/// The angles by which pairs of columns are rotated (rotary embedding): `(a, b)` becomes `(a cos - b sin, b cos + a sin)`.
#[derive(Clone, Copy)]
pub struct Rotary<'a> {
    /// Cosines, `[positions, pairs]`, on the device: row `p` is that of the token at position `p` of its sequence.
    pub cos: &'a Buffer<f32>,
    /// Sines, likewise.
    pub sin: &'a Buffer<f32>,
    /// Pairs of a row, a power of two from 8 on: the first `2 · pairs` columns are rotated, the others stay.
    pub pairs: usize,
    /// Pairs are columns `2 j` and `2 j + 1` (GPT-J); otherwise `j` and `pairs + j` (GPT-NeoX, Llama of Hugging Face).
    pub interleaved: bool,
}

/// Tokens of sequences of several lengths, concatenated in tensors of one batch.
#[derive(Clone, Copy)]
pub struct NewLengths<'a> {
    /// Where the new tokens of each sequence begin, and where the last ones end: ascending, from 0 to the tokens of the tensors, on the device. With `cache.checked` others fail a device
    /// assertion; without, rows outside of the tensors count as zeros.
    pub offsets: &'a Buffer<i32>,
    /// New tokens of the sequence that has the most, or more. A sequence with more fails a device assertion with `cache.checked`; without, the tokens past this number are left out.
    pub longest: usize,
}

/// The new tokens of each sequence: the last ones of the length that the cache says.
#[derive(Clone, Copy)]
pub struct NewTokens<'a, T> {
    /// Keys, `[batch, heads of the cache, tokens, depth]`, before rotation. Rows are contiguous; other strides are multiples of 16 bytes.
    pub keys: &'a TensorView<'a, T>,
    /// Values, in the same shape.
    pub values: &'a TensorView<'a, T>,
    /// Queries of the same tokens, `[batch, heads, tokens, depth]`, and where they go once rotated: other memory, or the same view.
    pub queries: Option<[&'a TensorView<'a, T>; 2]>,
    /// How keys and queries are rotated, if they are.
    pub rotary: Option<Rotary<'a>>,
    /// Where sequences of several lengths begin; the tensors have one batch then.
    pub lengths: Option<NewLengths<'a>>,
    /// Whether each row of a cache of 8 bits gets the factor by which its largest magnitude becomes the largest number of the type; it is stored to the cache's
    /// scales, which have one for each token and head. Otherwise rows are divided by the scales that the cache has, and what is too large becomes the largest number.
    pub computes_scales: bool,
}

impl Attention {
    /// Stores keys and values of new tokens to a cache, rotated by their positions and rounded to its elements, and rotates their queries, in one launch.
    ///
    /// `cache.lengths` counts the new tokens already, so that [`decode`](Attention::decode) with the same cache follows at once. A sequence of `length` tokens, of which `n`
    /// are new, has them at positions `length - n` to `length - 1`. A position outside of the sequence's capacity, and a page that the cache does not have, is left out; with
    /// `cache.checked` it fails a device assertion, as does a position past the tables of `rotary`, whose rows are NaN otherwise. Rotation is in f32, and results are rounded once.
    ///
    /// The grid depends on shapes alone, so a captured graph can be replayed while lengths and pages change on the device.
    ///
    /// ```
    /// use tilekit::prelude::*;
    /// use tilekit_kernels::attention::{Attention, Cache, NewTokens, Rotary};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::auto(); // a GPU where there is one, else the emulator
    /// let stream = Stream::new(&device)?;
    /// let attention = Attention::new(&device);
    ///
    /// // Two sequences of 3 and 18 tokens, in pages of 16.
    /// let [keys, values] = [(); 2].map(|()| Buffer::<bf16>::zeros(&device, 4 * 16 * 64));
    /// let (keys, values) = (keys?, values?);
    /// let [of_keys, of_values] = [&keys, &values].map(|buffer| buffer.view([4, 1, 16, 64]));
    /// let table = Buffer::from_slice(&device, &[2, 0, 3, 1])?;
    /// let lengths = Buffer::from_slice(&device, &[3, 18])?;
    /// let cache = Cache { keys: &of_keys, values: &of_values, lengths: &lengths, table: Some(&table), scales: None, checked: true };
    ///
    /// // Angles of 0 rotate nothing.
    /// let (cos, sin) = (Buffer::from_slice(&device, &[1.0; 32 * 32])?, Buffer::zeros(&device, 32 * 32)?);
    /// let rotary = Rotary { cos: &cos, sin: &sin, pairs: 32, interleaved: false };
    /// let new = Buffer::from_slice(&device, &[bf16::ONE; 2 * 64])?;
    /// let new = new.view([2, 1, 1, 64]);
    /// let tokens = NewTokens { keys: &new, values: &new, queries: None, rotary: Some(rotary), lengths: None, computes_scales: false };
    /// attention.append(&stream, &tokens, &cache)?;
    /// stream.synchronize()?;
    /// // The last token of the second sequence is the second one of page 1.
    /// assert_eq!(keys.to_vec()?[(16 + 1) * 64], bf16::ONE);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`](crate::attention::Error::Argument) for an argument that is not supported; otherwise an error of the device.
    pub fn append<T: Operand, C: CacheElement<T>>(
        &self,
        stream: &Stream,
        new: &NewTokens<'_, T>,
        cache: &Cache<'_, C>,
    ) -> Result<()> {
        let CheckedTokens {
            form,
            batch,
            longest,
            page,
            pages,
            positions,
        } = check_append(new, cache)?;
        let kernel = self
            .kernel_of::<(T, C), AppendHandles<T, C>>(format!("append {form}"), |compiler| {
                fixed(append::<T, C>, form).compile(compiler)
            })?;
        let (no_table, no_numbers) = &Workspace::of(stream)?.nothing;
        let [kv_heads, heads] = [Some(new.keys), new.queries.map(|[from, _]| from)]
            .map(|view| view.map_or(0, |view| view.place().shape[1]));
        let [query_jobs, kv_jobs] = [heads, kv_heads].map(|heads| heads.div_ceil(HEADS));
        let [from, to] = new.queries.unwrap_or([new.keys; 2]);
        let no_scales = no_numbers.view([1, 1, 1]);
        let scales = cache.scales;
        let [of_keys, of_values] = scales.map_or([&no_scales; 2], |of| [of.keys, of.values]);
        let [by_keys, by_values] = [of_keys, of_values].map(three_strides);
        let [cos, sin] = new.rotary.map_or([no_numbers; 2], |of| [of.cos, of.sin]);
        kernel.launch(
            stream,
            grid([longest * (query_jobs + 2 * kv_jobs), batch]),
            (
                from,
                new.keys,
                new.values,
                to,
                cache.keys,
                cache.values,
                of_keys,
                of_values,
                cos,
                sin,
                cache.lengths,
                new.lengths.map_or(no_table, |lengths| lengths.offsets),
                cache.table.unwrap_or(no_table),
                kv_heads as i32,
                query_jobs as i32,
                longest as i32,
                new.keys.place().shape[2] as i32,
                i32::from(new.lengths.is_some()),
                i32::from(cache.table.is_some()),
                page as i32,
                pages as i32,
                cache.keys.place().shape[0] as i32,
                positions as i32,
                i32::from(cache.checked),
                by_keys[0],
                by_keys[1],
                by_keys[2],
                by_values[0],
                by_values[1],
                by_values[2],
            ),
        )?;
        Ok(())
    }
}

/// The parameters of `append`.
type AppendHandles<T, C> = handles! {
    q k v out_q: TensorMap<T>,
    keys values: TensorMap<C>,
    key_scales value_scales cos sin: Ptr<f32>,
    lengths starts table: Ptr<i32>,
    kv_heads query_jobs tokens rows is_ragged is_paged page_tokens table_row pages positions is_checked: Scalar<i32>,
    keys_page keys_head keys_token values_page values_head values_token: Scalar<i64>,
};
