//! Which blocks of queries a CTA of the backward pass visits for its block of keys, in which order, and which of their scores are masked.

use tilekit::prelude::*;

use super::key_blocks::{KeyBlock, KeyBlocks, Seeing, Unmasked};
use crate::attention::modifier::{Differentiable, Place};

/// The blocks of queries that see a block of keys. A query head of a CTA's group has steps, each of which is a block of queries.
pub(super) trait Walk: Copy {
    type Modifier: Differentiable;
    /// What a block of keys has for all of its query heads.
    type Seen: Copy;
    /// Where steps of a warpgroup need no mask, as far as all query heads have it.
    type Edges: Copy;
    /// What a query head has.
    type Head: Copy;

    /// Whether masked steps may stand in front of the others and behind them, and not in front alone.
    const HAS_TWO_EDGES: bool;

    /// Whether all query heads of a group have the same steps.
    const SHARES_STEPS: bool;

    fn keys(self) -> KeyBlocks<Self::Modifier>;

    /// That of block `number` of head `kv_head` of K and V.
    fn seen(self, at: KeyBlock, number: Scalar<i32>, kv_head: Scalar<i32>) -> Self::Seen;

    /// Query head `member` of the group.
    fn head(self, seen: Self::Seen, member: Scalar<i32>) -> Self::Head;

    /// The steps of a query head, from the first result up to the second.
    fn steps(self, head: Self::Head) -> [Scalar<i32>; 2];

    /// Steps of the query heads in front of this one, less the number of its first step, where one head follows the other.
    fn fills(self, head: Self::Head) -> Scalar<i32>;

    /// The edges of warpgroup `group`.
    fn edges(self, at: KeyBlock, seen: Self::Seen, group: usize) -> Self::Edges;

    /// The steps in which every query sees every key of a warpgroup. The others need a mask.
    fn unmasked(self, edges: Self::Edges, head: Self::Head) -> [Scalar<i32>; 2];

    /// The block of queries of a step.
    fn block(self, head: Self::Head, step: Scalar<i32>) -> Scalar<i32>;

    /// Whether the queries of a masked step see the keys, of which `place` has the positions.
    fn sees(self, at: KeyBlock, head: Self::Head, step: Scalar<i32>, place: Place) -> Tensor<bool>;

    /// How many blocks of keys in front of block `number`, or behind it where steps ascend, the queries of a step see, by the step and its block of queries.
    fn before(
        self,
        at: KeyBlock,
        head: Self::Head,
        number: Scalar<i32>,
        at_step: [Scalar<i32>; 2],
        ascends: Option<Scalar<bool>>,
    ) -> Scalar<i32>;
}

/// Windows: the blocks of queries that see a block of keys are consecutive, and the same in all heads.
impl<M: Differentiable> Walk for KeyBlocks<M> {
    type Modifier = M;
    type Seen = Seeing;
    type Edges = Unmasked;
    type Head = (Seeing, Scalar<i32>);

    const HAS_TWO_EDGES: bool = true;
    const SHARES_STEPS: bool = true;

    fn keys(self) -> KeyBlocks<M> {
        self
    }

    fn seen(self, at: KeyBlock, _: Scalar<i32>, _: Scalar<i32>) -> Seeing {
        self.seeing(at)
    }

    fn head(self, seen: Seeing, member: Scalar<i32>) -> Self::Head {
        let Seeing { first, end } = seen;
        (seen, member * (end - first) - first)
    }

    fn steps(self, (seen, _): Self::Head) -> [Scalar<i32>; 2] {
        [seen.first, seen.end]
    }

    fn fills(self, (_, fills): Self::Head) -> Scalar<i32> {
        fills
    }

    #[device]
    fn edges(self, at: KeyBlock, seen: Seeing, group: usize) -> Unmasked {
        KeyBlocks::unmasked(self, at, seen, group)
    }

    fn unmasked(self, Unmasked(from, to): Unmasked, _: Self::Head) -> [Scalar<i32>; 2] {
        [from, to]
    }

    fn block(self, _: Self::Head, step: Scalar<i32>) -> Scalar<i32> {
        step
    }

    #[device]
    fn sees(self, at: KeyBlock, _: Self::Head, _: Scalar<i32>, place: Place) -> Tensor<bool> {
        KeyBlocks::sees(self, at, place, None)
    }

    #[device]
    fn before(
        self,
        at: KeyBlock,
        _: Self::Head,
        number: Scalar<i32>,
        [_, block]: [Scalar<i32>; 2],
        ascends: Option<Scalar<bool>>,
    ) -> Scalar<i32> {
        let first = block * self.block[0];
        let before = number - self.first_seen(at, first);
        match ascends {
            Some(ascends) => {
                let last = first + (self.block[0] - 1);
                select(ascends, self.last_seen(at, last) - number, before)
            }
            None => before,
        }
    }
}
