//! Blocks of keys whose gradients are computed: the queries that see them, and the addresses of rows.

use std::marker::PhantomData;

use tilekit::prelude::*;

use super::part::keys_of_group;
use crate::attention::masked::lengths::{Lengths, Origin};
use crate::attention::masked::spans::Window;
use crate::attention::modifier::{Modifier, Place};
use crate::attention::plan::FAR;

/// Heads of K and V with the blocks of their keys. Q is `[batch, heads, tokens, depth]`, and K and V have a head for `query_heads` of its.
#[derive(Clone, Copy)]
pub(super) struct KeyBlocks<M> {
    pub(super) lengths: Lengths,
    pub(super) window: Window,
    /// Heads of K and V.
    pub(super) kv_heads: Scalar<i32>,
    /// Heads of Q for each of them.
    pub(super) query_heads: Scalar<i32>,
    /// Blocks of queries of a head of Q in the workspace.
    pub(super) block_stride: Scalar<i32>,
    pub(super) score_scale: Scalar<f32>,
    pub(super) data: Ptr<f32>,
    /// Queries and keys of a block.
    pub(super) block: [usize; 2],
    /// CTAs of a cluster, of which each has a block of keys.
    pub(super) ctas: usize,
    /// Whether masks compare with the queries that see each key, which steps share, where registers can keep them; else with the keys that each query sees.
    pub(super) keeps_bounds: bool,
    pub(super) modifier: PhantomData<fn() -> M>,
}

/// A block of keys, and its sequence.
#[derive(Clone, Copy)]
pub(super) struct KeyBlock {
    pub(super) sequence: Scalar<i32>,
    /// Its batch in the tensors.
    pub(super) batch: Scalar<i32>,
    /// Its first key in the sequence.
    pub(super) first: Scalar<i32>,
    /// Where that is in the maps of K, V, dK and dV. Made once, since it takes no more registers in the main loop than what it is made of.
    pub(super) origin: Origin,
    pub(super) starts: [Scalar<i32>; 2],
    pub(super) lengths: [Scalar<i32>; 2],
}

/// The blocks of queries `first..end` that see a block of keys.
#[derive(Clone, Copy)]
pub(super) struct Seeing {
    pub(super) first: Scalar<i32>,
    pub(super) end: Scalar<i32>,
}

/// The range of blocks in which every query sees every key of a warpgroup. The others need a mask.
#[derive(Clone, Copy)]
pub(super) struct Unmasked(pub(super) Scalar<i32>, pub(super) Scalar<i32>);

/// For a key, or each key of a tensor: the queries from the first result up to the second see it.
macro_rules! queries_of {
    ($self:ident, $block:ident, $key:ident, $is_first_chunk:expr, $is_key:expr) => {{
        let Window { left, right, chunk } = $self.window;
        let [queries, keys] = $block.lengths;
        let shift = keys - queries;
        let of_chunk = $key / chunk * chunk;
        // Positions before the first key belong to its chunk.
        let from = select($is_first_chunk, -FAR, of_chunk);
        let low = maximum(maximum($key - right, from) - shift, 0);
        let high = minimum($key + left + 1, of_chunk + chunk) - shift;
        [low, select($is_key, minimum(high, queries), 0)]
    }};
}

impl<M: Modifier> KeyBlocks<M> {
    #[device]
    pub(super) fn block(self, number: Scalar<i32>, sequence: Scalar<i32>) -> KeyBlock {
        let [starts, lengths] = self.lengths.of(sequence);
        let batch = select(self.lengths.is_ragged, 0, sequence);
        let first = self.of_cta(number) * self.block[1];
        let keys = [starts[1] + first, lengths[1] - first];
        KeyBlock {
            sequence,
            batch,
            first,
            origin: self.lengths.origin(batch, keys),
            starts,
            lengths,
        }
    }

    /// Where the first query of a block's sequence is in the maps of Q and dO.
    #[device]
    pub(super) fn first_query(self, block: KeyBlock) -> Origin {
        let queries = [block.starts[0], block.lengths[0]];
        self.lengths.origin(block.batch, queries)
    }

    /// The block of keys of this CTA, of those of cluster `number`.
    fn of_cta(self, number: Scalar<i32>) -> Scalar<i32> {
        if self.ctas > 1 {
            number * self.ctas + cluster_rank()
        } else {
            number
        }
    }

    /// The first key of the cluster.
    fn first_of_cluster(self, block: KeyBlock) -> Scalar<i32> {
        if self.ctas > 1 {
            block.first - cluster_rank() * self.block[1]
        } else {
            block.first
        }
    }

    /// Keys of the blocks of a cluster.
    pub(super) fn keys_of_cluster(self) -> usize {
        self.ctas * self.block[1]
    }

    #[device]
    fn queries(self, block: KeyBlock, key: Scalar<i32>) -> [Scalar<i32>; 2] {
        let (is_first_chunk, is_key) = (key < self.window.chunk, key < block.lengths[1]);
        queries_of!(self, block, key, is_first_chunk, is_key)
    }

    #[device]
    fn queries_of_all(self, block: KeyBlock, key: Tensor<i32>) -> [Tensor<i32>; 2] {
        let (is_first_chunk, is_key) = (key < self.window.chunk, key < block.lengths[1]);
        queries_of!(self, block, key, is_first_chunk, is_key)
    }

