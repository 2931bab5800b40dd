//! Cases of attention backward with masks, sequences of any lengths, strides and modified scores, against f64.

use std::sync::Arc;

use tilekit::prelude::*;

use super::backward::{GROUPS, KEYS, QUERIES, backward, backward_arguments, block_stride};
use super::backward_passes::{backward_begin, backward_end};
use super::modifier::{Alibi, Differentiable, Plain, Softcap};
use super::plan::{Mask, Numbers, Sizes, Tile};
use super::reference::{Attention, CAUSAL, FULL, Scores, Setup, WINDOW, numbers};

/// The results of forward, rounded as it rounds them.
fn results<T: DeviceElement>(
    case: &mut Case,
    attention: &Arc<Attention>,
    qkv: [&Input<T>; 3],
    factors: [&Input<f32>; 2],
) -> (Input<T>, Input<f32>) {
    let Sizes { heads, depths, .. } = attention.sizes;
    let (batches, tokens) = attention.rows(0);
    let made = Arc::new(std::sync::OnceLock::new());
    let inputs = (qkv.map(Clone::clone), factors.map(Clone::clone));
    let forward = move |attention: &Attention| {
        let ([q, k, v], [slopes, sinks]) = &inputs;
        let sinks = attention.sinks(sinks);
        attention.reference(
            [&numbers(q), &numbers(k), &numbers(v)],
            [&numbers(slopes), &sinks],
        )
    };
    let of = |at: usize| {
        let (made, forward, attention) = (made.clone(), forward.clone(), attention.clone());
        move |element: usize| made.get_or_init(|| forward(&attention))[at][element]
    };
    let (of_out, of_lse) = (of(0), of(1));
    let out = case.input::<T>("out", attention.shape(0, heads, depths[1]), move |at| {
        T::nearest(Number::Float(of_out(at))).expect("an average of V is a number of its type")
    });
    let lse = case.input::<f32>("lse", [batches, heads, tokens], move |at| of_lse(at) as f32);
    (out, lse)
}

