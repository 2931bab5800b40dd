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

    /// Stores a warpgroup's half of the columns, and one of them LSE.
    #[device]
    pub(super) fn store(
        self,
        piece: Piece,
        group: usize,
        sums: Tensor<f32>,
        log_sum_exp: Tensor<f32>,
    ) {
        let rows = self.heads * self.queries;
        let row = self.row(Slice::new(1, sums.layout()));
        let is_row = (row < rows).expand_dims(1);
        let columns = Slice::new(0, sums.layout());
        let column = group * HALF + arange(0..HALF, columns).expand_dims(0);
        let of_lse = self.row(log_sum_exp.layout());
        let is_line = of_lse < rows;
        if piece.is_whole {
            let [of_batch, of_head, of_token] = self.strides;
            let [head, token] = self.place(row);
            let first = piece.sequence.cast::<i64>() * of_batch;
            let at = head.cast::<i64>() * of_head + token.cast::<i64>() * of_token + first;
            let to = self.out.at(at.expand_dims(1) + column.cast::<i64>());
            to.mask(is_row).store(sums.cast::<T>());
            if group == 0 {
                let [head, token] = self.place(of_lse);
                let line = head * self.queries + token + piece.sequence * rows;
                self.lse.at(line).mask(is_line).store(log_sum_exp);
            }
        } else {
            let first = (piece.number * rows).cast::<i64>();
            let parts = self.sums + first * (2 * HALF) as i64;
            let at = (row * (2 * HALF)).expand_dims(1) + column;
            parts.at(at).mask(is_row).store(sums);
            if group == 0 {
                let lse = (self.lse_of_pieces + first).at(of_lse);
                lse.mask(is_line).store(log_sum_exp);
            }
        }
    }
}
