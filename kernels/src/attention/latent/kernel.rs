//! Attention of a few queries to a cache of latent vectors (MLA): a row is the key of all heads, and its first columns are the value.
//!
//! A CTA has 64 rows, which are heads of a token and tokens of a sequence, and loads each block of the cache once. Rows of 576 columns leave room for
//! two blocks of 64 keys, and the accumulator of 512 columns takes half of all registers: so each of two warpgroups computes the scores of
//! every other block, and half of the columns of P · V of every block. What a warpgroup needs of the other's block, P and the maxima, it gets
//! through shared memory. While one waits for its softmax or its block, the tensor cores have the products of the other.
//!
//! The cost of a step of two blocks is 4352 cycles of the tensor cores, and a little more of shared memory: 2304 for Q · K with 64
//! columns, 1024 for V, and 1152 for the loads. 64 rows or fewer are bound by memory bandwidth, 128 by the products.
//!
//! All sequences' keys lie end to end, and each part of the grid takes as many of them, as a plan says: see `deal.rs` and `plan.rs`.

use tilekit::prelude::*;

use super::loads::{LatentMaps, LatentTiles};
use super::part::LatentPart;
use super::plan::Plan;
use super::rows::LatentRows;
use super::shape::{HALF, PAGE, ROPE};
use crate::attention::mainloop::problem::ROWS;
use crate::attention::mainloop::shape::swizzle;

/// Registers of a consumer thread, and of a producer thread.
const REGISTERS: [u32; 2] = [240, 24];

/// Attention of `queries` tokens of each sequence to its keys, of which `plan` says how many there are, the queries' own included, and which part of the grid has them.
///
/// Q is `[batch, rows, 576]`, and row `r` of it is token `r / token_rows % queries` and head `r / head_rows % heads`, where `row_order` is `[token_rows, head_rows]`. The cache is `[pages, 64, 576]`; the row of
/// `table_row` entries of `table` for a sequence names its pages. A query sees the keys up to its position; the last query has the last
/// key's position. Dimension 0 of the grid has a program for each 64 rows, dimension 1 for each part. A sequence of which a part has all keys
/// goes to `out`, whose heads and tokens are the strides apart, and to `lse`, `[batch, heads, queries]`; the pieces of others go to `sums`, `[pieces, rows, 512]`, and
/// `lse_of_pieces`, `[pieces, rows]`, which [`merge_latent`](super::merge::merge_latent) merges.
///
/// `AHEAD` is for many steps and several tiles of rows: the first warpgroup's product with the second block is in flight during the next scores, each block's P has a place of its own, and
/// the CTAs of a sequence bring the pages of the next step into L2, each its share. Pages are `page_stride` elements apart then, and contiguous, from `cache_rows` on.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(<bf16, false>, <bf16, true>, <f16, false>))]
pub fn decode_latent<T: Float + WgmmaOperand<T, f32>, const AHEAD: bool>(
    #[block([1, ROWS, HALF], swizzle::<T>(HALF, 3))] q: TensorMap<T>,
    #[block([1, ROWS, ROPE], swizzle::<T>(ROPE, 3))] q_rope: TensorMap<T>,
    #[block([1, PAGE, HALF], swizzle::<T>(HALF, 3))] cache: TensorMap<T>,
    #[block([1, PAGE, ROPE], swizzle::<T>(ROPE, 3))] cache_rope: TensorMap<T>,
    cache_rows: Ptr<T>,
    #[multiple_of(8)] page_stride: i64,
    out: Ptr<T>,
    lse: Ptr<f32>,
    sums: Ptr<f32>,
    lse_of_pieces: Ptr<f32>,
    #[align(4)] table: Ptr<i32>,
    #[align(4)] plan: Ptr<i32>,
    heads: i32,
    queries: i32,
    row_order: [i32; 2],
    table_row: i32,
    log2_scale: f32,
    #[multiple_of(8)] out_strides: [i64; 3],
) {
    let [token_rows, head_rows] = row_order;
    assume((heads > 0) & (queries > 0) & (table_row > 0));
    assume((token_rows > 0) & (head_rows > 0));
    // Barriers are there before the launch in front has ended. What follows begins when that has ended for all CTAs, so that `merge_latent` may read the plan before it waits.
    let tiles = LatentTiles::<T>::alloc();
    let (tile, part) = (program_id(0), program_id(1));
    let planned = || Plan {
        numbers: plan,
        parts: num_programs(1),
    };
    let rows = LatentRows {
        tile,
        heads,
        queries,
        token_rows,
        head_rows,
        out,
        strides: out_strides,
        lse,
        sums,
        lse_of_pieces,
    };
    launch_wait();
    launch_dependents();
    let maps = LatentMaps {
        q: [q, q_rope],
        cache: [cache, cache_rope],
        table,
        table_row,
        rows: cache_rows,
        page_stride,
        row_tiles: num_programs(0),
        is_ahead: AHEAD,
    };
    let attend = |group: usize| {
        let consumer = LatentPart {
            tiles,
            rows,
            group,
            log2_scale,
            is_ahead: AHEAD,
        };
        consumer.attend(planned(), part);
    };
    // Each partition reads how many parts there are: a number from before them would be spilled.
    let [of_consumers, of_producer] = REGISTERS;
    warp_specialize()
        .registers(of_consumers)
        .main(|| attend(0))
        .worker(Warps(4).registers(of_consumers), || attend(1))
        .worker(Warps(1).registers(of_producer), || {
            maps.load(planned(), part, rows.tile, tiles);
        })
        .run();
}
