//! What splits of keys gave, as one result.

use tilekit::prelude::*;

use super::cached::Splits;

/// The most splits of a sequence.
pub(super) const MOST_SPLITS: usize = 256;
/// Splits whose outputs are read at a time.
const AT_ONCE: usize = 16;

/// `out` and `lse` of all keys, from those of each split: a program for each query of each head of each batch. The splits count by the
/// exponentials of their LSE. `sums` is `[splits, batch, heads, queries, DV]` and `lse_of_splits` likewise; which splits have keys follows from
/// `lengths`, as in [`decode`](super::decode::decode), whose tiles have `tokens` queries and blocks of `KEYS`.
#[kernel(warps = 4, instances(<bf16, 64, 128>, <bf16, 128, 128>, <bf16, 256, 64>, <f16, 128, 128>))]
pub fn merge_splits<T: Float, const DV: usize, const KEYS: usize>(
    #[readonly] sums: Ptr<f32>,
    #[readonly] lse_of_splits: Ptr<f32>,
    out: Ptr<T>,
    lse: Ptr<f32>,
    #[align(4)] lengths: Ptr<i32>,
    heads: i32,
    queries: i32,
    splits: i32,
    tokens: i32,
    left: i32,
    #[multiple_of(8)] out_batch: i64,
    #[multiple_of(8)] out_head: i64,
    #[multiple_of(8)] out_token: i64,
) {
    assume((heads > 0) & (queries > 0) & (splits > 0) & (tokens > 0));
    let row = program_id(0);
    let (line, token) = (row / queries, row % queries);
    let (batch, head) = (line / heads, line % heads);
    let share = Splits {
        lengths,
        parts: splits,
        queries,
        left,
        tile: [1, KEYS],
    };
    let keys = lengths.at(batch).load();
    let used = share.shares(keys, token / tokens * tokens).used();
    let rows = num_programs(0);

    let split = arange(0..MOST_SPLITS, Blocked::new([1], [32], [4], [0]));
    let all = lse_of_splits.at(split * rows + row);
    let all = all.mask(split < used).other(f32::NEG_INFINITY).load();
    let largest = maximum(all.max(0).scalar(), -1e30);
    let total = ((all - largest) * LOG2_E as f32).exp2().sum(0).scalar();
    let has_keys = total > 0.0;
    let sum = select(has_keys, largest + total.log(), f32::NEG_INFINITY);
    lse.at(row).store(sum);

    // Four columns of a thread, whose lanes and then warps follow each other along the splits.
    let lanes = (DV / 4).min(32);
    let layout = Blocked::new([1, 4], [32 / lanes, lanes], [4, 1], [1, 0]);
    let split = arange(0..AT_ONCE, Slice::new(1, layout.clone()));
    let column = arange(0..DV, Slice::new(0, layout.clone()));
    let mut merged = zeros::<f32>([DV], column.layout());
    for first in range(0, used).step(AT_ONCE) {
        let split = first + split;
        let is_used = split < used;
        let line = split * rows + row;
        let of_split = lse_of_splits
            .at(line)
            .mask(is_used)
            .other(f32::NEG_INFINITY);
        let weight = ((of_split.load() - largest) * LOG2_E as f32).exp2();
        let at =
            (line.cast::<i64>() * DV as i64).expand_dims(1) + column.expand_dims(0).cast::<i64>();
        let parts = sums.at(at).mask(is_used.expand_dims(1)).other(0.0).load();
        merged += (parts * weight.expand_dims(1)).sum(0);
    }
    let merged = merged * select(has_keys, 1.0 / total, 0.0);
    let first = batch.cast::<i64>() * out_batch
        + head.cast::<i64>() * out_head
        + token.cast::<i64>() * out_token;
    out.at(column.cast::<i64>() + first)
        .store(merged.cast::<T>());
}
