//! Merges the results of two sets of keys.

use tilekit::prelude::*;

use crate::attention::mainloop::softmax::LEAST;

/// Rows of a program.
pub(super) const ROWS: usize = 16;

/// `out` and `lse` of the keys of both `a` and `b`, whose rows count by the exponentials of their LSE. Rows of `columns` columns are those of token `row % tokens`, head `row / tokens %
/// heads` and batch `row / tokens / heads`, with strides of each tensor; `lse` has one after the other. Rows with an LSE of -inf are not read.
#[kernel(warps = 4)]
pub fn merge_results<A: Float, B: Float, O: Float>(
    #[fixed] columns: usize,
    a: Ptr<A>,
    #[align(4)] a_lse: Ptr<f32>,
    b: Ptr<B>,
    #[align(4)] b_lse: Ptr<f32>,
    out: Ptr<O>,
    #[align(4)] lse: Ptr<f32>,
    rows: i32,
    heads: i32,
    tokens: i32,
    #[multiple_of(8)] a_strides: [i64; 3],
    #[multiple_of(8)] b_strides: [i64; 3],
    #[multiple_of(8)] out_strides: [i64; 3],
    a_lse_strides: [i64; 3],
    b_lse_strides: [i64; 3],
) {
    assume((heads > 0) & (tokens > 0));
    launch_dependents();
    launch_wait();
    let room = columns.next_power_of_two();
    let lanes = (room / 8).min(32);
    let layout = Blocked::new([1, 8], [32 / lanes, lanes], [4, 1], [1, 0]);
    let row = program_id(0) * ROWS + arange(0..ROWS, Slice::new(1, layout.clone()));
    let is_row = row < rows;
    let (line, token) = (row / tokens, row % tokens);
    let (batch, head) = (line / heads, line % heads);
    let first = |[of_batch, of_head, of_token]: [Scalar<i64>; 3]| {
        let of_line = batch.cast::<i64>() * of_batch + head.cast::<i64>() * of_head;
        of_line + token.cast::<i64>() * of_token
    };
    let read = |lse: Ptr<f32>, strides: [Scalar<i64>; 3]| {
        let of_rows = lse.at(first(strides)).mask(is_row);
        of_rows.other(f32::NEG_INFINITY).load()
    };
    let of_a = read(a_lse, a_lse_strides);
    let of_b = read(b_lse, b_lse_strides);
    let largest = maximum(maximum(of_a, of_b), LEAST);
    let [of_a, of_b] = [of_a, of_b].map(|lse| ((lse - largest) * LOG2_E as f32).exp2());
    let total = of_a + of_b;
    // A total of NaN is that of a row with NaN, which stays one.
    let has_keys = total != 0.0;
    let sum = select(has_keys, largest + total.log(), f32::NEG_INFINITY);
    lse.at(row).mask(is_row).store(sum);

    let column = arange(0..room, Slice::new(0, layout)).expand_dims(0);
    let at = |strides: [Scalar<i64>; 3]| first(strides).expand_dims(1) + column.cast::<i64>();
    let is_there = |of_rows: Tensor<bool>| of_rows.expand_dims(1) & (column < columns as i32);
    let a = a.at(at(a_strides)).mask(is_there(is_row & (of_a != 0.0)));
    let b = b.at(at(b_strides)).mask(is_there(is_row & (of_b != 0.0)));
    let (a, b) = (
        a.other(0).load().cast::<f32>(),
        b.other(0).load().cast::<f32>(),
    );
    let factor = select(has_keys, 1.0 / total, 0.0);
    let merged = a * (of_a * factor).expand_dims(1) + b * (of_b * factor).expand_dims(1);
    let out = out.at(at(out_strides));
    out.mask(is_there(is_row)).store(merged.cast::<O>());
}
