//! Cases of attention forward with masks, sequences of any lengths, strides and modified scores, against f64.

use tilekit::prelude::*;

use super::kernel::{forward_masked, masked_arguments};
use crate::attention::decode::cached_cases::expect_results;
use crate::attention::dropout::Dropout;
use crate::attention::forward::kernel::reset;
use crate::attention::inputs::{Inputs, of_sequences};
use crate::attention::mainloop::problem::ROWS;
use crate::attention::modifier::{Alibi, Dropped, Modifier, Plain, Softcap};
use crate::attention::plan::{Mask, Numbers, Sizes, Tile};
use crate::attention::reference::{Attention, numbers};
use crate::attention::setup::{CAUSAL, FULL, Scores, Setup, WINDOW};

/// A case of one instance.
fn masked<
    T,
    const D: usize,
    const DV: usize,
    const GROUPS: usize,
    const KEYS: usize,
    const TURNS: bool,
    const PACK: usize,
    M: Modifier,
>(
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
        depths: [D, DV],
    };
    let attention = Attention::new(sizes, setup);
    let [of_q, of_k] = [(0, heads), (1, kv_heads)].map(|(side, n)| attention.shape(side, n, D));
    let [q, k] = match setup.inputs {
        Inputs::Normal if setup.is_ragged => [
            of_sequences::<T>(case, "q", &attention, (0, heads, D), setup.spread),
            of_sequences::<T>(case, "k", &attention, (1, kv_heads, D), 1.0),
        ],
        Inputs::Normal => {
            let spread = setup.spread * 3f64.sqrt();
            let q = case.uniform::<T>("q", of_q, -spread..spread);
            [q, case.normal::<T>("k", of_k)]
        }
        others => others.of::<T, 4>(case, [of_q, of_k], attention.scale()),
    };
    let v = if setup.is_ragged {
        of_sequences::<T>(case, "v", &attention, (1, kv_heads, DV), 1.0)
    } else {
        case.normal::<T>("v", attention.shape(1, kv_heads, DV))
    };
    let (batches, tokens) = attention.rows(0);
    let out = case.output::<T>("out", attention.shape(0, heads, DV));
    let lse = case.output::<f32>("lse", [batches, heads, tokens]);
    let counter = case.output::<i32>("counter", [1]);
    let offsets = [0, 1].map(|side| {
        let offsets = attention.offsets[side].clone();
        case.input::<i32>(
            ["query_offsets", "key_offsets"][side],
            [batch + 1],
            move |at| offsets[at] as i32,
        )
    });
    let sinks = case.normal::<f32>("sinks", [heads]);
    let data = case.uniform::<f32>("data", [heads], 0.0..0.5);
    case.launch(reset, 1, (&counter,))?;
    case.expect(&counter, |[_]| 0_i64, Exactly)?;

    let tile = Tile {
        rows: GROUPS * ROWS,
        keys: KEYS,
        pack: PACK,
    };
    let numbers_of_launch = Numbers::new(sizes, setup.mask, tile, size_of::<T>());
    let cap = match setup.scores {
        Scores::Softcap(cap) => cap,
        Scores::Plain | Scores::Alibi => 1.0,
    };
    let factors = M::factors(attention.scale() as f32, cap as f32);
    // Small cases have few programs, so that each computes several tiles.
    let programs = if numbers_of_launch.tiles < 16 {
        numbers_of_launch.tiles.min(3)
    } else {
        numbers_of_launch.tiles.min(132)
    };
    let [of_q, of_k, of_v, of_out] = [
        (0, heads, D),
        (1, kv_heads, D),
        (1, kv_heads, DV),
        (0, heads, DV),
    ]
    .map(|(side, heads, columns)| attention.strides(side, heads, columns));
    let packs = |[batch, head, token]: [usize; 3]| [batch, head * PACK, token, head, 1];
    let (_, keys_in_all) = attention.rows(1);
    let rows = |strides: [usize; 3]| [strides[0], strides[1], strides[2], 1];
    let packed = |columns: usize| [batches, heads / PACK, tokens, PACK, columns];
    let of_keys = |columns: usize| [batches, kv_heads, keys_in_all, columns];
    let [batch_v, head_v, token_v] = of_v;
    let q_map = q.view().with_shape(packed(D)).with_strides(packs(of_q));
    let k_map = k.view().with_shape(of_keys(D)).with_strides(rows(of_k));
    let v_map = v
        .view()
        .with_shape([1, batches, kv_heads, keys_in_all, DV])
        .with_strides([1, batch_v, head_v, token_v, 1]);
    let out_map = out
        .view()
        .with_shape(packed(DV))
        .with_strides(packs(of_out));
    let (v_map, out_map) = if setup.is_ragged {
        (v_map.with_sequences(3), out_map.with_stored_sequences(2))
    } else {
        (v_map, out_map)
    };
    case.launch(
        forward_masked::<T, D, DV, GROUPS, KEYS, TURNS, PACK, M>,
        programs,
        masked_arguments!(
            maps: [&q_map, &k_map, &v_map, &out_map],
            results: [&lse, &counter],
            offsets: [&offsets[0], &offsets[1]],
            data: [&sinks, &data],
            numbers: numbers_of_launch,
            flags: [setup.is_ragged, setup.has_sinks],
            factors: factors,
            lse_stride: tokens,
            dropout: setup.dropout
        ),
    )?;
    let reference = || {
        let slopes = numbers(&data);
        attention.reference(
            [&numbers(&q), &numbers(&k), &numbers(&v)],
            [&slopes, &attention.sinks(&sinks)],
        )
    };
    // P and results are rounded to `T`, an error of 2^-9 each.
    let tolerances = setup.tolerances(4e-3);
    expect_results(case, (&out, &lse), tolerances, reference)?;
    case.expect(&counter, |[_]| 0_i64, Exactly)?;
    case.does_tensor_flops::<T>(2 * heads * batch * queries * keys * (D + DV));
    case.moves_bytes(size_of::<T>() * batch * (heads * queries + kv_heads * keys) * (D + DV));
    Ok(())
}

