//! The consumer warpgroups of the backward pass: products of a block of queries with the CTA's block of keys.

use tilekit::prelude::*;

use super::block::{Block, Member, STAGES, Tiles};
use super::part::{GROUPS, Part, divides_columns, half_of_dq, in_order_of_threads};
use super::terms::acquire;
use super::walk::Walk;
use crate::attention::dropout::{Corner, Drops};
use crate::attention::mainloop::problem::ROWS;
use crate::attention::modifier::{Differentiable, Modifier};

/// A consumer warpgroup.
#[derive(Clone, Copy)]
pub(super) struct Consumer<T, W: Walk> {
    pub(super) block: Block<W>,
    pub(super) tiles: Tiles<T>,
    pub(super) group: usize,
    /// The accumulator of dQ.
    pub(super) sums: Ptr<f32>,
    /// Elements of a row of Q and K, and of V.
    pub(super) depths: [usize; 2],
    pub(super) log2_scale: Scalar<f32>,
    pub(super) drops: Drops,
}

/// The values that the loop over blocks of queries carries.
#[derive(Aggregate)]
pub(super) struct Sums {
    pub(super) dk: Accumulator<f32>,
    pub(super) dv: Accumulator<f32>,
    /// If ordered: the half of a block to which the preceding step added, whose counter is not increased yet.
    added: Scalar<i32>,
}

impl<T: Float + WgmmaOperand<T, f32>, W: Walk> Consumer<T, W> {
    fn part(self) -> Part {
        Part::of(self.group, self.depths, self.block.queries())
    }

    /// Whether the consumers order the terms of dQ themselves.
    fn orders(self) -> bool {
        self.block.is_ordered && self.tiles.dq.is_none()
    }

    /// The layout of scores, `[keys, queries]`.
    fn of_scores(self) -> Wgmma {
        let Part { queries, .. } = self.part();
        Wgmma::new([4, 1], [64, queries.len(), 16])
    }

    /// dK and dV: not scaled, and their products are in flight.
    #[device]
    pub(super) fn gradients(self) -> Sums {
        let Consumer {
            block,
            tiles,
            group,
            ..
        } = self;
        let Part { of_dk, of_dv, .. } = self.part();
        // Parts of a divided block have all of its keys.
        let edges = block.edges(if divides_columns(self.depths[0]) {
            0
        } else {
            group
        });
        // Three copies of a step that reads positions spill: what they share takes registers in all. With dropout they are faster nevertheless.
        let masks_all = W::Modifier::READS_PLACE && !W::Modifier::DROPS;
        tiles.keys_full.wait(0);
        let zeros = |columns: usize| {
            Accumulator::<f32>::zeros([ROWS, columns], Wgmma::new([4, 1], [64, columns, 16]))
        };
        let mut sums = Sums {
            dk: zeros(of_dk.len()),
            dv: zeros(of_dv.len()),
            added: scalar(0),
        };
        for member in range(0, block.members()) {
            let member = block.member(member);
            let [first, end] = block.steps(member);
            if masks_all {
                for number in range(first, end) {
                    sums = self.step(member, number, true, sums);
                }
            } else {
                let [from, to] = block.unmasked(member, edges);
                if W::HAS_TWO_EDGES || !block.is_ordered {
                    for number in range(first, from) {
                        sums = self.step(member, number, true, sums);
                    }
                }
                for number in range(from, to) {
                    sums = self.step(member, number, false, sums);
                }
                if W::HAS_TWO_EDGES || block.is_ordered {
                    for number in range(to, end) {
                        sums = self.step(member, number, true, sums);
                    }
                }
            }
        }
        if self.orders() {
            if block.has_steps() {
                block.pass_turn(sums.added);
            }
        }
        sums
    }

