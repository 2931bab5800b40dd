//! The products of a step at depth 256, where two CTAs exchange dS.

use tilekit::prelude::*;

use super::consumer::{At, Consumer, Sums};
use super::exchange::{Exchange, PAIR};
use super::lines::Lines;
use super::part::GROUPS;
use super::walk::Walk;
use crate::attention::mainloop::problem::ROWS;

impl<T: Float + WgmmaOperand<T, f32>, W: Walk> Consumer<T, W> {
    /// The products of a step with P and dS, of which the other CTA has received its own; their sums, and terms of dQ for the keys of both CTAs.
    #[device]
    pub(super) fn products_of_pair(
        self,
        exchange: Exchange<T>,
        At { step, .. }: At<W>,
        sums: Sums,
        [q, dout]: [Full<(Smem<T>, Lines)>; 2],
        [p, ds]: [Smem<T>; 2],
    ) -> Sums {
        let (tiles, group) = (self.tiles, self.group);
        let sum_dv = self.multiplied(sums.dv, dout.tiles.0, p, self.depths[1]);
        let sum_dk = self.multiplied(sums.dk, q.tiles.0, ds, self.depths[0]);
        let [own, of_other] = exchange.columns_of(tiles.k, group);
        let columns = own.shape()[1] as usize;
        let of_dq = Wgmma::new([4, 1], [64, columns, 16]);
        let dq = Accumulator::<f32>::zeros([ROWS, columns], of_dq).mma(ds.transpose(), own);
        let received = exchange.receive(tiles.ds, step.fill);
        let dq = dq.mma(received.transpose(), of_other);
        let sum_dv = Accumulator::from_tensor(sum_dv.wait_older_than(3));
        tiles.of_dout.consumer_release(dout);
        let sum_dk = Accumulator::from_tensor(sum_dk.wait_older_than(2));
        tiles.of_q.consumer_release(q);
        let dq = dq.wait_all();
        exchange.release();
        let half_block = step.row_block * PAIR + cluster_rank();
        let turn = tiles.turns.map(|turns| turns[group]);
        if let Some(turn) = turn {
            turn.wait(step.fill);
        }
        self.add(half_block, step, group, dq, GROUPS * columns);
        if let Some(turn) = turn {
            turn.end();
        }
        Sums {
            dk: sum_dk,
            dv: sum_dv,
        }
    }
}
