//! The consumer warpgroups of the backward pass, which multiply all blocks of queries with the CTA's block of keys: their loop, and what steps of all depths share.

use std::ops::Range;

use tilekit::prelude::*;

use super::block::{Block, Tiles};
use super::part::{
    has_query_rows, has_wide_steps, in_order_of_threads, keys_of_group, part_of_gradient,
};
use super::stagger;
use super::step::{Member, Neighbour, Step};
use super::terms::acquire;
use super::walk::Walk;
use crate::attention::dropout::{Corner, Drops};
use crate::attention::mainloop::problem::ROWS;
use crate::attention::mainloop::softmax::exp2_by_quarters;
use crate::attention::modifier::{Differentiable, Modifier, Place};

/// Columns of scores whose random words of dropout are computed at a time.
const COLUMNS_OF_WORDS: usize = 32;

/// The degree of the polynomial by which P is computed on the FMA pipes: its relative error is 2^-13.7, where bf16 rounds by 2^-9, and f16 by 2^-12.
const DEGREE: usize = 3;

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

/// A step of a query head.
#[derive(Clone, Copy)]
pub(super) struct At<W: Walk> {
    pub(super) member: Member<W>,
    pub(super) step: Step,
    /// Whether its scores are masked.
    pub(super) is_masked: bool,
}

/// The values that the loop over blocks of queries carries.
#[derive(Aggregate)]
pub(super) struct Sums {
    pub(super) dk: Accumulator<f32>,
    pub(super) dv: Accumulator<f32>,
}

impl<T: Float + WgmmaOperand<T, f32>, W: Walk> Consumer<T, W> {
    /// The keys of this warpgroup in the block.
    pub(super) fn keys(self) -> Range<usize> {
        keys_of_group(self.group, self.block.walk.keys().block[1])
    }

    /// dK and dV: not scaled, and their products are in flight.
    #[device]
    pub(super) fn gradients(self) -> Sums {
        let Consumer { block, tiles, .. } = self;
        let edges = block.edges(self.group);
        tiles.keys_full.wait(0);
        let [depth, values] = self.depths;
        let mut sums = Sums {
            dk: self.zeros_of(depth),
            dv: self.zeros_of(values),
        };
        if block.interleaves() {
            sums = self.steps_of(None, edges, sums);
        } else {
            for member in range(0, block.members()) {
                sums = self.steps_of(Some(block.member(member)), edges, sums);
            }
        }
        if let Some(exchange) = tiles.exchange {
            // The other CTA arrives in this one's shared memory.
            let [first, end] = block.steps(block.member(scalar(0)));
            exchange.await_free((end - first) * block.members());
        }
        sums
    }

    /// All steps of a query head, or of all of them.
    fn steps_of(self, only: Option<Member<W>>, edges: W::Edges, sums: Sums) -> Sums {
        let block = self.block;
        let member = only.unwrap_or_else(|| block.member(scalar(0)));
        let [first, end] = block.steps(member);
        // Several copies of a step that reads positions, or that waits for its turn by lists, spill: what they share takes registers in all. With dropout they are faster nevertheless.
        let waits_by_lists = self.tiles.turns.is_some() && !W::HAS_TWO_EDGES;
        let masks_all = (W::Modifier::READS_PLACE || waits_by_lists) && !W::Modifier::DROPS;
        let parts = if masks_all {
            vec![([first, end], true)]
        } else {
            let [from, to] = block.unmasked(member, edges);
            let (in_front, behind) = (([first, from], true), ([to, end], true));
            let has_front = W::HAS_TWO_EDGES || !block.is_ordered;
            let has_back = W::HAS_TWO_EDGES || block.is_ordered;
            let parts = [
                has_front.then_some(in_front),
                Some(([from, to], false)),
                has_back.then_some(behind),
            ];
            parts.into_iter().flatten().collect()
        };
        parts
            .into_iter()
            .fold(sums, |sums, (numbers, is_masked)| match only {
                Some(member) => self.of_head(member, numbers, is_masked, sums),
                None => self.of_all_heads(first, numbers, is_masked, sums),
            })
    }

    /// Steps of a query head, from one number up to another.
    #[device]
    fn of_head(
        self,
        member: Member<W>,
        [from, to]: [Scalar<i32>; 2],
        is_masked: bool,
        sums: Sums,
    ) -> Sums {
        let mut sums = sums;
        for number in range(from, to) {
            let step = self.block.step(member, number);
            sums = self.step(member, step, is_masked, sums);
        }
        sums
    }

    /// Steps of all query heads, from one number up to another, of which `first` is the first one.
    #[device]
    fn of_all_heads(
        self,
        first: Scalar<i32>,
        [from, to]: [Scalar<i32>; 2],
        is_masked: bool,
        sums: Sums,
    ) -> Sums {
        let block = self.block;
        let members = block.members();
        let mut sums = sums;
        let mut at = Neighbour {
            member: scalar(0),
            number: from,
        };
        for fill in range((from - first) * members, (to - first) * members) {
            let member = block.member(at.member);
            let step = block.step_of_fill(member, at.number, fill);
            sums = self.step(member, step, is_masked, sums);
            at = at.later(1, members);
        }
        sums
    }

