//! Cases of attention to a cache of latent vectors, against f64.

use tilekit::prelude::*;

use super::kernel::decode_latent;
use super::merge::merge_latent;
use super::plan::{plan_latent, plan_numbers};
use super::shape::{HALF, PAGE, ROPE};
use crate::attention::decode::cached_cases::{Sequences, expect_results};
use crate::attention::mainloop::problem::ROWS;
use crate::attention::plan::Sizes;
use crate::attention::reference::numbers;
use crate::attention::setup::{CAUSAL, Setup};

/// Columns of a key, and of a value.
const DEPTHS: [usize; 2] = [2 * HALF + ROPE, 2 * HALF];

/// A case with sequences of these lengths, or of one length, in a grid of so many parts. Tokens are outside of heads in memory, or inside.
fn latent<T, const AHEAD: bool, const COLUMNS: usize>(
    case: &mut Case,
    lengths: Option<&[usize]>,
    tokens_outside: bool,
) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + DeviceElement,
{
    let [batch, heads, queries, keys, parts] =
        ["batch", "heads", "queries", "keys", "parts"].map(|name| case.size(name));
    let [depth, columns] = DEPTHS;
    let sequences = Sequences {
        kv_heads: 1,
        lengths: (0..batch)
            .map(|at| lengths.map_or(keys, |lengths| lengths[at % lengths.len()]))
            .collect(),
        page: PAGE,
        row: keys.div_ceil(PAGE),
        is_paged: true,
    };
    let rows = heads * queries;
    let q = case.normal::<T>("q", [batch, rows, depth]);
    let cache = sequences.cache::<T>(case, "cache", depth);
    let [of_batch, table] = sequences.inputs(case);
    let out = case.output::<T>("out", [batch, rows, columns]);
    let lse = case.output::<f32>("lse", [batch, heads, queries]);
    let pieces = parts + batch - 1;
    let sums = case.output::<f32>("sums", [pieces, rows, columns]);
    let lse_of_pieces = case.output::<f32>("lse_of_pieces", [pieces, rows]);
    let row_tiles = rows.div_ceil(ROWS);
    let [token_rows, head_rows] = if tokens_outside {
        [heads, 1]
    } else {
        [1, queries]
    };
    let strides = [rows, head_rows, token_rows].map(|rows| (rows * columns) as i64);
    let sizes = Sizes {
        batch,
        heads,
        kv_heads: 1,
        queries,
        keys,
        depths: DEPTHS,
    };
    let setup = Setup {
        tokens_first: tokens_outside,
        ..CAUSAL
    };
    let scale = sequences.attention(0, sizes, setup).scale();
    let q_view = q.view();
    let cache_view = cache.view().with_shape([sequences.pages(), PAGE, depth]);
    let plan = case.output::<i32>("plan", [plan_numbers(parts, batch)]);
    case.launch(
        plan_latent,
        parts,
        (
            &of_batch,
            &plan,
            batch as i32,
            sequences.row as i32,
            i32::from(!AHEAD),
        ),
    )?;
    let row_order = [token_rows as i32, head_rows as i32];
    case.launch(
        decode_latent::<T, AHEAD>,
        grid([row_tiles, parts]),
        (
            &q_view,
            &q_view,
            &cache_view,
            &cache_view,
            &cache_view,
            (PAGE * depth) as i64,
            &out,
            &lse,
            &sums,
            &lse_of_pieces,
            &table,
            &plan,
            heads as i32,
            queries as i32,
            row_order,
            sequences.row as i32,
            (scale * LOG2_E) as f32,
            strides,
        ),
    )?;
    case.launch(
        merge_latent::<T, COLUMNS>,
        grid([(batch * rows).min(660), 2 * HALF / COLUMNS]),
        (
            &sums,
            &lse_of_pieces,
            &out,
            &lse,
            &plan,
            heads as i32,
            queries as i32,
            parts as i32,
            row_order,
            strides,
        ),
    )?;
    let reference = || {
        let cache = numbers(&cache);
        let caches = [(&cache[..], depth); 2];
        sequences.reference((sizes, setup), &q, caches, [&[], &[]])
    };
    // P and results are rounded to `T`, an error of 2^-9 each.
    expect_results(case, (&out, &lse), setup.tolerances(6e-3), reference)?;
    let tokens: usize = sequences.lengths.iter().sum();
    case.does_tensor_flops::<T>(2 * rows * tokens * (depth + columns));
    case.moves_bytes(size_of::<T>() * tokens * depth);
    Ok(())
}

macro_rules! cases {
    ($($name:ident: $ty:ty, $ahead:literal, $columns:literal, $lengths:expr, $tokens_outside:literal,
       batch = $batch:tt, heads = $heads:tt, queries = $queries:tt, keys = $keys:tt, parts = $parts:tt;)*) => {$(
        #[case(sizes(batch = $batch, heads = $heads, queries = $queries, keys = $keys, parts = $parts))]
        fn $name(case: &mut Case) -> CaseResult {
            latent::<$ty, $ahead, $columns>(case, $lengths, $tokens_outside)
        }
    )*};
}

/// None, one, and around a page and a step.
const RAGGED: &[usize] = &[65, 0, 1, 127, 64, 63, 129, 128, 300];

cases! {
    decode_latent_16: bf16, false, 128, None, true,
        batch = [1, 2, 3], heads = [16], queries = [1, 4, 5], keys = [128, 300, 129], parts = [1, 3, 4];
    decode_latent_64: bf16, false, 512, None, true,
        batch = [1], heads = [64], queries = [1, 2], keys = [200, 700], parts = [1, 5];
    decode_latent_128: bf16, false, 128, None, true,
        batch = [1, 2], heads = [128], queries = [1], keys = [300, 64], parts = [3, 1];
    decode_latent_ragged: bf16, false, 512, Some(RAGGED), true,
        batch = [9, 9], heads = [16], queries = [3, 1], keys = [300], parts = [4, 1];
    decode_latent_heads_outside: bf16, false, 512, Some(RAGGED), false,
        batch = [9], heads = [7], queries = [2], keys = [300], parts = [2];
    decode_latent_long: bf16, false, 512, Some(&[4099, 2]), true,
        batch = [2], heads = [16], queries = [1], keys = [4099], parts = [4];
    decode_latent_f16: f16, false, 128, None, true,
        batch = [1], heads = [32], queries = [2], keys = [200], parts = [2];
    decode_latent_ahead: bf16, true, 512, None, true,
        batch = [1, 2, 3], heads = [16], queries = [1, 4, 5], keys = [128, 300, 129], parts = [1, 3, 4];
    decode_latent_ahead_128: bf16, true, 512, None, true,
        batch = [1, 2], heads = [128], queries = [1], keys = [700, 64], parts = [3, 1];
    decode_latent_ahead_ragged: bf16, true, 512, Some(RAGGED), true,
        batch = [9, 9], heads = [16], queries = [3, 1], keys = [300], parts = [4, 1];
    decode_latent_many: bf16, false, 128, Some(&[1, 130, 257]), true,
        batch = [140], heads = [3], queries = [1], keys = [257], parts = [5];
}
