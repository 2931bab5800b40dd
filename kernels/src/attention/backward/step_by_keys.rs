//! A step of the backward pass up to depth 128: rows of scores are keys, so that P and dS become operands in the registers of their warpgroup.

use tilekit::prelude::*;

use super::block::STAGES;
use super::consumer::{At, Consumer, Sums};
use super::lines::Lines;
use super::part::{GROUPS, half_of_dq, has_wide_steps};
use super::stagger::Place;
use super::walk::Walk;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::modifier::Modifier;

impl<T: Float + WgmmaOperand<T, f32>, W: Walk> Consumer<T, W> {
    /// A block of queries.
    #[device]
    pub(super) fn step_by_keys(self, at: At<W>, sums: Sums) -> Sums {
        let Consumer {
            block,
            tiles,
            group,
            ..
        } = self;
        let Sums {
            dk: sum_dk,
            dv: sum_dv,
        } = sums;
        let At { member, step, .. } = at;
        let (queries, mine) = (block.queries(), self.keys());
        let of_scores = Wgmma::new([4, 1], [64, queries, 16]);
        let [k_rows, v_rows] = [tiles.k, tiles.v].map(|tile| tile.index(0).slice(0, mine.clone()));
        let key = block.at.first
            + mine.start
            + arange(0..ROWS, Slice::new(1, of_scores.clone())).expand_dims(1);
        let column = arange(0..queries, Slice::new(0, of_scores.clone()));

        let query = step.block * queries + column;
        let q_stage = tiles.of_q.consumer_wait(tiles.of_q.of_fill(step.fill));
        let (q_tile, sum_line) = q_stage.tiles;
        let subtracted = |line: usize, scores: Accumulator<f32>| {
            sum_line.subtracted(line, scores, queries, of_scores.clone())
        };
        let scores = || Accumulator::<f32>::zeros([ROWS, queries], of_scores.clone());
        // LSE last and delta first was the fastest of four orders.
        let s = subtracted(0, scores().mma(k_rows, q_tile.transpose()));
        let dout_stage = tiles
            .of_dout
            .consumer_wait(tiles.of_dout.of_fill(step.fill));
        let (dout_tile, delta_line) = dout_stage.tiles;
        let dp = subtracted(1, scores()).mma(v_rows, dout_tile.transpose());
        let load = |line: Lines| {
            let numbers = line.load(Slice::new(0, of_scores.clone()));
            numbers.map(|numbers| numbers.expand_dims(0))
        };
        // Scores of many queries leave no registers for their sums, which are loaded when the scores are there.
        let early_sum = (!has_wide_steps(queries)).then(|| load(sum_line));
        let place = block
            .walk
            .keys()
            .place(block.at, member.head, query.expand_dims(0), key);
        let sum = || early_sum.unwrap_or_else(|| load(sum_line));
        let (p, slopes) = self.weights(at, place, s.wait_older_than(1), sum);
        let dp = dp.wait_all();
        let signed = self.signed(p, [ROWS, queries], at);
        let operand = |x: Tensor<f32>, columns: usize| {
            let of_rows = Wgmma::new([4, 1], [64, columns, 16]);
            x.cast::<T>()
                .convert_layout_trivial(DotOperand::new(0, of_rows, 2))
        };
        // Counted as the stages of Q, and of terms: a register less. Where a step takes other registers besides, ptxas spills more with it.
        let is_plain = W::HAS_TWO_EDGES && !W::Modifier::DROPS;
        let stage = if block.is_ordered || is_plain {
            tiles.of_q.of_fill(step.fill).index()
        } else {
            step.fill % STAGES
        };
        let ds = self.gradient_of_scores(signed, dp, load(delta_line), slopes);
        let ds_tile = tiles.ds.index(stage);
        let ds = operand(ds, self.depths[0]);
        // dS is stored before the product of dV begins, and the fence behind that waits for the stores: the other warpgroup's dQ waits for them.
        ds_tile.slice(0, mine).store(ds);
        // P becomes an operand when dS has been computed, so that its registers are not needed twice.
        let sum_dv = sum_dv.mma(operand(self.kept(signed), self.depths[1]), dout_tile);
        fence_async_shared();
        tiles.both.sync();
        self.sleep_at(Place::BehindExchange);
        // dQ comes first: it is added while the product of dK is in flight.
        let [dq_rows, dq_columns] = half_of_dq(group, self.depths[0], queries);
        let half = dq_columns.len();
        let of_half = Wgmma::new([4, 1], [64, half, 16]);
        let dq = Accumulator::<f32>::zeros([ROWS, half], of_half);
        let dq = dq.mma(
            ds_tile.slice(1, dq_rows).transpose(),
            tiles.k.index(0).slice(1, dq_columns),
        );
        let sum_dk = sum_dk.mma(ds, q_tile);
        let sum_dv = Accumulator::from_tensor(sum_dv.wait_older_than(2));
        tiles.of_dout.consumer_release(dout_stage);
        let half_block = step.row_block * GROUPS + group;
        self.add(half_block, step, 0, dq.wait_older_than(1), half);
        let sum_dk = Accumulator::from_tensor(sum_dk.wait_all());
        tiles.of_q.consumer_release(q_stage);
        Sums {
            dk: sum_dk,
            dv: sum_dv,
        }
    }
}
