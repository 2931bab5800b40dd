//! The rows of a CTA of `decode_latent`: heads and tokens of a sequence, and where their results go.

use tilekit::prelude::*;

use super::plan::Piece;
use super::shape::HALF;
use crate::attention::mainloop::problem::ROWS;

/// The rows of a tile, and the destination of their results.
#[derive(Clone, Copy)]
pub(super) struct LatentRows<T> {
    pub(super) tile: Scalar<i32>,
    pub(super) heads: Scalar<i32>,
    pub(super) queries: Scalar<i32>,
    /// Rows from one token to the next, and from one head to the next.
    pub(super) token_rows: Scalar<i32>,
    pub(super) head_rows: Scalar<i32>,
    pub(super) out: Ptr<T>,
    /// Elements from one batch, head and token of the output to the next.
    pub(super) strides: [Scalar<i64>; 3],
    pub(super) lse: Ptr<f32>,
    /// Outputs of each piece.
    pub(super) sums: Ptr<f32>,
    /// LSE of each piece.
    pub(super) lse_of_pieces: Ptr<f32>,
}

impl<T: Float> LatentRows<T> {
    /// The rows among those of the sequence.
    #[device]
    pub(super) fn row(self, layout: impl Into<Layout>) -> Tensor<i32> {
        self.tile * ROWS + arange(0..ROWS, layout)
    }

    /// The head and the token of each row.
    #[device]
    pub(super) fn place(self, row: Tensor<i32>) -> [Tensor<i32>; 2] {
        let head = row / self.head_rows % self.heads;
        let token = row / self.token_rows % self.queries;
        [head, token]
    }

    /// Stores a warpgroup's half of the columns, and one of them LSE. `place` is free for it.
    #[device]
    pub(super) fn store(
        self,
        piece: Piece,
        group: usize,
        (sums, log_sum_exp): (Tensor<f32>, Tensor<f32>),
        place: Smem<T>,
    ) {
        let rows = self.heads * self.queries;
        let of_lse = self.row(log_sum_exp.layout());
        let is_line = of_lse < rows;
        if piece.is_whole {
            self.store_whole(piece, group, sums, place);
            if group == 0 {
                let [head, token] = self.place(of_lse);
                let line = head * self.queries + token + piece.sequence * rows;
                self.lse.at(line).mask(is_line).store(log_sum_exp);
            }
        } else {
            let first = (piece.number * rows).cast::<i64>();
            let row = self.row(Slice::new(1, sums.layout()));
            let columns = Slice::new(0, sums.layout());
            let column = group * HALF + arange(0..HALF, columns).expand_dims(0);
            let parts = self.sums + first * (2 * HALF) as i64;
            let at = (row * (2 * HALF)).expand_dims(1) + column;
            let is_row = (row < rows).expand_dims(1);
            parts.at(at).mask(is_row).store(sums);
            if group == 0 {
                let lse = (self.lse_of_pieces + first).at(of_lse);
                lse.mask(is_line).store(log_sum_exp);
            }
        }
    }

    /// Stores to the output by lines of 128 bytes, staged in `place`: from the layout of an accumulator a warp would write 16 bytes of each of eight rows at a time.
    #[device]
    fn store_whole(self, piece: Piece, group: usize, sums: Tensor<f32>, place: Smem<T>) {
        place.store(sums.cast::<T>());
        let lines = Blocked::new([1, 8], [4, 8], [4, 1], [1, 0]);
        let results = place.load(lines.clone());
        let of_rows = Slice::new(1, lines.clone());
        // A thread finds the place of one row.
        let [of_batch, of_head, of_token] = self.strides;
        let [head, token] = self.place(self.row(Blocked::new([1], [32], [4], [0])));
        let at = head.cast::<i64>() * of_head + token.cast::<i64>() * of_token;
        let at = at.convert_layout(of_rows.clone()).multiple_of([8]);
        let at = at + piece.sequence.cast::<i64>() * of_batch;
        let column = group * HALF + arange(0..HALF, Slice::new(0, lines));
        let to = self
            .out
            .at(at.expand_dims(1) + column.expand_dims(0).cast::<i64>());
        let is_row = self.row(of_rows) < self.heads * self.queries;
        to.mask(is_row.expand_dims(1)).store(results);
    }
}
