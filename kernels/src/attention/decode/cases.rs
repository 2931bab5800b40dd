//! Cases of attention to a cache, against f64.

use tilekit::prelude::*;

use super::cached_cases::{Factors, Scaled, Sequences, expect_results};
use super::kernel::decode;
use super::table::{CacheElement, is_scaled};
use crate::attention::forward::kernel::reset;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::merge::splits::merge_splits;
use crate::attention::modifier::{Alibi, Modifier, Plain, Softcap};
use crate::attention::plan::{FAR, Mask, Sizes};
use crate::attention::reference::numbers;
use crate::attention::setup::{CAUSAL, FULL, Scores, Setup};

const BY_TENSOR: Scaled = [false; 3];
const BY_HEAD: Scaled = [false, true, false];
const BY_PAGE: Scaled = [true, true, false];
const BY_TOKEN: Scaled = [true; 3];

/// A case of one instance, with pages of so many tokens; elements of 8 bits have factors.
fn cached<
    T,
    U,
    C,
    const D: usize,
    const DV: usize,
    const KEYS: usize,
    const PIECE: usize,
    const PACK: usize,
    const BY_HEAD: bool,
    M: Modifier,
>(
    case: &mut Case,
    setup: Setup,
    page: Option<usize>,
    by: [Scaled; 2],
) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + DeviceElement,
    U: Float + WgmmaOperand<U, f32> + DeviceElement,
    C: CacheElement<T>,
{
    let [batch, kv_heads, query_heads, queries, keys, splits] = [
        "batch",
        "kv_heads",
        "query_heads",
        "queries",
        "keys",
        "splits",
    ]
    .map(|name| case.size(name));
    let heads = kv_heads * query_heads;
    let sequences = Sequences::new(kv_heads, [batch, keys], page);
    let spread = setup.spread * 3f64.sqrt();
    let q = case.uniform::<T>("q", [batch, heads, queries, D], -spread..spread);
    let k = sequences.cache::<C>(case, "keys", D);
    let v = sequences.cache::<C>(case, "values", DV);
    let of_k = Factors::new(case, "key_scales", &sequences, by[0]);
    let of_v = Factors::new(case, "value_scales", &sequences, by[1]);
    let [lengths, table] = sequences.inputs(case);
    let sinks = case.normal::<f32>("sinks", [heads]);
    let data = case.uniform::<f32>("data", [heads], 0.0..0.5);
    let out = case.output::<T>("out", [batch, heads, queries, DV]);
    let lse = case.output::<f32>("lse", [batch, heads, queries]);
    let rows = batch * heads * queries;
    let sums = case.output::<f32>("sums", [splits, rows, DV]);
    let lse_of_splits = case.output::<f32>("lse_of_splits", [splits, rows]);
    let counter = case.output::<i32>("counter", [1]);
    case.launch(reset, 1, (&counter,))?;

    let of_queries = q
        .view()
        .with_shape([batch, kv_heads, queries, query_heads, D]);
    let of_queries = of_queries.with_strides([
        heads * queries * D,
        query_heads * queries * D,
        D,
        queries * D,
        1,
    ]);
    let (k_map, v_map) = (k.view(), v.view());
    let sizes = Sizes {
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        depths: [D, DV],
    };
    let first = sequences.attention(0, sizes, setup);
    let cap = match setup.scores {
        Scores::Softcap(cap) => cap,
        Scores::Plain | Scores::Alibi => 1.0,
    };
    let [score_scale, exponent_scale] = M::factors(first.scale() as f32, cap as f32);
    let reach = |reach: Option<usize>| reach.map_or(FAR, |reach| reach as i32);
    let left = reach(setup.mask.left);
    let tiles = batch * kv_heads * splits * queries.div_ceil(ROWS / PACK);
    let of_out = [heads * queries * DV, queries * DV, DV].map(|stride| stride as i64);
    case.launch(
        decode::<T, U, C, D, DV, KEYS, PIECE, PACK, BY_HEAD, M>,
        // Small cases have few programs, so that each computes several tiles.
        if tiles < 132 { tiles.min(3) } else { 132 },
        (
            &of_queries,
            &k_map,
            &v_map,
            &out,
            &lse,
            &sums,
            &lse_of_splits,
            &counter,
            &lengths,
            &table,
            &sinks,
            &data,
            &of_k.scales,
            &of_v.scales,
            batch as i32,
            kv_heads as i32,
            query_heads as i32,
            queries as i32,
            splits as i32,
            i32::from(sequences.is_paged),
            sequences.page as i32,
            sequences.row as i32,
            (sequences.row * sequences.page) as i32,
            sequences.pages() as i32,
            i32::from(setup.has_sinks),
            left,
            reach(setup.mask.right),
            exponent_scale * LOG2_E as f32,
            score_scale,
            of_out,
            of_k.strides.map(|stride| stride as i64),
            of_v.strides.map(|stride| stride as i64),
        ),
    )?;
    if splits > 1 {
        case.launch(
            merge_splits::<T, DV, KEYS>,
            rows,
            (
                &sums,
                &lse_of_splits,
                &out,
                &lse,
                &lengths,
                (sequences.row * sequences.page) as i32,
                heads as i32,
                queries as i32,
                splits as i32,
                (ROWS / PACK) as i32,
                left,
                of_out,
            ),
        )?;
    }
    let reference = || {
        let (k, v) = if is_scaled::<T, C>() {
            let [of_keys, of_values] = [D, DV].map(|columns| sequences.shape(columns));
            let round = |product: f64| {
                if BY_HEAD {
                    product
                } else {
                    rounded::<T>(product)
                }
            };
            let k = of_k.numbers(&k, of_keys, round);
            (k, of_v.numbers(&v, of_values, round))
        } else {
            (numbers(&k), numbers(&v))
        };
        let factors = [numbers(&data), first.sinks(&sinks)];
        let factors = [&factors[0][..], &factors[1][..]];
        sequences.reference((sizes, setup), &q, [(&k, D), (&v, DV)], factors)
    };
    // P and results are rounded to `T`, an error of 2^-9 each.
    expect_results(case, (&out, &lse), setup.tolerances(6e-3), reference)?;
    case.expect(&counter, |[_]| 0_i64, Exactly)?;
    let tokens: usize = sequences.lengths.iter().sum();
    case.does_tensor_flops::<T>(2 * heads * queries * tokens * (D + DV));
    case.moves_bytes(size_of::<C>() * tokens * kv_heads * (D + DV));
    Ok(())
}

