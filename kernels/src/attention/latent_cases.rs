//! Cases of attention to a cache of latent vectors, against f64.

use tilekit::prelude::*;

use super::latent::decode_latent;
use super::latent_shape::{HALF, PAGE, ROPE};
use super::merge_latent::merge_latent;
use super::plan::Sizes;
use super::problem::ROWS;
use super::reference::{Attention, CAUSAL, numbers};

/// Columns of a key, and of a value.
const DEPTHS: [usize; 2] = [2 * HALF + ROPE, 2 * HALF];

/// Sequences of these lengths, whose pages are in another order than the sequences.
#[derive(Clone)]
struct Paged {
    lengths: Vec<usize>,
    /// Entries of a row of the table.
    row: usize,
}

impl Paged {
    fn pages(&self) -> usize {
        self.lengths.len() * self.row
    }

    /// The page of an entry of the table, and the entry of a page.
    fn page_of(&self, entry: usize) -> usize {
        self.pages() - 1 - entry
    }

    /// A cache whose rows past the last key of a sequence are NaN.
    fn cache<T: DeviceElement>(&self, case: &mut Case) -> Input<T> {
        let paged = self.clone();
        case.input::<T>("cache", [self.pages(), PAGE, DEPTHS[0]], move |at| {
            let token = at / DEPTHS[0];
            let entry = paged.page_of(token / PAGE);
            let key = entry % paged.row * PAGE + token % PAGE;
            let number = if key < paged.lengths[entry / paged.row] {
                let bits = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let bits = (bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                (bits >> 40) as f64 / f64::from(1 << 22) - 2.0
            } else {
                f64::NAN
            };
            T::nearest(Number::Float(number)).expect("a float holds every number")
        })
    }

    /// The rows of one sequence, of its first `columns` columns.
    fn gathered(&self, cache: &[f64], batch: usize, columns: usize) -> Vec<f64> {
        let row = |key: usize| {
            let page = self.page_of(batch * self.row + key / PAGE);
            &cache[(page * PAGE + key % PAGE) * DEPTHS[0]..][..columns]
        };
        (0..self.lengths[batch]).flat_map(row).copied().collect()
    }
}

/// A case with sequences of these lengths, or of one length, in a grid of so many parts. Tokens are outside of heads in memory, or inside.
fn latent<T>(case: &mut Case, lengths: Option<&[usize]>, tokens_outside: bool) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + DeviceElement,
{
    let [batch, heads, queries, keys, parts] =
        ["batch", "heads", "queries", "keys", "parts"].map(|name| case.size(name));
    let [depth, columns] = DEPTHS;
    let paged = Paged {
        lengths: (0..batch)
            .map(|at| lengths.map_or(keys, |lengths| lengths[at % lengths.len()]))
            .collect(),
        row: keys.div_ceil(PAGE),
    };
    let rows = heads * queries;
    let q = case.normal::<T>("q", [batch, rows, depth]);
    let cache = paged.cache::<T>(case);
    let of_lengths = paged.clone();
    let of_batch = case.input::<i32>("lengths", [batch], move |at| of_lengths.lengths[at] as i32);
    let of_table = paged.clone();
    let table = case.input::<i32>("table", [paged.pages()], move |entry| {
        let in_row = entry % of_table.row * PAGE;
        // Entries past the last key name no page, and are not read.
        if in_row < of_table.lengths[entry / of_table.row] {
            of_table.page_of(entry) as i32
        } else {
            i32::MAX
        }
    });
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
        batch: 1,
        heads,
        kv_heads: 1,
        queries,
        keys,
        depths: DEPTHS,
    };
    let setup = super::reference::Setup {
        tokens_first: tokens_outside,
        ..CAUSAL
    };
    let attention = |batch: usize| {
        let keys = paged.lengths[batch];
        Attention::new(Sizes { keys, ..sizes }, setup)
    };
    let (q_view, cache_view) = (q.view(), cache.view());
    case.launch(
        decode_latent::<T>,
        parts * row_tiles,
        (
            &q_view,
            &q_view,
            &cache_view,
            &cache_view,
            &out,
            &lse,
            &sums,
            &lse_of_pieces,
            &of_batch,
            &table,
            batch as i32,
            heads as i32,
            queries as i32,
            row_tiles as i32,
            token_rows as i32,
            head_rows as i32,
            paged.row as i32,
            (attention(0).scale() * LOG2_E) as f32,
            strides[0],
            strides[1],
            strides[2],
        ),
    )?;
    case.launch(
        merge_latent::<T, { 2 * HALF }, 128>,
        grid([(batch * rows).min(2112), 2 * HALF / 128]),
        (
            &sums,
            &lse_of_pieces,
            &out,
            &lse,
            &of_batch,
            batch as i32,
            heads as i32,
            queries as i32,
            parts as i32,
            paged.row as i32,
            strides[0],
            strides[1],
            strides[2],
        ),
    )?;
    let made = std::sync::OnceLock::new();
    let reference = || {
        made.get_or_init(|| {
            let (q, cache) = (numbers(&q), numbers(&cache));
            let mut all = [Vec::new(), Vec::new()];
            for batch in 0..batch {
                let q = &q[batch * rows * depth..][..rows * depth];
                let [k, v] = DEPTHS.map(|columns| paged.gathered(&cache, batch, columns));
                let of_batch = attention(batch).reference([q, &k, &v], [&[], &[]]);
                for (all, of_batch) in all.iter_mut().zip(of_batch) {
                    all.extend(of_batch);
                }
            }
            all
        })
    };
    // P and results are rounded to `T`, an error of 2^-9 each.
    let tolerance = Close {
        relative: 8e-3,
        absolute: 6e-3,
    };
    case.expect_all(&out, || reference()[0].clone(), tolerance)?;
    let tolerance = Close {
        relative: 1e-5,
        absolute: 1e-4,
    };
    case.expect_all(&lse, || reference()[1].clone(), tolerance)?;
    let tokens: usize = paged.lengths.iter().sum();
    case.does_tensor_flops::<T>(2 * rows * tokens * (depth + columns));
    case.moves_bytes(size_of::<T>() * tokens * depth);
    Ok(())
}

