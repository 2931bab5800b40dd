//! Blocks of keys that the blocks of queries of a list see (block-sparse masks): partial ones, whose scores are masked, and full ones.

use tilekit::prelude::*;

use super::key_blocks::{KeyBlock, KeyBlocks};
use super::part::keys_of_group;
use super::walk::Walk;
use crate::attention::modifier::{Differentiable, Place};

/// The lists of blocks of queries, one for each head of each block of keys of each batch: the partial blocks first, then the full ones. Where heads or batches share lists, theirs
/// are 0 lists apart.
#[derive(Clone, Copy)]
pub(super) struct QueryLists {
    /// Where each list begins in `blocks`, and where the last one ends.
    pub(super) starts: Ptr<i32>,
    /// The partial blocks of each list.
    pub(super) partial: Ptr<i32>,
    /// Blocks of so many queries as the mask has.
    pub(super) blocks: Ptr<i32>,
    /// How many blocks of keys in front of the list's own each of them sees.
    pub(super) ranks: Ptr<i32>,
    /// Lists from one batch, one block of keys and one head to the next.
    pub(super) strides: [Scalar<i32>; 3],
    /// Steps for a block of queries of the mask, and CTAs for one of its blocks of keys.
    pub(super) parts: [Scalar<i32>; 2],
}

/// [`KeyBlocks`] of one length, of whose queries those of a list see a block.
#[derive(Clone, Copy)]
pub(super) struct Listed<M> {
    pub(super) keys: KeyBlocks<M>,
    pub(super) lists: QueryLists,
}

/// The list of the first query head of a group, and where it begins.
#[derive(Clone, Copy)]
pub(super) struct Group {
    list: Scalar<i32>,
    start: Scalar<i32>,
}

/// The list of a query head.
#[derive(Clone, Copy)]
pub(super) struct List {
    start: Scalar<i32>,
    /// Its steps, and those of them that are partial.
    count: Scalar<i32>,
    partial: Scalar<i32>,
    /// Steps of the heads in front of it.
    fills: Scalar<i32>,
}

impl<M: Differentiable> Walk for Listed<M> {
    type Modifier = M;
    type Seen = Group;
    /// Whether the keys of a warpgroup reach past the last one, so that they are masked in full blocks, too.
    type Edges = Scalar<bool>;
    type Head = List;

    const HAS_TWO_EDGES: bool = false;
    const SHARES_STEPS: bool = false;

    fn keys(self) -> KeyBlocks<M> {
        self.keys
    }

    #[device]
    fn seen(self, at: KeyBlock, number: Scalar<i32>, kv_head: Scalar<i32>) -> Group {
        let QueryLists {
            starts,
            strides: [of_batch, of_block, of_head],
            parts,
            ..
        } = self.lists;
        let head = kv_head * self.keys.query_heads;
        let list = at.batch * of_batch + number / parts[1] * of_block + head * of_head;
        Group {
            list,
            start: starts.at(list).load(),
        }
    }

    #[device]
    fn head(self, seen: Group, member: Scalar<i32>) -> List {
        let QueryLists {
            starts,
            partial,
            strides: [_, _, of_head],
            parts: [parts, _],
            ..
        } = self.lists;
        let list = seen.list + member * of_head;
        let [start, end] = [0, 1].map(|after| starts.at(list + after).load());
        let count = (end - start) * parts;
        // Heads that share a list have as many steps each; lists of heads lie one behind the other.
        let of_shared = select(of_head == 0, member * count, 0);
        List {
            start,
            count,
            partial: partial.at(list).load() * parts,
            fills: (start - seen.start) * parts + of_shared,
        }
    }

    fn steps(self, head: List) -> [Scalar<i32>; 2] {
        [scalar(0), head.count]
    }

    fn fills(self, head: List) -> Scalar<i32> {
        head.fills
    }

    #[device]
    fn edges(self, at: KeyBlock, _: Group, group: usize) -> Scalar<bool> {
        let keys = keys_of_group(group, self.keys.block[1]);
        at.first + keys.end > at.lengths[1]
    }

    #[device]
    fn unmasked(self, is_cut: Scalar<bool>, head: List) -> [Scalar<i32>; 2] {
        [select(is_cut, head.count, head.partial), head.count]
    }

    #[device]
    fn block(self, head: List, step: Scalar<i32>) -> Scalar<i32> {
        let [parts, _] = self.lists.parts;
        let block = self.lists.blocks.at(head.start + step / parts).load();
        block * parts + step % parts
    }

    #[device]
    fn sees(self, at: KeyBlock, head: List, step: Scalar<i32>, place: Place) -> Tensor<bool> {
        self.keys.sees(at, place, Some(step >= head.partial))
    }

    #[device]
    fn before(
        self,
        _: KeyBlock,
        head: List,
        number: Scalar<i32>,
        [step, _]: [Scalar<i32>; 2],
        _: Option<Scalar<bool>>,
    ) -> Scalar<i32> {
        let [parts, ctas] = self.lists.parts;
        let rank = self.lists.ranks.at(head.start + step / parts).load();
        rank * ctas + number % ctas
    }
}
