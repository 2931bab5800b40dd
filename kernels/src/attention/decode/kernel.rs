//! Attention of a few queries to a cache of keys and values: the keys of a sequence are split among CTAs, whose results are merged.
//!
//! One consumer warpgroup multiplies: the query heads of a group and the tokens of a sequence share its 64 rows, so that each key is read once for
//! all of them. The kernel is bound by memory bandwidth, not by the tensor cores: two blocks of K and two of V are in flight, 128 KiB at a
//! depth of 128 in 16 bits. The grid depends on the capacity of the cache alone. The kernel reads lengths and page tables itself, so
//! that a captured graph can be replayed with others.

use std::marker::PhantomData;

use tilekit::prelude::*;

use super::cached::Cached;
use super::page_scales::PageScales;
use super::pages::Pages;
use super::partial::Partial;
use super::splits::Splits;
use crate::attention::mainloop::attend::attend;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::mainloop::shape::{Rescaling, Shape, swizzle};
use crate::attention::mainloop::softmax::Exponentials;
use crate::attention::modifier::{Alibi, Modifier, Plain, Softcap};

/// Registers of a consumer thread: with 240 the accumulator of 256 columns leaves two too few.
fn registers(values: usize) -> u32 {
    if values > 128 { 248 } else { 240 }
}

/// Attention of `queries` tokens of each sequence to its keys. `lengths` has the number of keys, including the queries' own.
///
/// Q is `[batch, kv_heads, tokens, query_heads, D]`; a tile has `PACK` rows for each token, and `query_heads` of them are used. Keys are `[pages,
/// kv_heads, tokens, D]`, a TMA load takes `PIECE` tokens, and values have rows of `DV`. With `is_paged`, the row of
/// `table_row` entries of `table` for a sequence names its pages, of `page_tokens` each, a multiple of `PIECE`; otherwise page and sequence have
/// the same index; a sequence has `room` tokens at most. A query sees keys from `left` before to `right` after its position; the last query has the last key's position. Each tile's
/// keys are split `splits` ways: with one, the results go to `out`, whose rows are the strides apart, and `lse`; with more, each split writes
/// to `sums` and `lse_of_splits`, which [`merge_splits`](crate::attention::merge::splits::merge_splits) merges. Other arguments are as for
/// [`forward_masked`](crate::attention::masked::kernel::forward_masked).
///
/// Elements of a cache of another type than `T` have factors: `key_scales` and `value_scales`, of which those of a page (of `pages`), a head and a token of the page are the strides
/// apart. Products are of type `U`: with `BY_HEAD`, where all tokens of a head have its factor (that of page 0, if there are pages), f16, which holds the elements as they are; otherwise
/// `T`, to which elements times factors are rounded.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(
    <bf16, bf16, bf16, 64, 64, 128, 128, 8, false, Plain>,
    <bf16, bf16, bf16, 128, 128, 128, 128, 8, false, Plain>,
    <bf16, bf16, bf16, 128, 128, 128, 64, 8, false, Plain>,
    <bf16, bf16, bf16, 128, 128, 128, 16, 8, false, Plain>,
    <bf16, bf16, bf16, 128, 128, 128, 128, 1, false, Plain>,
    <bf16, bf16, bf16, 128, 128, 128, 64, 64, false, Plain>,
    <bf16, bf16, bf16, 128, 128, 128, 128, 8, false, Softcap>,
    <bf16, bf16, bf16, 128, 128, 128, 128, 8, false, Alibi>,
    <bf16, bf16, bf16, 256, 256, 64, 64, 8, false, Plain>,
    <f16, f16, f16, 128, 128, 128, 64, 8, false, Plain>,
    <bf16, bf16, E4m3, 64, 64, 128, 128, 8, false, Plain>,
    <bf16, bf16, E4m3, 128, 128, 128, 64, 8, false, Plain>,
    <bf16, bf16, E4m3, 128, 128, 128, 16, 8, false, Plain>,
    <bf16, bf16, E4m3, 256, 256, 64, 64, 8, false, Plain>,
    <f16, f16, E4m3, 128, 128, 128, 128, 1, false, Plain>,
    <bf16, bf16, E5m2, 128, 128, 128, 64, 8, false, Plain>,
    <bf16, f16, E4m3, 64, 64, 128, 128, 8, true, Plain>,
    <bf16, f16, E4m3, 128, 128, 128, 64, 8, true, Plain>,
    <bf16, f16, E4m3, 256, 256, 64, 64, 8, true, Plain>,
    <bf16, f16, E4m3, 128, 128, 128, 64, 8, true, Softcap>
))]
pub fn decode<
    T: Float + WgmmaOperand<T, f32>,
    U: Float + WgmmaOperand<U, f32>,
    C: Element,
    const D: usize,
    const DV: usize,
    const KEYS: usize,
    const PIECE: usize,
    const PACK: usize,
    const BY_HEAD: bool,
    M: Modifier,