macro_rules! cases {
    ($($name:ident: $ty:ty, $lengths:expr, $tokens_outside:literal,
       batch = $batch:tt, heads = $heads:tt, queries = $queries:tt, keys = $keys:tt, parts = $parts:tt;)*) => {$(
        #[case(sizes(batch = $batch, heads = $heads, queries = $queries, keys = $keys, parts = $parts))]
        fn $name(case: &mut Case) -> CaseResult {
            latent::<$ty>(case, $lengths, $tokens_outside)
        }
    )*};
}

/// None, one, and around a page and a step.
const RAGGED: &[usize] = &[65, 0, 1, 127, 64, 63, 129, 128, 300];

cases! {
    decode_latent_16: bf16, None, true,
        batch = [1, 2, 3], heads = [16], queries = [1, 4, 5], keys = [128, 300, 129], parts = [1, 3, 4];
    decode_latent_64: bf16, None, true,
        batch = [1], heads = [64], queries = [1, 2], keys = [200, 700], parts = [1, 5];
    decode_latent_128: bf16, None, true,
        batch = [1, 2], heads = [128], queries = [1], keys = [300, 64], parts = [3, 1];
    decode_latent_ragged: bf16, Some(RAGGED), true,
        batch = [9, 9], heads = [16], queries = [3, 1], keys = [300], parts = [4, 1];
    decode_latent_heads_outside: bf16, Some(RAGGED), false,
        batch = [9], heads = [7], queries = [2], keys = [300], parts = [2];
    decode_latent_long: bf16, Some(&[4099, 2]), true,
        batch = [2], heads = [16], queries = [1], keys = [4099], parts = [4];
    decode_latent_f16: f16, None, true,
        batch = [1], heads = [32], queries = [2], keys = [200], parts = [2];
}
