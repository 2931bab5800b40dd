//! The passes before and after the main loop of attention backward: row sums and zeros before, rounding of dQ after. Up to depth 128 they may have the first and the last heads alone, and the main loop the
//! others (`beside.rs`).

use tilekit::prelude::*;

use super::lines::{LinesFrom, has_depth_of_parts};
use super::part::{GROUPS, half_of_dq, in_order_of_threads};
use crate::attention::mainloop::problem::ROWS;
use crate::attention::masked::lengths::Lengths;

/// Rows that a program reads at a time.
const ROWS_AT_ONCE: usize = 16;

/// 16 bytes a thread; consecutive lanes have consecutive columns of a row.
fn layout_of(columns: usize) -> Blocked {
    let lanes = 1 << (columns / 8).trailing_zeros().min(5);
    Blocked::new([1, 8], [32 / lanes, lanes], [4, 1], [1, 0])
}

/// A block of queries of a head, and its sequence.
struct QueryBlock {
    /// Batch of the tensors, and head.
    batch: Scalar<i32>,
    head: Scalar<i32>,
    /// The head among those of all batches.
    line: Scalar<i32>,
    /// Its first query in the sequence, and in the tensors.
    first: Scalar<i32>,
    token: Scalar<i32>,
    /// Queries of the sequence.
    queries: Scalar<i32>,
    /// Its index among the blocks of all heads.
    number: Scalar<i32>,
}

/// Heads whose blocks a launch has.
struct Lines {
    lengths: Lengths,
    /// The first of the heads of all batches.
    first: Scalar<i32>,
    /// Heads of a batch.
    heads: Scalar<i32>,
    /// Blocks of a head.
    block_stride: Scalar<i32>,
}

impl Lines {
    /// Block `number`, of `size` queries, of this program's line: of consecutive heads from the first on, or, of concatenated sequences, of each head of each.
    #[device]
    fn block(self, number: Scalar<i32>, size: usize) -> QueryBlock {
        let Lines { lengths, heads, .. } = self;
        let line = self.first + program_id(2) * num_programs(1) + program_id(1);
        let (sequence, head) = (line / heads, line % heads);
        let [starts, of_sequence] = lengths.of(sequence);
        let batch = select(lengths.is_ragged, 0, sequence);
        let line = batch * heads + head;
        let first = number * size;
        let of_line = lengths.first_block(sequence, starts, size) + number;
        QueryBlock {
            batch,
            head,
            line,
            first,
            token: starts[0] + first,
            queries: of_sequence[0],
            number: line * self.block_stride + of_line,
        }
    }
}

/// `delta = Σ dout · out` of each row, `log2_sum = lse · log2(e)`, at depths 96 and 128 `parts` of delta and of `lse / scale`, three bf16 whose sum each number is, and zeros in `sums` and `turns`: what
/// [`backward`](super::kernel::backward) reads and adds to. A program for each block of queries of the longest
/// sequence, and each line: heads of all batches, the first of them, or each head of each sequence. The first program sets `progress`, of `counts`, to 0.
///
/// Rows of `out` and `dout` are their strides apart, of batches, heads and tokens; `lse` is `[batch, heads, row_stride]`. With `is_ragged`, batches
/// are concatenated sequences, which begin at `query_offsets`. The results have `QUERIES` rows for each block of queries, and a head has
/// `block_stride` blocks. A row that sees no key, and one past the end of its sequence, has a `log2_sum` of inf, or parts of 3e38, so that its P is 0; without `is_ragged` so have those of whole blocks there.
#[kernel(warps = 4, instances(
    <bf16, 64, 64, 128>,
    <bf16, 64, 64, 64>,
    <bf16, 96, 96, 64>,
    <bf16, 128, 128, 64>,
    <bf16, 192, 128, 64>,
    <bf16, 256, 256, 64>,
    <f16, 128, 128, 64>
))]
pub fn backward_begin<T: Float, const D: usize, const DV: usize, const QUERIES: usize>(
    out: Ptr<T>,
    dout: Ptr<T>,
    lse: Ptr<f32>,
    delta: Ptr<f32>,
    log2_sum: Ptr<f32>,
    parts: Ptr<bf16>,
    sums: Ptr<f32>,
    turns: Ptr<i32>,
    progress: Ptr<i32>,
    #[align(4)] query_offsets: Ptr<i32>,
    queries: i32,
    is_ragged: i32,
    row_stride: i32,
    block_stride: i32,
    heads: i32,
    counts: i32,
    scale: f32,
    #[multiple_of(8)] out_strides: [i64; 3],
    #[multiple_of(8)] dout_strides: [i64; 3],
) {
    assume((heads > 0) & (block_stride > 0));
    let lengths = Lengths {
        is_ragged: is_ragged != 0,
        offsets: [query_offsets, query_offsets],
        queries,
        keys: queries,
    };
    let lines = Lines {
        lengths,
        first: scalar(0),
        heads,
        block_stride,
    };
    let block = lines.block(program_id(0), QUERIES);
    if (program_id(0) == 0) & (program_id(1) == 0) & (program_id(2) == 0) {
        turns.at(0).store(0);
        for first in range(0, counts).step(128) {
            let at = first + arange(0..128, Coalesced);
            progress.at(at).mask(at < counts).store(zeros_like(at));
        }
    }
    // Of equally long sequences the blocks of a launch are written up to the last: lists of blocks may name some behind the end.
    if !lengths.is_ragged | (block.first < block.queries) {
        let layout = layout_of(DV);
        let column = arange(0..DV, Slice::new(0, layout.clone())).expand_dims(0);
        let (batch, head) = (block.batch.cast::<i64>(), block.head.cast::<i64>());
        let mut forms = vec![LinesFrom::Numbers([log2_sum, delta])];
        forms.extend(has_depth_of_parts(D).then_some(LinesFrom::Parts(parts)));
        for part in 0..QUERIES / ROWS_AT_ONCE {
            let rows = part * ROWS_AT_ONCE..(part + 1) * ROWS_AT_ONCE;
            let row = arange(rows, Slice::new(1, layout.clone()));
            let is_row = block.first + row < block.queries;
            let load = |x: Ptr<T>, [of_batch, of_head, of_token]: [Scalar<i64>; 3]| {
                let token = (block.token + row).cast::<i64>();
                let first = batch * of_batch + head * of_head;
                let at = (token * of_token + first).expand_dims(1) + column.cast::<i64>();
                let x = x.at(at).mask(is_row.expand_dims(1)).other(T::ZERO).load();
                x.cast::<f32>()
            };
            let of_out = load(out, out_strides);
            let product = of_out * load(dout, dout_strides);
            let lse = lse.at(block.line * row_stride + block.token + row);
            let lse = lse.mask(is_row).other(f32::NEG_INFINITY).load();
            let of_row = product.sum(1);
            for form in &forms {
                let line = |line: usize| form.from_row(line, block.number * QUERIES, QUERIES);
                let [sums, deltas] = [0, 1].map(line);
                sums.store(row, sums.sum_of(lse, scale));
                deltas.store(row, of_row);
            }
        }
        let to = sums + block.number.cast::<i64>() * (QUERIES * D) as i64;
        let element = arange(0..QUERIES * D, Coalesced);
        to.at(element).store(zeros_like(element).cast::<f32>());
        for group in 0..GROUPS {
            turns.at(block.number * GROUPS + (1 + group)).store(0);
        }
    }
}

