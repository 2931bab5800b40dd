//! Cases of gradients of block-sparse masks, against f64.

use tilekit::prelude::*;

use super::case_tensors::{Given, Made};
use super::cases::between_passes;
use super::listed_kernel::backward_blocks;
use crate::attention::blocks::lists::UNIT;
use crate::attention::blocks::patterns::{Lists, pattern, shape_of, whole};
use crate::attention::blocks::transposed::QueryLists;
use crate::attention::modifier::{Differentiable, Plain, Softcap};
use crate::attention::plan::{Numbers, Tile};
use crate::attention::setup::{CAUSAL, Scores, Setup};

fn launch<T, const D: usize, const DV: usize, const ORDERED: bool, M: Differentiable>(
    case: &mut Case,
    given: &Given<T>,
    made: &Made<T>,
) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + MmaOperand<T, f32> + DeviceElement,
{
    let (sizes, setup) = (given.attention.sizes, given.setup);
    let shape = shape_of(sizes);
    let [partial, full] = Lists::of(setup.blocks.unwrap_or(pattern), shape);
    let lists = QueryLists::new(shape, partial.view(), full.view());
    let mut input = |name: &'static str, list: Vec<i32>| {
        case.input::<i32>(name, [list.len().max(1)], move |at| {
            list.get(at).copied().unwrap_or(0)
        })
    };
    let starts = input("starts", lists.starts);
    let partial = input("partial", lists.partial);
    let blocks = input("blocks", lists.blocks);
    let ranks = input("ranks", lists.ranks);
    let [of_batch, of_block, of_head] = shape.lists_of_keys();
    let tile = Tile {
        rows: 1,
        keys: given.of_cluster().block_keys,
        pack: 1,
    };
    let numbers = Numbers::new(sizes, setup.mask, tile, size_of::<T>());
    let cap = match setup.scores {
        Scores::Softcap(cap) => cap,
        Scores::Plain | Scores::Alibi => 1.0,
    };
    let scale = given.attention.scale() as f32;
    let [score_scale, exponent_scale] = M::factors(scale, cap as f32);
    let [dk, dv] = [
        given.blocked(made.dk.view(), 1, D),
        given.blocked(made.dv.view(), 1, DV),
    ];
    let sections = given.sections::<ORDERED>();
    case.launch(
        backward_blocks::<T, D, DV, ORDERED, M>,
        grid([sizes.keys.div_ceil(tile.keys), sizes.kv_heads, sizes.batch]),
        (
            &given.blocked(given.q.view(), 0, D),
            &given.blocked(given.k.view(), 1, D),
            &given.blocked(given.v.view(), 1, DV),
            &given.blocked(given.dout.view(), 0, DV),
            &dk,
            &dv,
            &made.log2_sum,
            &made.delta,
            &made.parts,
            &made.sums,
            &made.turns,
            &starts,
            &partial,
            &blocks,
            &ranks,
            &given.data,
            numbers.query_heads,
            numbers.queries,
            numbers.keys,
            numbers.left,
            numbers.right,
            given.blocks()[1] as i32,
            sections.heads,
            sections.lead,
            of_batch as i32,
            of_block as i32,
            of_head as i32,
            (UNIT / given.block()) as i32,
            (UNIT / tile.keys) as i32,
            exponent_scale * LOG2_E as f32,
            score_scale,
            scale,
        ),
    )?;
    Ok(())
}

macro_rules! cases {
    ($($name:ident: <$ty:ty, $d:literal, $dv:literal, $ordered:literal, $modifier:ty>, $setup:expr,
       batch = $batch:tt, kv_heads = $kv:tt, query_heads = $g:tt, queries = $queries:tt, keys = $ks:tt;)*) => {$(
        #[case(sizes(batch = $batch, kv_heads = $kv, query_heads = $g, queries = $queries, keys = $ks))]
        fn $name(case: &mut Case) -> CaseResult {
            let launch = launch::<$ty, $d, $dv, $ordered, $modifier>;
            between_passes::<$ty, $d, $dv, $ordered>(case, $setup, launch)?;
            Ok(())
        }
    )*};
}

const MIXED: Setup = Setup {
    blocks: Some(pattern),
    ..CAUSAL
};

cases! {
    backward_blocks_64: <bf16, 64, 64, false, Plain>, MIXED,
        batch = [2, 1], kv_heads = [1, 2], query_heads = [2], queries = [300, 65], keys = [290, 200];
    backward_blocks_64_ordered: <bf16, 64, 64, true, Plain>, Setup { blocks: Some(whole), ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [1], queries = [256], keys = [384];
    backward_blocks_96: <bf16, 96, 96, false, Plain>, MIXED,
        batch = [1], kv_heads = [1], query_heads = [1], queries = [70], keys = [300];
    backward_blocks_128: <bf16, 128, 128, false, Plain>, MIXED,
        batch = [1], kv_heads = [1], query_heads = [2], queries = [200], keys = [500];
    backward_blocks_128_softcap: <bf16, 128, 128, false, Softcap>, Setup { scores: Scores::Softcap(5.0), has_sinks: true, ..MIXED },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [130], keys = [300];
    backward_blocks_128_ordered: <f16, 128, 128, true, Plain>, MIXED,
        batch = [1], kv_heads = [1], query_heads = [2], queries = [300], keys = [300];
    backward_blocks_192: <bf16, 192, 128, false, Plain>, MIXED,
        batch = [1], kv_heads = [1], query_heads = [1], queries = [129], keys = [300];
    backward_blocks_256: <bf16, 256, 256, false, Plain>, MIXED,
        batch = [1], kv_heads = [1], query_heads = [2], queries = [128], keys = [201];
    backward_blocks_256_ordered: <bf16, 256, 256, true, Plain>, MIXED,
        batch = [1], kv_heads = [1], query_heads = [1], queries = [140], keys = [201];
}