    /// The accumulator of dK or dV, of so many columns: transposed where rows of scores are queries.
    #[device]
    fn zeros_of(self, columns: usize) -> Accumulator<f32> {
        let depth = self.depths[0];
        let [keys, columns] = part_of_gradient(columns, depth, self.block.walk.keys().block[1]);
        let [rows, columns] = if has_query_rows(depth) {
            [columns, keys]
        } else {
            [keys, columns]
        };
        Accumulator::zeros([rows, columns], Wgmma::new([4, 1], [64, columns, 16]))
    }

    #[device]
    fn step(self, member: Member<W>, step: Step, is_masked: bool, sums: Sums) -> Sums {
        let at = At {
            member,
            step,
            is_masked,
        };
        if has_query_rows(self.depths[0]) {
            self.step_by_queries(at, sums)
        } else {
            self.step_by_keys(at, sums)
        }
    }

    /// P, from scores, and from LSE of their queries if scores have not subtracted it; and the derivatives of the scores, where they are not 1.
    ///
    /// In a wide step the special function units take 1024 of some 4000 cycles, in which the tensor cores wait, so that a quarter of the
    /// exponentials takes the FMA pipes. A masked P is exactly 0, and NaN beside an LSE of NaN; that of a row past the last query, whose LSE is inf, is 2^-125 on the FMA pipes, times a dO of 0.
    #[device]
    pub(super) fn weights(
        self,
        at: At<W>,
        place: Place,
        scores: Tensor<f32>,
        sum: impl FnOnce() -> Option<Tensor<f32>>,
    ) -> (Tensor<f32>, Option<Tensor<f32>>) {
        let s = W::Modifier::scores(scores, place);
        let sum = sum();
        let slopes = W::Modifier::slopes(s);
        let s = if at.is_masked {
            select(
                self.block.sees(at.member, at.step, place),
                s,
                f32::NEG_INFINITY,
            )
        } else {
            s
        };
        let exponents = match sum {
            Some(sum) => fma(s, self.log2_scale, -sum),
            None => s * self.log2_scale,
        };
        let p = if has_wide_steps(self.block.queries()) && !at.is_masked {
            exp2_by_quarters::<DEGREE>(exponents)
        } else {
            exponents.exp2()
        };
        (p, slopes)
    }

    /// With dropout, P with the signs of dropped weights changed: weights are not negative, so their signs say which are kept, and take no registers. A weight of 0 has no part in
    /// any gradient.
    #[device]
    pub(super) fn signed(self, p: Tensor<f32>, shape: [usize; 2], at: At<W>) -> Tensor<f32> {
        if !W::Modifier::DROPS {
            return p;
        }
        let [rows, columns] = shape;
        let corner = Corner {
            sequence: self.block.at.sequence,
            head: at.member.head,
            query: at.step.block * self.block.queries(),
            key: self.block.at.first + self.keys().start,
            rows_are_keys: !has_query_rows(self.depths[0]),
        };
        // Random words of all columns at a time would take more registers than there are.
        let piece = if columns.is_multiple_of(COLUMNS_OF_WORDS) {
            COLUMNS_OF_WORDS
        } else {
            columns
        };
        let of_piece = Wgmma::new([4, 1], [64, piece, 16]);
        let pieces = (0..columns).step_by(piece).map(|first| {
            let p = p.slice(1, first..first + piece);
            let p = p.convert_layout_trivial(of_piece.clone());
            let kept = self.drops.kept(p, [rows, piece], corner.at_column(first));
            select(kept, p, -p)
        });
        let signed = pieces.reduce(|before, piece| before.cat(piece, 1));
        let signed = signed.expect("a tile has columns");
        signed.convert_layout_trivial(p.layout())
    }

    /// What `signed` says that dO is multiplied by.
    #[device]
    pub(super) fn kept(self, signed: Tensor<f32>) -> Tensor<f32> {
        if W::Modifier::DROPS {
            maximum_nan(signed * self.drops.factor(), 0.0)
        } else {
            signed
        }
    }

    /// dS, of P as [`signed`](Consumer::signed) has it, dP, delta if dP has not subtracted it, and the derivatives of the scores.
    #[device]
    pub(super) fn gradient_of_scores(
        self,
        signed: Tensor<f32>,
        dp: Tensor<f32>,
        delta: Option<Tensor<f32>>,
        slopes: Option<Tensor<f32>>,
    ) -> Tensor<f32> {
        let (p, dp) = if W::Modifier::DROPS {
            let dp = select(signed > 0.0, dp * self.drops.factor(), 0.0);
            (signed.abs(), dp)
        } else {
            (signed, dp)
        };
        let p = slopes.map_or(p, |slopes| p * slopes);
        p * delta.map_or(dp, |delta| dp - delta)
    }
    /// Adds terms of dQ, `[ROWS, columns]`: columns from `number · columns` on of half `half_block` of a block.
    #[device]
    pub(super) fn add(
        self,
        half_block: Scalar<i32>,
        step: Step,
        number: usize,
        dq: Tensor<f32>,
        half: usize,
    ) {
        let columns = dq.shape()[1] as usize;
        let dq = in_order_of_threads(dq, columns);
        if let Some(terms) = self.tiles.dq.map(|terms| terms[self.group]) {
            let stage = acquire(terms, step.fill);
            self.sleep_at(stagger::Place::BeforeTerms);
            stage.tiles.store(dq);
            terms.commit(stage);
        } else {
            let first = half_block.cast::<i64>() * (ROWS * half) as i64;
            let to = self.sums + (first + (number * ROWS * columns) as i64);
            let to = to.at(arange(0..ROWS * columns, dq.layout()));
            to.relaxed().atomic_add(dq);
        }
    }
}
