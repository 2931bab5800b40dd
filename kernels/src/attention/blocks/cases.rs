//! Cases of block-sparse masks, against f64.

use tilekit::prelude::*;

use super::kernel::{GROUPS, forward_blocks};
use super::lists::{KeyLists, UNIT};
use super::patterns::{Lists, pattern, shape_of, whole};
use crate::attention::decode::cached_cases::expect_results;
use crate::attention::forward::kernel::reset;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::modifier::{Modifier, Plain, Softcap};
use crate::attention::plan::{Sizes, reach};
use crate::attention::reference::{Attention, numbers};
use crate::attention::setup::{CAUSAL, Scores, Setup};

fn listed<T, const D: usize, const DV: usize, const KEYS: usize, const TURNS: bool, M: Modifier>(
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
    let q = case.normal::<T>("q", [batch, heads, queries, D]);
    let k = case.normal::<T>("k", [batch, kv_heads, keys, D]);
    let v = case.normal::<T>("v", [batch, kv_heads, keys, DV]);
    let sinks = case.normal::<f32>("sinks", [heads]);
    let out = case.output::<T>("out", [batch, heads, queries, DV]);
    let lse = case.output::<f32>("lse", [batch, heads, queries]);
    let counter = case.output::<i32>("counter", [1]);
    case.launch(reset, 1, (&counter,))?;
    let kind = setup.blocks.unwrap_or(pattern);
    let shape = shape_of(sizes);
    let [partial, full] = Lists::of(kind, shape);
    let lists = KeyLists::new(shape, partial.view(), full.view()).expect("lists of a pattern fit");
    let mut input = |name: &'static str, list: Vec<i32>| {
        case.input::<i32>(name, [list.len()], move |at| list[at])
    };
    let starts = input("starts", lists.starts);
    let partial = input("partial", lists.partial);
    let blocks = input("blocks", lists.blocks);
    let cap = match setup.scores {
        Scores::Softcap(cap) => cap,
        Scores::Plain | Scores::Alibi => 1.0,
    };
    let [score_scale, exponent_scale] = M::factors(attention.scale() as f32, cap as f32);
    let tiles = queries.div_ceil(GROUPS * ROWS) * heads * batch;
    let [of_batch, of_head] = shape.lists_of_queries();
    let shape = |columns: usize| [batch, heads, queries, 1, columns];
    let strides = |columns: usize| {
        let of_head = queries * columns;
        [heads * of_head, of_head, columns, columns, 1]
    };
    let of_queries = q.view().with_shape(shape(D)).with_strides(strides(D));
    let of_out = out.view().with_shape(shape(DV)).with_strides(strides(DV));
    case.launch(
        forward_blocks::<T, D, DV, KEYS, TURNS, M>,
        tiles.min(3),
        (
            &of_queries,
            &k,
            &v.view().with_shape([1, batch, kv_heads, keys, DV]),
            &of_out,
            &lse,
            &counter,
            &starts,
            &partial,
            &blocks,
            &sinks,
            &sinks,
            batch as i32,
            heads as i32,
            query_heads as i32,
            queries as i32,
            keys as i32,
            i32::from(setup.has_sinks),
            reach(setup.mask.left, 0),
            reach(setup.mask.right, 0),
            of_batch as i32,
            of_head as i32,
            (UNIT / (GROUPS * ROWS)) as i32,
            (UNIT / KEYS) as i32,
            exponent_scale * LOG2_E as f32,
            score_scale,
        ),
    )?;
    let reference = || {
        let of_sinks = attention.sinks(&sinks);
        attention.reference([&numbers(&q), &numbers(&k), &numbers(&v)], [&[], &of_sinks])
    };
    expect_results(case, (&out, &lse), setup.tolerances(6e-3), reference)?;
    case.expect(&counter, |[_]| 0_i64, Exactly)
}

macro_rules! cases {
    ($($name:ident: <$ty:ty, $d:literal, $dv:literal, $keys:literal, $turns:literal, $modifier:ty>, $setup:expr,
       batch = $batch:tt, kv_heads = $kv:tt, query_heads = $g:tt, queries = $queries:tt, keys = $ks:tt;)*) => {$(
        #[case(sizes(batch = $batch, kv_heads = $kv, query_heads = $g, queries = $queries, keys = $ks))]
        fn $name(case: &mut Case) -> CaseResult {
            listed::<$ty, $d, $dv, $keys, $turns, $modifier>(case, $setup)
        }
    )*};
}

const MIXED: Setup = Setup {
    blocks: Some(pattern),
    ..CAUSAL
};

cases! {
    blocks_64: <bf16, 64, 64, 128, true, Plain>, MIXED,
        batch = [2, 1], kv_heads = [1, 2], query_heads = [2], queries = [300, 65], keys = [600, 384];
    blocks_64_full: <f16, 64, 64, 128, true, Plain>, Setup { blocks: Some(whole), ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [1], queries = [256], keys = [384];
    blocks_96: <f16, 96, 96, 128, true, Plain>, MIXED,
        batch = [1], kv_heads = [1], query_heads = [1], queries = [70], keys = [300];
    blocks_128: <bf16, 128, 128, 128, true, Plain>, MIXED,
        batch = [1], kv_heads = [1], query_heads = [2], queries = [200], keys = [700];
    blocks_128_softcap: <bf16, 128, 128, 128, true, Softcap>, Setup { scores: Scores::Softcap(5.0), has_sinks: true, ..MIXED },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [130], keys = [300];
    blocks_192: <bf16, 192, 128, 64, true, Plain>, MIXED,
        batch = [1], kv_heads = [1], query_heads = [1], queries = [129], keys = [500];
    blocks_256: <bf16, 256, 256, 64, false, Plain>, MIXED,
        batch = [1], kv_heads = [1], query_heads = [2], queries = [128], keys = [301];
}