/// Three weights of ten are dropped.
const DROPOUT: Option<Dropout> = Some(Dropout {
    rate: 0.3,
    seed: 0x1234_5678_9abc_def0,
});

macro_rules! cases {
    ($($name:ident: <$ty:ty, $d:literal, $dv:literal, $groups:literal, $keys:literal, $turns:literal, $pack:literal, $modifier:ty>, $setup:expr,
       batch = $batch:tt, kv_heads = $kv:tt, query_heads = $g:tt, queries = $queries:tt, keys = $ks:tt;)*) => {$(
        #[case(sizes(batch = $batch, kv_heads = $kv, query_heads = $g, queries = $queries, keys = $ks))]
        fn $name(case: &mut Case) -> CaseResult {
            masked::<$ty, $d, $dv, $groups, $keys, $turns, $pack, $modifier>(case, $setup)
        }
    )*};
}

cases! {
    masked_64_causal: <bf16, 64, 64, 3, 128, true, 1, Plain>, CAUSAL,
        batch = [2], kv_heads = [1], query_heads = [2], queries = [1, 63, 65, 127, 129, 300], keys = [130, 63, 64, 400, 129, 20];
    masked_64_window: <bf16, 64, 64, 3, 128, true, 1, Plain>, WINDOW,
        batch = [1], kv_heads = [1], query_heads = [1], queries = [4099, 500], keys = [4099, 900];
    masked_64_window_rising: <bf16, 64, 64, 3, 128, true, 1, Plain>,
        Setup { mask: Mask { left: Some(300), ..WINDOW.mask }, inputs: Inputs::Rising, has_sinks: true, ..FULL },
        batch = [1], kv_heads = [1], query_heads = [1], queries = [500], keys = [700];
    masked_96: <bf16, 96, 96, 2, 128, true, 1, Plain>, FULL,
        batch = [1], kv_heads = [1, 1, 7], query_heads = [1, 2, 8], queries = [1, 129, 63], keys = [65, 300, 63];
    masked_96_causal: <bf16, 96, 96, 2, 128, true, 1, Plain>, CAUSAL,
        batch = [1], kv_heads = [2], query_heads = [1], queries = [65, 127, 257], keys = [65, 127, 257];
    masked_128: <bf16, 128, 128, 2, 128, true, 1, Plain>, FULL,
        batch = [1, 1, 2], kv_heads = [1, 7, 1], query_heads = [8, 8, 1], queries = [1, 63, 129], keys = [65, 127, 260];
    masked_128_chunked: <bf16, 128, 128, 2, 128, true, 1, Plain>,
        Setup { mask: Mask { chunk: Some(100), ..CAUSAL.mask }, tokens_first: true, ..FULL },
        batch = [2], kv_heads = [1], query_heads = [2], queries = [129, 370], keys = [129, 370];
    masked_128_from_first: <bf16, 128, 128, 2, 128, true, 1, Plain>,
        Setup { mask: Mask { from_first: true, ..CAUSAL.mask }, ..FULL },
        batch = [1], kv_heads = [1], query_heads = [1], queries = [129, 300], keys = [257, 100];
    masked_128_ragged: <bf16, 128, 128, 2, 128, true, 1, Plain>, Setup { is_ragged: true, tokens_first: true, ..CAUSAL },
        batch = [5, 3], kv_heads = [1, 2], query_heads = [2, 1], queries = [150, 300], keys = [200, 129];
    masked_128_sinks: <bf16, 128, 128, 2, 128, true, 1, Plain>, Setup { has_sinks: true, ..WINDOW },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [200, 300], keys = [200, 20];
    masked_128_overlong: <bf16, 128, 128, 2, 128, true, 1, Plain>, Setup { spread: 1e4, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [1], queries = [200], keys = [200];
    masked_128_rising: <bf16, 128, 128, 2, 128, true, 1, Plain>, Setup { inputs: Inputs::Rising, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [1], queries = [389, 600], keys = [700, 389];
    masked_128_softcap_rising: <bf16, 128, 128, 2, 128, true, 1, Softcap>, Setup { scores: Scores::Softcap(40.0), inputs: Inputs::Rising, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [1], queries = [389], keys = [700];
    masked_128_f16_rising: <f16, 128, 128, 2, 128, true, 1, Plain>, Setup { inputs: Inputs::Rising, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [1], queries = [389], keys = [700];
    masked_128_packed: <bf16, 128, 128, 2, 128, true, 8, Plain>, Setup { tokens_first: true, ..CAUSAL },
        batch = [2, 1, 1], kv_heads = [1, 7, 1], query_heads = [8, 8, 16], queries = [1, 7, 40], keys = [300, 129, 200];
    masked_64_ragged: <bf16, 64, 64, 3, 128, true, 1, Plain>, Setup { is_ragged: true, tokens_first: true, ..FULL },
        batch = [5], kv_heads = [1], query_heads = [2], queries = [150], keys = [200];
    masked_192_ragged: <bf16, 192, 128, 2, 112, true, 1, Plain>, Setup { is_ragged: true, ..WINDOW },
        batch = [5], kv_heads = [2], query_heads = [1], queries = [150], keys = [200];
    masked_256_ragged: <bf16, 256, 256, 2, 64, false, 1, Plain>, Setup { is_ragged: true, tokens_first: true, ..CAUSAL },
        batch = [5], kv_heads = [1], query_heads = [1], queries = [150], keys = [200];
    masked_128_packed_ragged: <bf16, 128, 128, 2, 128, true, 8, Plain>, Setup { is_ragged: true, ..CAUSAL },
        batch = [4], kv_heads = [1], query_heads = [8], queries = [33], keys = [150];
    masked_128_softcap: <bf16, 128, 128, 2, 128, true, 1, Softcap>, Setup { scores: Scores::Softcap(5.0), spread: 4.0, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [200], keys = [300];
    masked_128_alibi: <bf16, 128, 128, 2, 128, true, 1, Alibi>, Setup { scores: Scores::Alibi, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [200], keys = [300];
    masked_128_f16: <f16, 128, 128, 2, 128, true, 1, Plain>, CAUSAL,
        batch = [1], kv_heads = [1], query_heads = [2], queries = [127, 200], keys = [129, 300];
    masked_192: <bf16, 192, 128, 2, 112, true, 1, Plain>, CAUSAL,
        batch = [1], kv_heads = [1], query_heads = [2], queries = [1, 65, 200], keys = [65, 65, 300];
    masked_256: <bf16, 256, 256, 2, 64, false, 1, Plain>, CAUSAL,
        batch = [1], kv_heads = [1], query_heads = [2], queries = [63, 200], keys = [129, 300];
    masked_64_alibi: <bf16, 64, 64, 2, 128, true, 1, Alibi>, Setup { scores: Scores::Alibi, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [200], keys = [300];
    masked_192_dropout: <bf16, 192, 128, 2, 96, true, 1, Dropped<Plain>>, Setup { dropout: DROPOUT, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [150], keys = [200];
    masked_64_dropout: <bf16, 64, 64, 2, 128, true, 1, Dropped<Plain>>, Setup { dropout: DROPOUT, ..CAUSAL },
        batch = [2], kv_heads = [1], query_heads = [2], queries = [65, 129], keys = [130, 129];
    masked_128_dropout: <bf16, 128, 128, 2, 128, true, 1, Dropped<Plain>>, Setup { dropout: DROPOUT, tokens_first: true, ..FULL },
        batch = [1, 2], kv_heads = [2, 1], query_heads = [1, 2], queries = [200, 63], keys = [300, 65];
    masked_128_dropout_ragged: <bf16, 128, 128, 2, 128, true, 1, Dropped<Plain>>,
        Setup { dropout: DROPOUT, is_ragged: true, ..CAUSAL },
        batch = [4], kv_heads = [1], query_heads = [1], queries = [150], keys = [200];
}
