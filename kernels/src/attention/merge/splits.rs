//! Merges the results of splits of the keys.

use tilekit::prelude::*;

use crate::attention::decode::splits::Splits;
use crate::attention::mainloop::softmax::LEAST;

/// The most splits of a sequence.
pub(in crate::attention) const MOST_SPLITS: usize = 256;

/// Splits whose outputs of `columns` columns are read at a time by so many warps: 64 registers of a thread.
const fn at_once(columns: usize, warps: usize) -> usize {
    64 * 32 * warps / columns
}

/// `out` and `lse` of all keys, from those of each split: a program of one warp for each query of each head of each batch. The splits count by the
/// exponentials of their LSE. `sums` is `[splits, batch, heads, queries, DV]` and `lse_of_splits` likewise; which splits have keys follows from
/// `lengths`, as in [`decode`](crate::attention::decode::kernel::decode), whose tiles have `tokens` queries and blocks of `KEYS`; a sequence has `room` tokens at most.
#[kernel(warps = 1, instances(<bf16, 64, 128>, <bf16, 128, 128>, <bf16, 256, 64>, <f16, 128, 128>))]
pub fn merge_splits<T: Float, const DV: usize, const KEYS: usize>(
    sums: Ptr<f32>,
    lse_of_splits: Ptr<f32>,
    out: Ptr<T>,
    lse: Ptr<f32>,
    #[align(4)] lengths: Ptr<i32>,
    room: i32,
    heads: i32,
    queries: i32,
    splits: i32,
    tokens: i32,
    left: i32,
    #[multiple_of(8)] out_strides: [i64; 3],
) {
    assume((heads > 0) & (queries > 0) & (splits > 0) & (tokens > 0));
    let row = program_id(0);
    let (line, token) = (row / queries, row % queries);
    let (batch, head) = (line / heads, line % heads);
    let share = Splits {
        lengths,
        room,
        parts: splits,
        queries,
        left,
        tile: [1, KEYS],
    };
    launch_dependents();
    launch_wait();
    let used = share
        .shares(share.keys(batch), token / tokens * tokens)
        .used();
    let lines = Lines {
        sums,
        lse: lse_of_splits,
        first: row,
        stride: num_programs(0),
        count: used,
        columns: DV,
    };
    let (merged, sum) = merge(lines, DV, 1);
    lse.at(row).store(sum);
    let [of_batch, of_head, of_token] = out_strides;
    let first = batch.cast::<i64>() * of_batch
        + head.cast::<i64>() * of_head
        + token.cast::<i64>() * of_token;
    let column = arange(0..DV, merged.layout());
    out.at(column.cast::<i64>() + first)
        .store(merged.cast::<T>());
}

/// The results of the splits of a row: line `first` of `sums`, `[lines, columns]`, and of `lse`, and each `stride` lines after it.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Lines {
    pub(in crate::attention) sums: Ptr<f32>,
    pub(in crate::attention) lse: Ptr<f32>,
    pub(in crate::attention) first: Scalar<i32>,
    pub(in crate::attention) stride: Scalar<i32>,
    /// Splits that have keys, at most [`MOST_SPLITS`].
    pub(in crate::attention) count: Scalar<i32>,
    pub(in crate::attention) columns: usize,
}

/// The output of all splits in the first `columns` columns, and its LSE, by the `warps` warps of a program: they divide the columns by 128 each, and the splits.
#[device]
pub(in crate::attention) fn merge(
    lines: Lines,
    columns: usize,
    warps: usize,
) -> (Tensor<f32>, Scalar<f32>) {
    // Each warp has the LSE of all splits, so that nothing that is made of them passes through shared memory.
    let of_lse = Blocked::new([1, 1], [32, 1], [1, warps], [0, 1]);
    let split = arange(0..MOST_SPLITS, Slice::new(1, of_lse));
    let all = lines.lse.at(lines.first + split * lines.stride);
    let all = all.mask(split < lines.count);
    let all = all.other(f32::NEG_INFINITY).load();

    // Four columns of a lane, and the lanes of a row beside each other.
    let across = (columns / 128).clamp(1, warps);
    let (at_once, lanes) = (at_once(columns, warps), (columns / across / 4).min(32));
    let of_warps = [warps / across, across];
    let layout = Blocked::new([1, 4], [32 / lanes, lanes], of_warps, [1, 0]);
    let column = arange(0..columns, Slice::new(0, layout.clone()));
    let read = |first: Scalar<i32>| {
        let split = first + arange(0..at_once, Slice::new(1, layout.clone()));
        let (line, is_used) = (lines.first + split * lines.stride, split < lines.count);
        let lse = lines.lse.at(line).mask(is_used);
        let at = (line.cast::<i64>() * lines.columns as i64).expand_dims(1)
            + column.expand_dims(0).cast::<i64>();
        let parts = lines.sums.at(at).mask(is_used.expand_dims(1)).other(0.0);
        (lse.other(f32::NEG_INFINITY).load(), parts.load())
    };
    // The first outputs are on their way while the LSE are reduced.
    let begin = read(scalar(0));

    let largest = maximum(all.max(0).scalar(), LEAST);
    let total = ((all - largest) * LOG2_E as f32).exp2().sum(0).scalar();
    // A total of NaN is that of a row with NaN, which stays one.
    let has_keys = total != 0.0;
    let sum = select(has_keys, largest + total.log(), f32::NEG_INFINITY);

    let weighted = |(lse, parts): (Tensor<f32>, Tensor<f32>)| {
        let weight = ((lse - largest) * LOG2_E as f32).exp2();
        (parts * weight.expand_dims(1)).sum(0)
    };
    let mut merged = weighted(begin);
    for first in range(at_once as i32, lines.count).step(at_once as i32) {
        merged += weighted(read(first));
    }
    (merged * select(has_keys, 1.0 / total, 0.0), sum)
}