/// A case of one instance.
fn gradients<T, const D: usize, const ORDERED: bool, M: Differentiable>(
    case: &mut Case,
    setup: Setup,
) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + DeviceElement,
{
    let [batch, kv_heads, query_heads, queries, keys] =
        ["batch", "kv_heads", "query_heads", "queries", "keys"].map(|name| case.size(name));
    let heads = kv_heads * query_heads;
    let sizes = Sizes {
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        depths: [D, D],
    };
    let attention = Arc::new(Attention::new(sizes, setup));
    let spread = setup.spread * 3f64.sqrt();
    let q = case.uniform::<T>("q", attention.shape(0, heads, D), -spread..spread);
    let [k, v] = ["k", "v"].map(|name| case.normal::<T>(name, attention.shape(1, kv_heads, D)));
    let dout = case.normal::<T>("dout", attention.shape(0, heads, D));
    let data = case.uniform::<f32>("data", [heads], 0.0..0.5);
    let sinks = case.normal::<f32>("sinks", [heads]);
    let (out, lse) = results(case, &attention, [&q, &k, &v], [&data, &sinks]);
    let offsets = [0, 1].map(|side| {
        let offsets = attention.offsets[side].clone();
        case.input::<i32>(
            ["query_offsets", "key_offsets"][side],
            [batch + 1],
            move |at| offsets[at] as i32,
        )
    });
    let (batches, tokens) = attention.rows(0);
    let lines = batches * heads;
    let blocks = block_stride(tokens, batch, setup.is_ragged);
    let rows = lines * blocks * QUERIES;
    let [delta, log2_sum] = ["delta", "log2_sum"].map(|name| case.output::<f32>(name, [rows]));
    let sums = case.output::<f32>("sums", [rows, D]);
    let turns = case.output::<i32>("turns", [1 + lines * blocks * GROUPS]);
    let dq = case.output::<T>("dq", attention.shape(0, heads, D));
    let [dk, dv] = ["dk", "dv"].map(|name| case.output::<T>(name, attention.shape(1, kv_heads, D)));

    let of_queries = attention.strides(0, heads, D);
    let of_keys = attention.strides(1, kv_heads, D);
    let [of_batch, of_head, of_token] = of_queries.map(|stride| stride as i64);
    let blocks_of_longest = queries.div_ceil(QUERIES);
    case.launch(
        backward_begin::<T, D, D>,
        grid([blocks_of_longest, heads, batch]),
        (
            &out,
            &dout,
            &lse,
            &delta,
            &log2_sum,
            &sums,
            &turns,
            &offsets[0],
            queries as i32,
            i32::from(setup.is_ragged),
            tokens as i32,
            blocks as i32,
            of_batch,
            of_head,
            of_token,
            of_batch,
            of_head,
            of_token,
        ),
    )?;
    let tile = Tile {
        rows: 1,
        keys: KEYS,
        pack: 1,
    };
    let numbers_of_launch = Numbers::new(sizes, setup.mask, tile, size_of::<T>());
    let (_, all_keys) = attention.rows(1);
    let [q_shape, k_shape] = [
        [batches, heads, tokens, D],
        [batches, kv_heads, all_keys, D],
    ];
    let [q_strides, k_strides] = [of_queries, of_keys].map(|of| [of[0], of[1], of[2], 1]);
    macro_rules! map {
        ($x:expr, $shape:expr, $strides:expr) => {
            $x.view().with_shape($shape).with_strides($strides)
        };
    }
    let [q_map, k_map] = [map!(q, q_shape, q_strides), map!(k, k_shape, k_strides)];
    let [v_map, dout_map] = [map!(v, k_shape, k_strides), map!(dout, q_shape, q_strides)];
    let [dk_map, dv_map] = [map!(dk, k_shape, k_strides), map!(dv, k_shape, k_strides)];
    let cap = match setup.scores {
        Scores::Softcap(cap) => cap,
        Scores::Plain | Scores::Alibi => 1.0,
    };
    let scale = attention.scale() as f32;
    case.launch(
        backward::<T, D, ORDERED, M>,
        grid([keys.div_ceil(KEYS), kv_heads, batch]),
        backward_arguments!(
            maps: [&q_map, &k_map, &v_map, &dout_map, &dk_map, &dv_map],
            workspace: (&log2_sum, &delta, &sums, &turns),
            offsets: [&offsets[0], &offsets[1]],
            data: &data,
            numbers: numbers_of_launch,
            is_ragged: setup.is_ragged,
            block_stride: blocks,
            factors: M::factors(scale, cap as f32),
            scale: scale,
            strides: [[of_keys[1], of_keys[2]], [of_keys[1], of_keys[2]]]
        ),
    )?;
    case.launch(
        backward_end::<T, D>,
        grid([blocks_of_longest * GROUPS, heads, batch]),
        (
            &sums,
            &dq,
            &offsets[0],
            queries as i32,
            i32::from(setup.is_ragged),
            blocks as i32,
            scale,
            of_batch,
            of_head,
            of_token,
        ),
    )?;
    let made = std::sync::OnceLock::new();
    let reference = || {
        made.get_or_init(|| {
            attention.gradients(
                [&numbers(&q), &numbers(&k), &numbers(&v), &numbers(&dout)],
                [&numbers(&data), &attention.sinks(&sinks)],
            )
        })
    };
    // P and dS are rounded to `T` before they are multiplied, and so is the output of which delta is made: 2^-9 of each term, which dK has
    // times Q.
    let tolerance = Close {
        relative: 1e-2,
        absolute: 2e-2 * setup.spread.max(1.0),
    };
    case.expect_all(&dq, || reference()[0].clone(), tolerance)?;
    case.expect_all(&dk, || reference()[1].clone(), tolerance)?;
    case.expect_all(&dv, || reference()[2].clone(), tolerance)?;
    let products = 10 * batch * heads * queries * keys * D;
    let is_causal = setup.mask.right == Some(0) && queries == keys;
    case.does_tensor_flops::<T>(if is_causal { products / 2 } else { products });
    Ok(())
}