>(
    #[block([1, 1, ROWS / PACK, PACK, D], swizzle::<T>(D, 5))] q: TensorMap<T>,
    #[block([1, 1, PIECE, D], swizzle::<C>(D, 4))] k: TensorMap<C>,
    #[block([1, 1, PIECE, DV], swizzle::<C>(DV, 4))] v: TensorMap<C>,
    out: Ptr<T>,
    lse: Ptr<f32>,
    sums: Ptr<f32>,
    lse_of_splits: Ptr<f32>,
    counter: Ptr<i32>,
    #[align(4)] lengths: Ptr<i32>,
    #[align(4)] table: Ptr<i32>,
    #[align(4)] sinks: Ptr<f32>,
    #[align(4)] data: Ptr<f32>,
    #[align(4)] key_scales: Ptr<f32>,
    #[align(4)] value_scales: Ptr<f32>,
    batch: i32,
    kv_heads: i32,
    query_heads: i32,
    queries: i32,
    splits: i32,
    is_paged: i32,
    page_tokens: i32,
    table_row: i32,
    room: i32,
    pages: i32,
    has_sinks: i32,
    left: i32,
    right: i32,
    log2_scale: f32,
    score_scale: f32,
    #[multiple_of(8)] out_strides: [i64; 3],
    keys_strides: [i64; 3],
    values_strides: [i64; 3],
) {
    assume((batch > 0) & (kv_heads > 0) & (query_heads > 0));
    assume((queries > 0) & (splits > 0) & (page_tokens > 0));
    let scales = |scales, strides, columns| PageScales {
        scales,
        strides,
        pages,
        columns,
    };
    let problem = Cached {
        q,
        is_by_head: BY_HEAD,
        scales: (C::DTYPE != T::DTYPE).then(|| {
            [
                scales(key_scales, keys_strides, D),
                scales(value_scales, values_strides, DV),
            ]
        }),
        pages: Pages {
            keys: k,
            values: v,
            table,
            is_paged: is_paged != 0,
            row: table_row,
            tokens: page_tokens,
            piece: PIECE,
        },
        splits: Splits {
            lengths,
            room,
            parts: splits,
            queries,
            left,
            tile: [ROWS / PACK, KEYS],
        },
        results: Partial {
            out,
            strides: out_strides,
            lse,
            sums,
            lse_of_splits,
            sinks,
            has_sinks: has_sinks != 0,
        },
        batch,
        kv_heads,
        query_heads,
        right,
        log2_scale,
        score_scale,
        data,
        pack: PACK,
        modifier: PhantomData::<fn() -> M>,
    };
    let shape = Shape {
        depth: D,
        values: DV,
        keys: KEYS,
        turns: false,
        rescaling: Rescaling::Always,
        is_triple: false,
        exponentials: Exponentials::Special,
        registers: [registers(DV), 56],
    };
    attend::<U, Cached<T, C, M>, 1>(problem, shape, counter);
}
