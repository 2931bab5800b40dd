//! Merges the pieces of sequences that several parts of a grid have.

use tilekit::prelude::*;

use super::plan::Plan;
use super::shape::HALF;
use crate::attention::merge::splits::{Lines, merge};

/// Warps of a program: they divide its columns by 128 each, and the pieces.
const WARPS: usize = 4;

/// `out` and `lse` of the sequences that `plan`, of so many `parts`, cuts, from what [`decode_latent`](super::kernel::decode_latent) has written of their pieces: `sums`,
/// `[pieces, rows, 512]`, and `lse_of_pieces`. The other sequences' rows are there. `row_order` has the rows from one token to the next, and from one head to the next.
/// Programs of dimension 0 take the rows of those sequences in turn, those of dimension 1 `COLUMNS` columns each: 512, or 128 where rows have so many pieces that four warps divide them.
#[kernel(warps = WARPS, instances(<bf16, 512>, <bf16, 128>, <f16, 512>, <f16, 128>))]
pub fn merge_latent<T: Float, const COLUMNS: usize>(
    sums: Ptr<f32>,
    lse_of_pieces: Ptr<f32>,
    out: Ptr<T>,
    lse: Ptr<f32>,
    #[align(4)] plan: Ptr<i32>,
    heads: i32,
    queries: i32,
    parts: i32,
    row_order: [i32; 2],
    #[multiple_of(8)] out_strides: [i64; 3],
) {
    let [token_rows, head_rows] = row_order;
    assume((heads > 0) & (queries > 0) & (parts > 0) & (token_rows > 0) & (head_rows > 0));
    launch_dependents();
    let plan = Plan {
        numbers: plan,
        parts,
    };
    let (rows, first_column) = (heads * queries, program_id(1) * COLUMNS);
    // The plan is older than the launch in front, which has waited for it before this one could begin: what the first row has to merge is known when that ends.
    let all = plan.cuts() * rows;
    let mut cut = plan.cut(program_id(0) / rows);
    launch_wait();
    for number in range(program_id(0), all).step(num_programs(0)) {
        if number != program_id(0) {
            cut = plan.cut(number / rows);
        }
        let row = number % rows;
        let lines = Lines {
            sums: sums + first_column,
            lse: lse_of_pieces,
            first: cut.first * rows + row,
            stride: rows,
            count: cut.count,
            columns: 2 * HALF,
        };
        let (merged, sum) = merge(lines, COLUMNS, WARPS);
        let (head, token) = (row / head_rows % heads, row / token_rows % queries);
        let line = cut.sequence * rows + head * queries + token;
        lse.at(line).mask(program_id(1) == 0).store(sum);
        let [of_sequence, of_head, of_token] = out_strides;
        let first = cut.sequence.cast::<i64>() * of_sequence
            + head.cast::<i64>() * of_head
            + token.cast::<i64>() * of_token;
        let column = first_column + arange(0..COLUMNS, merged.layout());
        out.at(column.cast::<i64>() + first)
            .store(merged.cast::<T>());
    }
}