    /// The blocks of queries that see a key of the block; none for a block past the end of its sequence.
    #[device]
    pub(super) fn seeing(self, block: KeyBlock) -> Seeing {
        let queries = self.block[0];
        let of_cluster = self.first_of_cluster(block);
        let last = minimum(of_cluster + self.keys_of_cluster(), block.lengths[1]) - 1;
        let [low, _] = self.queries(block, of_cluster);
        let [_, high] = self.queries(block, last);
        let first = low / queries;
        let end = cdiv(maximum(high, 0), queries);
        let is_there = of_cluster < block.lengths[1];
        Seeing {
            first,
            end: select(is_there, maximum(end, first), first),
        }
    }

    /// The blocks that need no mask for warpgroup `group`. Queries past the end of the sequence need none: their P is 0.
    #[device]
    pub(super) fn unmasked(self, block: KeyBlock, seeing: Seeing, group: usize) -> Unmasked {
        if M::MASKS {
            return Unmasked(seeing.end, seeing.end);
        }
        let [queries, keys] = self.block;
        let keys = keys_of_group(group, keys);
        let first = block.first + keys.start;
        let last = first + (keys.len() - 1);
        let [low, _] = self.queries(block, last);
        let [_, high] = self.queries(block, first);
        let from = select(last < block.lengths[1], cdiv(low, queries), seeing.end);
        let from = clamped(from, seeing.first, seeing.end);
        let whole = maximum(high, 0) / queries;
        let to = select(high >= block.lengths[0], seeing.end, whole);
        Unmasked(from, clamped(to, from, seeing.end))
    }

    /// Whether queries see keys: by the bounds of keys, or of queries. Where `is_full`, they see all keys of the sequence, which is part of the bounds: beside them it took a register of masked steps.
    #[device]
    pub(super) fn sees(
        self,
        block: KeyBlock,
        at: Place,
        is_full: Option<Scalar<bool>>,
    ) -> Tensor<bool> {
        let [queries, keys] = block.lengths;
        let seen = if self.keeps_bounds {
            let [mut low, mut high] = self.queries_of_all(block, at.key);
            if let Some(is_full) = is_full {
                // Of each key alone, which steps share: by a condition of a step it takes a register more.
                let all = select(at.key < keys, queries, 0);
                low = select(is_full, 0, low);
                high = select(is_full, all, high);
            }
            let query = at.query - (keys - queries);
            (query >= low) & (query < high)
        } else {
            let [mut low, mut high] = self.keys_of_all(block, at.query);
            if let Some(is_full) = is_full {
                low = select(is_full, 0, low);
                high = select(is_full, keys, high);
            }
            (at.key >= low) & (at.key < high)
        };
        match is_full {
            _ if !M::MASKS => seen,
            Some(is_full) => seen & (M::sees(at) | is_full),
            None => seen & M::sees(at),
        }
    }

    /// The keys from the first result up to the second that queries at these positions see.
    #[device]
    fn keys_of_all(self, block: KeyBlock, position: Tensor<i32>) -> [Tensor<i32>; 2] {
        let Window { left, right, chunk } = self.window;
        let of_chunk = maximum(position, 0) / chunk * chunk;
        let end = minimum(position + right + 1, of_chunk + chunk);
        [
            maximum(position - left, of_chunk),
            minimum(end, block.lengths[1]),
        ]
    }

    /// The positions of the scores of query head `head`.
    #[device]
    pub(super) fn place(
        self,
        block: KeyBlock,
        head: Scalar<i32>,
        query: Tensor<i32>,
        key: Tensor<i32>,
    ) -> Place {
        let [queries, keys] = block.lengths;
        Place {
            head: full([1, 1], head, key.layout()),
            query: query + (keys - queries),
            key,
            scale: self.score_scale,
            data: self.data,
        }
    }

    /// The first block of queries of the sequence in head `head`, counted over all heads of all batches.
    #[device]
    pub(super) fn first_block(self, block: KeyBlock, head: Scalar<i32>) -> Scalar<i32> {
        let heads = self.kv_heads * self.query_heads;
        let line = block.batch * heads + head;
        line * self.block_stride
            + self
                .lengths
                .first_block(block.sequence, block.starts, self.block[0])
    }

    /// The index of the first block of keys that a query from `query` on sees.
    #[device]
    pub(super) fn first_seen(self, block: KeyBlock, query: Scalar<i32>) -> Scalar<i32> {
        let Window { left, chunk, .. } = self.window;
        let place = query + (block.lengths[1] - block.lengths[0]);
        let of_chunk = maximum(place, 0) / chunk * chunk;
        maximum(place - left, of_chunk) / self.keys_of_cluster()
    }

    /// The index of the last block of keys that a query up to `query` sees.
    #[device]
    pub(super) fn last_seen(self, block: KeyBlock, query: Scalar<i32>) -> Scalar<i32> {
        let Window { right, chunk, .. } = self.window;
        let place = query + (block.lengths[1] - block.lengths[0]);
        let of_chunk = maximum(place, 0) / chunk * chunk;
        let last = minimum(place + right, of_chunk + (chunk - 1));
        minimum(last, block.lengths[1] - 1) / self.keys_of_cluster()
    }
}

#[device]
fn clamped(number: Scalar<i32>, low: Scalar<i32>, high: Scalar<i32>) -> Scalar<i32> {
    minimum(maximum(number, low), high)
}