/// Computes `dq = scale · sums`, rounded, after [`backward`](super::kernel::backward). A program for each
/// half of a block of queries of the longest sequence, and each line from `first_line` on; the other arguments are as for
/// [`backward_begin`].
#[kernel(warps = 4, instances(
    <bf16, 64, 128>,
    <bf16, 64, 64>,
    <bf16, 96, 64>,
    <bf16, 128, 64>,
    <bf16, 192, 64>,
    <bf16, 256, 64>,
    <f16, 128, 64>
))]
pub fn backward_end<T: Float, const D: usize, const QUERIES: usize>(
    sums: Ptr<f32>,
    dq: Ptr<T>,
    #[align(4)] query_offsets: Ptr<i32>,
    queries: i32,
    is_ragged: i32,
    block_stride: i32,
    heads: i32,
    first_line: i32,
    scale: f32,
    #[multiple_of(8)] strides: [i64; 3],
) {
    launch_dependents();
    launch_wait();
    assume((heads > 0) & (block_stride > 0));
    let lengths = Lengths {
        is_ragged: is_ragged != 0,
        offsets: [query_offsets, query_offsets],
        queries,
        keys: queries,
    };
    let group = program_id(0) % GROUPS;
    let number = program_id(0) / GROUPS;
    let lines = Lines {
        lengths,
        first: first_line,
        heads,
        block_stride,
    };
    let block = lines.block(number, QUERIES);
    if block.first < block.queries {
        let half = half_of_dq(0, D, QUERIES)[1].len();
        let [next_rows, next_columns] = half_of_dq(1, D, QUERIES).map(|part| part.start);
        let of_half = Wgmma::new([4, 1], [64, half, 16]);
        let order = in_order_of_threads(zeros([ROWS, half], of_half), half).layout();
        let first = (block.number * GROUPS + group).cast::<i64>() * (ROWS * half) as i64;
        let sum = (sums + first).at(arange(0..ROWS * half, order)).load();
        let sum = (sum * scale).reshape([half / 8, 4, 8, 4, 2, 2]);
        let sum = sum.permute([1, 4, 2, 0, 3, 5]).reshape([ROWS, half]);
        let layout = layout_of(half);
        let sum = sum.cast::<T>().convert_layout(layout.clone());
        let row = group * next_rows + arange(0..ROWS, Slice::new(1, layout.clone()));
        let column = group * next_columns + arange(0..half, Slice::new(0, layout)).expand_dims(0);
        let (batch, head) = (block.batch.cast::<i64>(), block.head.cast::<i64>());
        let [of_batch, of_head, of_token] = strides;
        let first = batch * of_batch + head * of_head;
        let token = (block.token + row).cast::<i64>();
        let at = (token * of_token + first).expand_dims(1) + column.cast::<i64>();
        let is_row = (block.first + row < block.queries).expand_dims(1);
        dq.at(at).mask(is_row).store(sum);
    }
}