macro_rules! cases {
    ($($name:ident: <$ty:ty, $d:literal, $dv:literal, $keys:literal, $piece:literal, $pack:literal, $modifier:ty>, $setup:expr, $page:expr,
       batch = $batch:tt, kv_heads = $kv:tt, query_heads = $g:tt, queries = $queries:tt, keys = $ks:tt, splits = $splits:tt;)*) => {$(
        #[case(sizes(batch = $batch, kv_heads = $kv, query_heads = $g, queries = $queries, keys = $ks, splits = $splits))]
        fn $name(case: &mut Case) -> CaseResult {
            cached::<$ty, $ty, $ty, $d, $dv, $keys, $piece, $pack, false, $modifier>(case, $setup, $page, [BY_TENSOR; 2])
        }
    )*};
}

/// A number rounded to `T`.
fn rounded<T: DeviceElement>(number: f64) -> f64 {
    let rounded = T::nearest(Number::Float(number));
    let rounded = rounded.expect("a float holds every number");
    rounded.number().to_f64()
}

macro_rules! narrow_cases {
    ($($name:ident: <$ty:ty, $u:ty, $c:ty, $d:literal, $dv:literal, $keys:literal, $piece:literal, $pack:literal, $by_head:literal, $modifier:ty>, $setup:expr, $by:expr, $page:expr,
       batch = $batch:tt, kv_heads = $kv:tt, query_heads = $g:tt, queries = $queries:tt, keys = $ks:tt, splits = $splits:tt;)*) => {$(
        #[case(sizes(batch = $batch, kv_heads = $kv, query_heads = $g, queries = $queries, keys = $ks, splits = $splits))]
        fn $name(case: &mut Case) -> CaseResult {
            cached::<$ty, $u, $c, $d, $dv, $keys, $piece, $pack, $by_head, $modifier>(case, $setup, $page, $by)
        }
    )*};
}

narrow_cases! {
    decode_64_e4m3: <bf16, f16, E4m3, 64, 64, 128, 128, 8, true, Plain>, CAUSAL, [BY_HEAD, BY_TENSOR], None,
        batch = [3, 1], kv_heads = [2, 1], query_heads = [8], queries = [1], keys = [300, 129], splits = [1, 2];
    decode_128_e4m3_pages_of_64: <bf16, f16, E4m3, 128, 128, 128, 64, 8, true, Plain>, CAUSAL, [BY_HEAD; 2], Some(64),
        batch = [3, 1], kv_heads = [2, 1], query_heads = [8, 7], queries = [1, 4], keys = [700, 129], splits = [1, 2];
    decode_128_e4m3_softcap: <bf16, f16, E4m3, 128, 128, 128, 64, 8, true, Softcap>, Setup { scores: Scores::Softcap(5.0), spread: 1e5, ..CAUSAL }, [BY_TENSOR; 2], Some(64),
        batch = [2], kv_heads = [1], query_heads = [8], queries = [1], keys = [200], splits = [1];
    decode_128_e4m3_by_token: <bf16, bf16, E4m3, 128, 128, 128, 64, 8, false, Plain>, CAUSAL, [BY_TOKEN, BY_PAGE], Some(64),
        batch = [3, 1], kv_heads = [2, 1], query_heads = [8], queries = [1], keys = [500, 65], splits = [1, 3];
    decode_128_e4m3_pages_of_16: <bf16, bf16, E4m3, 128, 128, 128, 16, 8, false, Plain>, CAUSAL, [BY_PAGE, BY_TOKEN], Some(16),
        batch = [3], kv_heads = [2], query_heads = [5], queries = [2], keys = [129], splits = [2];
    decode_128_e4m3_f16: <f16, f16, E4m3, 128, 128, 128, 128, 1, false, Plain>, CAUSAL, [BY_TENSOR, BY_TOKEN], None,
        batch = [1], kv_heads = [1], query_heads = [1], queries = [70], keys = [200], splits = [2];
    decode_128_e5m2: <f16, f16, E5m2, 128, 128, 128, 64, 8, true, Plain>, CAUSAL, [BY_TENSOR, BY_HEAD], Some(64),
        batch = [2], kv_heads = [1], query_heads = [8], queries = [1], keys = [130], splits = [1];
    decode_256_e4m3: <bf16, f16, E4m3, 256, 256, 64, 64, 8, true, Plain>, CAUSAL, [BY_HEAD; 2], Some(64),
        batch = [1], kv_heads = [1], query_heads = [8], queries = [1], keys = [400], splits = [2];
    decode_256_e4m3_by_token: <bf16, bf16, E4m3, 256, 256, 64, 64, 8, false, Plain>, CAUSAL, [BY_HEAD, BY_TOKEN], Some(64),
        batch = [1], kv_heads = [1], query_heads = [8], queries = [1], keys = [150], splits = [1];
}

