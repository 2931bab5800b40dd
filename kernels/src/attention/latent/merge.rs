//! Merges the pieces of sequences that several parts of a grid have.

use tilekit::prelude::*;

use super::deal::Deal;
use super::shape::PAGE;
use crate::attention::merge::splits::{Lines, merge};

/// `out` and `lse` of the sequences whose keys [`decode_latent`](super::kernel::decode_latent) has split, from `sums`, `[pieces, heads, queries,
/// DV]`, and `lse_of_pieces`; which pieces a sequence has follows from `lengths`, and from the `parts` of the grid. The other sequences' rows
/// are there. Programs take the rows `[batch, heads, queries]` in turn, and those of dimension 1 `COLUMNS` columns each.
#[kernel(warps = 1, instances(<bf16, 512, 128>, <f16, 512, 128>))]
pub fn merge_latent<T: Float, const DV: usize, const COLUMNS: usize>(
    sums: Ptr<f32>,
    lse_of_pieces: Ptr<f32>,
    out: Ptr<T>,
    lse: Ptr<f32>,
    #[align(4)] lengths: Ptr<i32>,
    batch: i32,
    heads: i32,
    queries: i32,
    parts: i32,
    table_row: i32,
    #[multiple_of(8)] out_strides: [i64; 3],
) {
    assume((batch > 0) & (heads > 0) & (queries > 0) & (parts > 0));
    launch_dependents();
    let deal = Deal {
        lengths,
        batch,
        parts,
        room: table_row * PAGE,
        warps: 1,
    };
    let share = deal.share();
    let all = batch * heads * queries;
    // There is nothing to do where no sequence is cut.
    let rows = select(share.is_whole, 0, all);
    let (of_sequence, first_column) = (heads * queries, program_id(1) * COLUMNS);
    // Lengths are older than the launch in front, which has waited for them before this one could begin: what the first row has to merge is known when that ends.
    let mut pieces = deal.pieces(program_id(0) / of_sequence, share.steps);
    launch_wait();
    for row in range(program_id(0), rows).step(num_programs(0)) {
        let (sequence, line) = (row / of_sequence, row % of_sequence);
        if row != program_id(0) {
            pieces = deal.pieces(sequence, share.steps);
        }
        if pieces.count > 1 {
            let lines = Lines {
                sums: sums + first_column,
                lse: lse_of_pieces,
                first: pieces.first * of_sequence + line,
                stride: of_sequence,
                count: pieces.count,
                columns: DV,
            };
            let (merged, sum) = merge(lines, COLUMNS);
            lse.at(row).mask(program_id(1) == 0).store(sum);
            let [of_sequence, of_head, of_token] = out_strides;
            let first = sequence.cast::<i64>() * of_sequence
                + (line / queries).cast::<i64>() * of_head
                + (line % queries).cast::<i64>() * of_token;
            let column = first_column + arange(0..COLUMNS, merged.layout());
            out.at(column.cast::<i64>() + first)
                .store(merged.cast::<T>());
        }
    }
}