    /// A block of queries.
    #[device]
    fn step(self, member: Member<W>, number: Scalar<i32>, is_masked: bool, sums: Sums) -> Sums {
        let Consumer {
            block,
            tiles,
            group,
            ..
        } = self;
        let Sums {
            dk: sum_dk,
            dv: sum_dv,
            added,
        } = sums;
        let divides_columns = divides_columns(self.depths[0]);
        let part = self.part();
        let of_scores = self.of_scores();
        let mine = part.keys.clone();
        let [k_rows, v_rows] = [tiles.k, tiles.v].map(|tile| tile.index(0).slice(0, mine.clone()));
        let key = block.at.first
            + part.keys.start
            + arange(0..ROWS, Slice::new(1, of_scores.clone())).expand_dims(1);
        let column = arange(part.queries.clone(), Slice::new(0, of_scores.clone()));
        let step = block.step(member, number);

        let scores = || Accumulator::<f32>::zeros([ROWS, part.queries.len()], of_scores.clone());
        let first_query = step.block * block.queries();
        let query = first_query + column;
        let q_stage = tiles.of_q.consumer_wait(tiles.of_q.of_fill(step.fill));
        let (q_tile, sum_line) = q_stage.tiles;
        let s = scores().mma(k_rows, q_tile.slice(0, part.queries.clone()).transpose());
        let dout_stage = tiles
            .of_dout
            .consumer_wait(tiles.of_dout.of_fill(step.fill));
        let (dout_tile, delta_line) = dout_stage.tiles;
        let dp = scores().mma(v_rows, dout_tile.slice(0, part.queries.clone()).transpose());
        if self.orders() {
            if step.fill > 0 {
                block.pass_turn(added);
            }
        }
        let load = |line: Smem<f32>| {
            let line = line.slice(0, part.queries.clone());
            line.load(Slice::new(0, of_scores.clone()))
        };
        // Scores of many queries leave no registers for their sums, which are loaded when the scores are there.
        let is_wide = part.queries.len() > ROWS;
        let early_sum = (!is_wide).then(|| load(sum_line));
        let place = block
            .walk
            .keys()
            .place(block.at, member.head, query.expand_dims(0), key);
        let s = W::Modifier::scores(s.wait_older_than(1), place);
        let sum = early_sum.unwrap_or_else(|| load(sum_line));
        let slopes = W::Modifier::slopes(s);
        let s = if is_masked {
            select(block.sees(member, step, place), s, f32::NEG_INFINITY)
        } else {
            s
        };
        let p = fma(s, self.log2_scale, -sum.expand_dims(0)).exp2();
        let dp = dp.wait_all();
        let (p, kept_p, dp) = if W::Modifier::DROPS {
            let at = Corner {
                sequence: block.at.sequence,
                head: member.head,
                query: first_query + part.queries.start,
                key: block.at.first + part.keys.start,
                rows_are_keys: true,
            };
            let kept = self.drops.kept(p, [ROWS, part.queries.len()], at);
            let factor = self.drops.factor();
            // Weights are not negative: their signs say which are kept, and take no registers. A weight of 0 has no part in any gradient.
            let p = select(kept, p, -p);
            let dp = select(p > 0.0, dp * factor, 0.0);
            (p.abs(), maximum(p * factor, 0.0), dp)
        } else {
            (p, p, dp)
        };
        let operand = |x: Tensor<f32>, columns: usize| {
            let of_rows = Wgmma::new([4, 1], [64, columns, 16]);
            x.cast::<T>()
                .convert_layout_trivial(DotOperand::new(0, of_rows, 2))
        };
        // Counted as the stages of Q, and of terms: a register less. Where a step takes other registers besides, ptxas spills more with it.
        let is_plain = W::HAS_TWO_EDGES && !W::Modifier::DROPS;
        let stage = if !divides_columns && (block.is_ordered || is_plain) {
            tiles.of_q.of_fill(step.fill).index()
        } else {
            step.fill % STAGES
        };
        let p_tile = tiles.p.map(|tiles| tiles.index(stage));
        if let Some(tile) = p_tile {
            tile.slice(1, part.queries.clone())
                .store(kept_p.cast::<T>());
        }
        let delta = load(delta_line);
        let p = slopes.map_or(p, |slopes| p * slopes);
        let ds = p * (dp - delta.expand_dims(0));
        let ds_tile = tiles.ds.index(stage);
        let in_registers = (!divides_columns).then(|| operand(ds, self.depths[0]));
        // P becomes an operand when dS has been computed, so that its registers are not needed twice.
        let sum_dv = match p_tile {
            Some(_) => sum_dv,
            None => sum_dv.mma(operand(kept_p, self.depths[1]), dout_tile),
        };
        match in_registers {
            Some(ds) => ds_tile.slice(0, mine).store(ds),
            None => ds_tile.slice(1, part.queries.clone()).store(ds.cast::<T>()),
        }
        fence_async_shared();
        tiles.both.sync();
        let sum_dv = match p_tile {
            Some(tile) => sum_dv.mma(tile, dout_tile.slice(1, part.of_dv.clone())),
            None => sum_dv,
        };
        // dQ comes first: it is added while the product of dK is in flight.
        let [dq_rows, dq_columns] = half_of_dq(group, self.depths[0], block.queries());
        let half = dq_columns.len();
        let of_half = Wgmma::new([4, 1], [64, half, 16]);
        let dq = Accumulator::<f32>::zeros([ROWS, half], of_half);
        let dq = dq.mma(
            ds_tile.slice(1, dq_rows).transpose(),
            tiles.k.index(0).slice(1, dq_columns),
        );
        let sum_dk = match in_registers {
            Some(ds) => sum_dk.mma(ds, q_tile),
            None => sum_dk.mma(ds_tile, q_tile.slice(1, part.of_dk.clone())),
        };
        let sum_dv = Accumulator::from_tensor(sum_dv.wait_older_than(2));
        tiles.of_dout.consumer_release(dout_stage);
        let half_block = step.row_block * GROUPS + group;
        if self.orders() {
            block.await_turn(member, step, half_block);
        }
        let dq = in_order_of_threads(dq.wait_older_than(1), half);
        if let Some(terms) = tiles.dq.map(|terms| terms[group]) {
            let stage = acquire(terms, step.fill);
            stage.tiles.store(dq);
            terms.commit(stage);
        } else {
            let to = self.sums + half_block.cast::<i64>() * (ROWS * half) as i64;
            let to = to.at(arange(0..ROWS * half, dq.layout()));
            to.relaxed().atomic_add(dq);
        }
        let sum_dk = Accumulator::from_tensor(sum_dk.wait_all());
        tiles.of_q.consumer_release(q_stage);
        Sums {
            dk: sum_dk,
            dv: sum_dv,
            added: if self.orders() { half_block } else { added },
        }
    }
}