cases! {
    decode_64: <bf16, 64, 64, 128, 128, 8, Plain>, CAUSAL, None,
        batch = [3, 1], kv_heads = [1, 2], query_heads = [8], queries = [1], keys = [300, 129], splits = [1, 2];
    decode_128: <bf16, 128, 128, 128, 128, 8, Plain>, CAUSAL, None,
        batch = [4, 1, 1], kv_heads = [1, 2, 1], query_heads = [8, 7, 8], queries = [1, 1, 3], keys = [300, 127, 130], splits = [2, 1, 3];
    decode_128_pages_of_64: <bf16, 128, 128, 128, 64, 8, Plain>, CAUSAL, Some(64),
        batch = [3, 1, 1], kv_heads = [1], query_heads = [8], queries = [1, 4, 1], keys = [500, 129, 65], splits = [2, 1, 5];
    decode_128_pages_of_256: <bf16, 128, 128, 128, 128, 8, Plain>, CAUSAL, Some(256),
        batch = [2], kv_heads = [1], query_heads = [8], queries = [1], keys = [300], splits = [2];
    decode_128_pages_of_16: <bf16, 128, 128, 128, 16, 8, Plain>, CAUSAL, Some(16),
        batch = [3], kv_heads = [2], query_heads = [5], queries = [2], keys = [129], splits = [2];
    decode_128_pages_of_48: <bf16, 128, 128, 128, 16, 8, Plain>, FULL, Some(48),
        batch = [1], kv_heads = [1], query_heads = [8], queries = [9], keys = [140], splits = [1];
    decode_128_one_head: <bf16, 128, 128, 128, 128, 1, Plain>, CAUSAL, None,
        batch = [1], kv_heads = [2, 1], query_heads = [1], queries = [5, 70], keys = [63, 200], splits = [1, 2];
    decode_128_many_heads: <bf16, 128, 128, 128, 64, 64, Plain>, CAUSAL, Some(64),
        batch = [1], kv_heads = [1], query_heads = [40], queries = [2], keys = [200], splits = [2];
    decode_128_window: <bf16, 128, 128, 128, 128, 8, Plain>,
        Setup { mask: Mask { left: Some(150), ..CAUSAL.mask }, ..FULL }, None,
        batch = [1], kv_heads = [1], query_heads = [8], queries = [1, 10], keys = [700, 400], splits = [2, 1];
    decode_128_sinks: <bf16, 128, 128, 128, 128, 8, Plain>, Setup { has_sinks: true, ..CAUSAL }, None,
        batch = [3], kv_heads = [1], query_heads = [8], queries = [1], keys = [200], splits = [2];
    decode_128_softcap: <bf16, 128, 128, 128, 128, 8, Softcap>, Setup { scores: Scores::Softcap(5.0), ..CAUSAL }, None,
        batch = [1], kv_heads = [1], query_heads = [8], queries = [1], keys = [200], splits = [1];
    decode_128_alibi: <bf16, 128, 128, 128, 128, 8, Alibi>, Setup { scores: Scores::Alibi, ..CAUSAL }, None,
        batch = [1], kv_heads = [1], query_heads = [6], queries = [2], keys = [200], splits = [2];
    decode_128_f16: <f16, 128, 128, 128, 64, 8, Plain>, CAUSAL, Some(64),
        batch = [1], kv_heads = [1], query_heads = [8], queries = [1], keys = [200], splits = [2];
    decode_256: <bf16, 256, 256, 64, 64, 8, Plain>, CAUSAL, Some(64),
        batch = [1], kv_heads = [1], query_heads = [8], queries = [1], keys = [150], splits = [2];
}
