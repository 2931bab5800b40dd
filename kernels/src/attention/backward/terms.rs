//! Terms of dQ: the warps that add them from shared memory, and whose turn it is where they are added in a fixed order.

use tilekit::prelude::*;

use super::block::Block;
use super::part::{ADDERS, GROUPS, has_query_rows};
use super::step::{Member, Step};
use super::walk::Walk;

/// A warpgroup's half of a block of dQ in the order of threads, `[buffers, elements]`. Where warps add it in turns, each has a stage's barriers, so that it sees all of their phases, and a buffer, or shares one
/// with the other.
#[derive(Clone, Copy, Aggregate)]
pub(super) struct Terms {
    halves: Smem<f32>,
    stages: usize,
}

impl Payload for Terms {
    type Stage = Smem<f32>;

    fn stages(self) -> usize {
        self.stages
    }

    fn stage(self, index: Scalar<i32>) -> Smem<f32> {
        if self.shares() {
            self.halves.index(0)
        } else {
            self.halves.index(index)
        }
    }

    fn stage_bytes(self) -> usize {
        self.halves.bytes() / self.halves.stages()
    }
}

impl Terms {
    /// Of blocks of `queries`, of which there is one at a time where shared memory has more beside it: rows of the passes, or parts of LSE and delta.
    #[device]
    pub(super) fn alloc(
        depth: usize,
        queries: usize,
        is_ordered: bool,
        has_more: bool,
    ) -> Pipeline<Terms> {
        let stages = if is_ordered { ADDERS } else { 1 };
        // Beyond depth 128, shared memory has no place for two.
        let is_full = has_query_rows(depth) || has_more;
        let buffers = if is_full { 1 } else { stages };
        let half = queries * depth / GROUPS;
        let terms = Terms {
            halves: Smem::<f32>::alloc([buffers, half], Swizzled::plain([1, 0])),
            stages,
        };
        Pipeline::new(terms, Producers::Stores { warps: 4 }, Consumers::warps(1))
    }

    /// Whether two warps share a buffer.
    fn shares(self) -> bool {
        self.halves.stages() < self.stages
    }
}

/// Waits until a warpgroup may store its terms of fill `fill`.
#[device]
pub(super) fn acquire(terms: Pipeline<Terms>, fill: Scalar<i32>) -> Filling<Smem<f32>> {
    if terms.payload().shares() {
        // Of the fill before this one, which the other warp releases.
        let _ = terms.wait_released(&terms.of_fill(fill + 1));
    }
    terms.producer_acquire(terms.of_fill(fill))
}

impl<W: Walk> Block<W> {
    /// Waits until the terms of all preceding blocks of keys have been added to half `half_block` of a block of dQ.
    #[device]
    pub(super) fn await_turn(self, member: Member<W>, step: Step, half_block: Scalar<i32>) {
        let before = self.before(member, step);
        let turn = self.turns.at(half_block + 1);
        turn.acquire().atomic_poll(|terms| terms == before);
    }

    /// How many blocks of keys that precede the CTA's in the order of terms the queries of a step see.
    #[device]
    fn before(self, member: Member<W>, step: Step) -> Scalar<i32> {
        let at = [step.number, step.block];
        self.walk
            .before(self.at, member.of_walk, self.number, at, self.ascends)
    }

    /// Counts a term of a half of a block of dQ that has been added.
    #[device]
    pub(super) fn pass_turn(self, half_block: Scalar<i32>) {
        self.turns.at(half_block + 1).release().atomic_add(1);
    }

    /// Adds the terms of dQ of warpgroup `group`, half blocks of `elements`, to `sums`. The buffer is filled again as soon as it has been read.
    #[device]
    pub(super) fn add_terms(
        self,
        group: usize,
        terms: Pipeline<Terms>,
        sums: Ptr<f32>,
        elements: usize,
    ) {
        self.each_step(|_, step| {
            let stage = terms.consumer_wait(terms.of_fill(step.fill));
            let half_block = step.row_block * GROUPS + group;
            add_half(stage.tiles, sums, half_block, elements);
            tma_store_wait_read(0);
            terms.consumer_release(stage);
        });
    }

    /// The same in the order of blocks of keys, of both warpgroups, in those steps that are the turn of warp `adder`: a term is added after those of all preceding blocks of keys, and counted when it has
    /// been added.
    #[device]
    pub(super) fn add_terms_in_order(
        self,
        adder: usize,
        terms: [Pipeline<Terms>; GROUPS],
        sums: Ptr<f32>,
        elements: usize,
    ) {
        self.each_other_step(adder, |member, step| {
            let half_block = step.row_block * GROUPS;
            self.await_turn(member, step, half_block);
            let stages = [0, 1].map(|group: usize| {
                let terms = terms[group];
                let stage = terms.consumer_wait(terms.of_fill(step.fill));
                add_half(stage.tiles, sums, half_block + group, elements);
                stage
            });
            tma_store_wait_read(0);
            for (group, stage) in stages.into_iter().enumerate() {
                terms[group].consumer_release(stage);
            }
            tma_store_wait(0);
            self.pass_turn(half_block);
        });
    }
}

/// Issues the addition of a half block, of `elements`, to `sums`.
#[device]
fn add_half(terms: Smem<f32>, sums: Ptr<f32>, half_block: Scalar<i32>, elements: usize) {
    let to = sums + half_block.cast::<i64>() * elements as i64;
    // A copy takes a power of two of elements.
    let copied = 1usize << elements.trailing_zeros();
    for first in (0..elements).step_by(copied) {
        let part = terms.slice(0, first..first + copied);
        to.bulk(first as i64).store_add(part);
    }
}
