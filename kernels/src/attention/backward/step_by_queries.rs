//! A step of the backward pass beyond depth 128: rows of scores are queries, and dK and dV are transposed.
//!
//! A warpgroup has the scores of half of the block's keys. P and dS pass through shared memory, from where they are operand B of dV and dK; a half of the columns of dQ takes dS of both warpgroups.

use tilekit::prelude::*;

use super::consumer::{At, Consumer, Sums};
use super::lines::Lines;
use super::part::{GROUPS, gradient_of_group, half_of_dq};
use super::stagger::Place;
use super::walk::Walk;
use crate::attention::mainloop::problem::ROWS;

/// Most columns of dQ that are in the registers of a warpgroup at a time, beside dK and dV.
const MOST_COLUMNS: usize = 96;

impl<T: Float + WgmmaOperand<T, f32>, W: Walk> Consumer<T, W> {
    /// A block of queries.
    #[device]
    pub(super) fn step_by_queries(self, at: At<W>, sums: Sums) -> Sums {
        let Consumer {
            block,
            tiles,
            group,
            ..
        } = self;
        let At { member, step, .. } = at;
        let mine = self.keys();
        let of_scores = Wgmma::new([4, 1], [64, mine.len(), 16]);
        let scores = || Accumulator::<f32>::zeros([ROWS, mine.len()], of_scores.clone());
        let [k_rows, v_rows] = [tiles.k, tiles.v].map(|tile| tile.index(0).slice(0, mine.clone()));
        let q_stage = tiles.of_q.consumer_wait(tiles.of_q.of_fill(step.fill));
        let (q_tile, sum_line) = q_stage.tiles;
        let s = scores().mma(q_tile, k_rows.transpose());
        let dout_stage = tiles
            .of_dout
            .consumer_wait(tiles.of_dout.of_fill(step.fill));
        let (dout_tile, delta_line) = dout_stage.tiles;
        let dp = scores().mma(dout_tile, v_rows.transpose());

        let query = step.block * ROWS + arange(0..ROWS, Slice::new(1, of_scores.clone()));
        let key = block.at.first
            + mine.start
            + arange(0..mine.len(), Slice::new(0, of_scores.clone())).expand_dims(0);
        let place = block
            .walk
            .keys()
            .place(block.at, member.head, query.expand_dims(1), key);
        let load = |line: Lines| {
            let numbers = line.load(Slice::new(1, of_scores.clone()));
            numbers.map(|numbers| numbers.expand_dims(1))
        };
        let sum = load(sum_line);
        let (p, slopes) = self.weights(at, place, s.wait_older_than(1), || sum);
        let signed = self.signed(p, [ROWS, mine.len()], at);
        let p_tiles = tiles.p.expect("P passes through shared memory");
        let [p_tile, ds_tile] = match tiles.exchange {
            Some(_) => [p_tiles.index(0), tiles.ds.index(cluster_rank())],
            None => [p_tiles, tiles.ds].map(|tiles| tiles.index(step.fill % tiles.stages() as i32)),
        };
        if let Some(exchange) = tiles.exchange {
            exchange.await_read(step.fill);
        }
        p_tile
            .slice(0, mine.clone())
            .store(self.kept(signed).cast::<T>().transpose());
        let dp = dp.wait_all();
        let ds = self.gradient_of_scores(signed, dp, load(delta_line), slopes);
        if let Some(exchange) = tiles.exchange {
            exchange.await_free(step.fill);
        }
        ds_tile.slice(0, mine).store(ds.cast::<T>().transpose());
        fence_async_shared();
        tiles.both.sync();
        if let Some(exchange) = tiles.exchange
            && group == 0
        {
            exchange.send(tiles.ds);
        }
        self.sleep_at(Place::BehindExchange);
        let (stages, of_scores) = ([q_stage, dout_stage], [p_tile, ds_tile]);
        match tiles.exchange {
            Some(exchange) => self.products_of_pair(exchange, at, sums, stages, of_scores),
            None => self.products(at, sums, stages, of_scores),
        }
    }

    /// The products of a step with P and dS: their sums, and terms of dQ.
    #[device]
    fn products(
        self,
        At { step, .. }: At<W>,
        sums: Sums,
        [q, dout]: [Full<(Smem<T>, Lines)>; 2],
        [p, ds]: [Smem<T>; 2],
    ) -> Sums {
        let (tiles, group) = (self.tiles, self.group);
        let sum_dv = self.multiplied(sums.dv, dout.tiles.0, p, self.depths[1]);

        let [_, columns] = half_of_dq(group, self.depths[0], ROWS);
        let half = columns.len();
        let pieces = if tiles.dq.is_some() {
            1
        } else {
            half.div_ceil(MOST_COLUMNS)
        };
        let piece = half / pieces;
        let dq = |number: usize| {
            let first = columns.start + number * piece;
            let sums =
                Accumulator::<f32>::zeros([ROWS, piece], Wgmma::new([4, 1], [64, piece, 16]));
            let k_columns = tiles.k.index(0).slice(1, first..first + piece);
            sums.mma(ds.transpose(), k_columns)
        };
        let half_block = step.row_block * GROUPS + group;
        let first_piece = dq(0);
        // Terms of dQ are added while the product of dK is in flight.
        let sum_dk = self.multiplied(sums.dk, q.tiles.0, ds, self.depths[0]);
        let sum_dv = Accumulator::from_tensor(sum_dv.wait_older_than(2));
        tiles.of_dout.consumer_release(dout);
        let turn = tiles.turns.map(|turns| turns[group]);
        if let Some(turn) = turn {
            turn.wait(step.fill);
        }
        self.add(half_block, step, 0, first_piece.wait_older_than(1), half);
        let sum_dk = Accumulator::from_tensor(sum_dk.wait_all());
        tiles.of_q.consumer_release(q);
        for number in 1..pieces {
            self.add(half_block, step, number, dq(number).wait_all(), half);
        }
        if let Some(turn) = turn {
            turn.end();
        }
        Sums {
            dk: sum_dk,
            dv: sum_dv,
        }
    }

    /// dV, to which P and dO are multiplied, or dK, to which dS and Q are, of `columns`: the part of this warpgroup.
    #[device]
    pub(super) fn multiplied(
        self,
        sums: Accumulator<f32>,
        of_queries: Smem<T>,
        of_scores: Smem<T>,
        columns: usize,
    ) -> Accumulator<f32> {
        let block_keys = self.block.walk.keys().block[1];
        let [keys, columns] = gradient_of_group(self.group, columns, self.depths[0], block_keys);
        sums.mma(
            of_queries.slice(1, columns).transpose(),
            of_scores.slice(0, keys).transpose(),
        )
    }
}
