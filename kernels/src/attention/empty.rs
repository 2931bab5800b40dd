//! Attention to no keys: a tensor map cannot have an extent of zero.

use tilekit::prelude::*;

/// Columns that one step of a program writes.
const COLUMNS: usize = 256;

/// Rows of zeros, and LSE of `sinks` alone (-inf without them): a program for each of the `tokens` of each head of each batch. `out` has rows of
/// `columns`, and its strides are those of batches, heads and tokens.
#[kernel(warps = 1, instances(<bf16>, <f16>))]
pub fn empty_rows<T: Float>(
    out: Ptr<T>,
    lse: Ptr<f32>,
    #[align(4)] sinks: Ptr<f32>,
    has_sinks: i32,
    heads: i32,
    tokens: i32,
    columns: i32,
    #[multiple_of(8)] strides: [i64; 3],
) {
    assume((heads > 0) & (tokens > 0));
    let (token, all_heads) = (program_id(0) % tokens, program_id(0) / tokens);
    let (batch, head) = (all_heads / heads, all_heads % heads);
    let [of_batch, of_head, of_token] = strides;
    let row = batch.cast::<i64>() * of_batch
        + head.cast::<i64>() * of_head
        + token.cast::<i64>() * of_token;
    let column = arange(0..COLUMNS, Coalesced);
    let zeros = zeros_like(column).cast::<T>();
    out.at(row + column).mask(column < columns).store(zeros);
    let sink = sinks.at(head).mask(has_sinks != 0).other(f32::NEG_INFINITY);
    lse.at(program_id(0)).store(sink.load());
}