macro_rules! cases {
    ($($name:ident: <$ty:ty, $d:literal, $ordered:literal, $modifier:ty>, $setup:expr,
       batch = $batch:tt, kv_heads = $kv:tt, query_heads = $g:tt, queries = $queries:tt, keys = $ks:tt;)*) => {$(
        #[case(sizes(batch = $batch, kv_heads = $kv, query_heads = $g, queries = $queries, keys = $ks))]
        fn $name(case: &mut Case) -> CaseResult {
            gradients::<$ty, $d, $ordered, $modifier>(case, $setup)
        }
    )*};
}

cases! {
    backward_64: <bf16, 64, false, Plain>, FULL,
        batch = [1], kv_heads = [2, 1, 1], query_heads = [1, 2, 1], queries = [256, 127, 1], keys = [256, 127, 1];
    backward_64_causal: <bf16, 64, false, Plain>, CAUSAL,
        batch = [1, 2, 1], kv_heads = [1], query_heads = [1, 1, 8], queries = [129, 65, 63], keys = [129, 65, 63];
    backward_64_ordered: <bf16, 64, true, Plain>, CAUSAL,
        batch = [2, 1], kv_heads = [1], query_heads = [1, 2], queries = [300, 129], keys = [300, 300];
    backward_128: <bf16, 128, false, Plain>, FULL,
        batch = [1, 1, 2], kv_heads = [1], query_heads = [8, 1, 1], queries = [65, 256, 1], keys = [63, 256, 129];
    backward_128_causal: <bf16, 128, false, Plain>, CAUSAL,
        batch = [1], kv_heads = [2, 1, 1], query_heads = [1], queries = [256, 131, 200], keys = [256, 131, 70];
    backward_128_window: <bf16, 128, false, Plain>, Setup { tokens_first: true, ..WINDOW },
        batch = [2, 1], kv_heads = [1], query_heads = [1], queries = [127, 300], keys = [127, 420];
    backward_128_chunked: <bf16, 128, false, Plain>,
        Setup { mask: Mask { chunk: Some(100), ..CAUSAL.mask }, tokens_first: true, ..FULL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [200, 129], keys = [200, 350];
    backward_128_from_first: <bf16, 128, false, Plain>,
        Setup { mask: Mask { from_first: true, ..CAUSAL.mask }, ..FULL },
        batch = [1], kv_heads = [1], query_heads = [1], queries = [129, 200], keys = [257, 100];
    backward_128_ragged: <bf16, 128, false, Plain>, Setup { is_ragged: true, tokens_first: true, ..CAUSAL },
        batch = [5, 3], kv_heads = [1, 2], query_heads = [2, 1], queries = [100, 150], keys = [130, 129];
    backward_128_sinks: <bf16, 128, false, Plain>, Setup { has_sinks: true, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [129], keys = [65];
    backward_128_overlong: <bf16, 128, false, Plain>, Setup { spread: 1e2, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [1], queries = [100], keys = [100];
    backward_128_ordered: <bf16, 128, true, Plain>, FULL,
        batch = [1, 2], kv_heads = [1], query_heads = [1], queries = [129, 65], keys = [300, 257];
    backward_128_ordered_window: <bf16, 128, true, Plain>, WINDOW,
        batch = [1], kv_heads = [1], query_heads = [2, 1], queries = [200, 300], keys = [260, 420];
    backward_128_ordered_ragged: <bf16, 128, true, Plain>, Setup { is_ragged: true, ..CAUSAL },
        batch = [4], kv_heads = [1], query_heads = [1], queries = [150], keys = [200];
    backward_128_softcap: <bf16, 128, false, Softcap>, Setup { scores: Scores::Softcap(5.0), spread: 2.0, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [130], keys = [200];
    backward_128_alibi: <bf16, 128, false, Alibi>, Setup { scores: Scores::Alibi, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [130], keys = [200];
    backward_128_f16: <f16, 128, false, Plain>, CAUSAL,
        batch = [1], kv_heads = [1], query_heads = [2], queries = [127], keys = [127];
}
