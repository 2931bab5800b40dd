//! How two warpgroups divide a block of keys and the blocks of queries of the backward pass.

use std::ops::Range;

use tilekit::prelude::*;

use crate::attention::mainloop::problem::ROWS;
use crate::attention::mainloop::shape::swizzle;
use crate::attention::modifier::Modifier;

/// Consumer warpgroups.
pub(in crate::attention) const GROUPS: usize = 2;

/// Warps that add terms of dQ from shared memory.
///
/// In any order of terms each has those of a warpgroup. In a fixed one they have every other step of both: a turn, an addition, its end and the release of the count are four ways to L2 and back, one
/// behind the other, and take longer than a step.
pub(super) const ADDERS: usize = 2;

/// Whether a thread holds more than scores and gradients: numbers of dropout, or places and what a modifier loads for each of them.
pub(super) const fn is_crowded<M: Modifier>() -> bool {
    M::DROPS || M::READS_PLACE
}

/// Queries of a block: twice as many where scores and gradients of both fit into registers, for half of the barriers.
pub(super) const fn queries_of(depth: usize, is_crowded: bool) -> usize {
    if depth <= 64 && !is_crowded {
        GROUPS * ROWS
    } else {
        ROWS
    }
}

/// Whether a step has the queries of both warpgroups' rows, by [`queries_of`].
pub(super) const fn has_wide_steps(queries: usize) -> bool {
    queries > ROWS
}

/// Blocks of `block` queries of a head that have rows in the workspace: each of several sequences begins a block of its own.
pub(super) fn block_stride(
    block: usize,
    queries: usize,
    sequences: usize,
    is_ragged: bool,
) -> usize {
    if is_ragged {
        queries / block + sequences
    } else {
        queries.div_ceil(block)
    }
}

/// The layout of one half of a block of dQ, `[ROWS, columns]`, in a warpgroup: a thread has four contiguous elements,
/// which one vector `red` adds.
#[device]
pub(super) fn in_order_of_threads(dq: Tensor<f32>, columns: usize) -> Tensor<f32> {
    let parts = dq.reshape([4, 2, 8, columns / 8, 4, 2]);
    let parts = parts.permute([3, 0, 2, 4, 1, 5]);
    parts.reshape([ROWS * columns])
}

/// Whether rows of scores are queries. Up to depth 128 they are keys: then P and dS are in registers in the layout of operand A of `wgmma`. Beyond, dK and dV of 64 keys take more registers than a
/// warpgroup has. So they are computed transposed, with depth for rows, of as many keys as there are registers for; P and dS, of which keys are columns, pass through shared memory.
pub(super) const fn has_query_rows(depth: usize) -> bool {
    depth > 128
}

/// The rows and columns of a block of dQ of so many queries that warpgroup `group` computes, `[ROWS, columns]`.
pub(super) fn half_of_dq(group: usize, depth: usize, queries: usize) -> [Range<usize>; 2] {
    let share = |all: usize| group * all / GROUPS..(group + 1) * all / GROUPS;
    if has_wide_steps(queries) {
        [share(queries), 0..depth]
    } else {
        [0..ROWS, share(depth)]
    }
}

/// Whether warps of their own add terms of dQ, from shared memory, and order them: at depth 256 there is no place for the terms.
pub(super) fn has_adders(depth: usize) -> bool {
    depth < 256
}

/// Keys of a block. Beyond depth 128 they are as many as dK, dV and scores of half of them fit into the registers of a warpgroup: each block adds terms of its own to dQ in L2, which limits
/// blocks of 64 keys. Numbers of dropout are those of 16 keys.
pub(super) const fn keys_of(depth: usize, drops: bool) -> usize {
    match depth {
        ..129 => GROUPS * ROWS,
        129..193 => 96,
        _ if drops => 64,
        _ => 80,
    }
}

/// Keys of a block of a block-sparse mask, whose own blocks are multiples of 128.
pub(super) const fn listed_keys_of(depth: usize) -> usize {
    if has_query_rows(depth) {
        ROWS
    } else {
        GROUPS * ROWS
    }
}

/// Whether most heads ascend in a fixed order with a mask: their CTAs begin with the last block of keys, and none waits for its turn. With a mask this takes 0.9 of the time at depth 192, and more at 128 and 256
/// (`bench/results/attention.md`, "Shortest CTAs first").
pub(super) const fn may_ascend(depth: usize) -> bool {
    depth == 192
}

/// CTAs of a cluster, which have neighbouring blocks of keys and visit the same blocks of queries: at depth 256 two exchange dS, and each adds half of the columns of dQ for the keys of both (`exchange.rs`).
pub(super) const fn ctas_of(depth: usize, drops: bool) -> usize {
    if depth == 256 && !drops { 2 } else { 1 }
}

/// Blocks of keys, and the CTAs of a cluster, of which each has one.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfCluster {
    pub(super) block_keys: usize,
    pub(super) ctas: usize,
}

impl OfCluster {
    /// Those of a call without lists of blocks.
    pub(super) const fn of_window(depth: usize, drops: bool) -> Self {
        OfCluster {
            block_keys: keys_of(depth, drops),
            ctas: ctas_of(depth, drops),
        }
    }

    /// Those of a block-sparse mask.
    pub(super) const fn of_lists(depth: usize) -> Self {
        OfCluster {
            block_keys: listed_keys_of(depth),
            ctas: 1,
        }
    }

    /// Clusters of a head of so many keys.
    pub(super) fn clusters(self, keys: usize) -> usize {
        keys.div_ceil(self.block_keys * self.ctas)
    }

    /// CTAs of a head of so many keys.
    pub(super) fn programs(self, keys: usize) -> usize {
        self.clusters(keys) * self.ctas
    }
}

/// Columns of K and Q that a load takes.
pub(super) const fn loaded_columns(depth: usize, drops: bool) -> usize {
    depth / ctas_of(depth, drops)
}

/// Stages of dO, of which shared memory has no place for two beside 80 keys of depth 256.
pub(super) fn stages_of_dout(depth: usize, keys: usize) -> usize {
    if depth > 192 && keys > ROWS { 1 } else { 2 }
}

/// The keys of a block of so many that warpgroup `group` has: their scores with all queries of a step, and their rows of dK and dV.
pub(super) fn keys_of_group(group: usize, keys: usize) -> Range<usize> {
    group * keys / GROUPS..(group + 1) * keys / GROUPS
}

/// Whether warpgroups divide the columns of dK and dV, not the keys: where rows of their products are columns, of which each has a multiple of 64. Then operand B is read for all keys at a time, and accumulators
/// of 80 keys leave no gaps between registers, as those of 40 do. P is exchanged, as dS is.
pub(super) const fn divides_columns(depth: usize) -> bool {
    has_query_rows(depth) && depth.is_multiple_of(GROUPS * ROWS)
}

/// Whether masks compare queries with bounds of each key, which all steps share, and not keys with bounds of each query: where threads have registers for the bounds of their keys.
pub(super) const fn keeps_bounds(depth: usize, drops: bool) -> bool {
    !(divides_columns(depth) || has_query_rows(depth) && drops)
}

/// How many keys and columns of dK, or of dV of `columns`, a warpgroup computes.
pub(super) const fn part_of_gradient(columns: usize, depth: usize, keys: usize) -> [usize; 2] {
    if divides_columns(depth) {
        [keys, columns / GROUPS]
    } else {
        [keys / GROUPS, columns]
    }
}

/// The keys and columns of dK, or of dV of `columns`, that warpgroup `group` computes.
pub(super) fn gradient_of_group(
    group: usize,
    columns: usize,
    depth: usize,
    keys: usize,
) -> [Range<usize>; 2] {
    let all = [keys, columns];
    let sizes = part_of_gradient(columns, depth, keys);
    [0, 1].map(|dim| {
        let start = if sizes[dim] < all[dim] {
            group * sizes[dim]
        } else {
            0
        };
        start..start + sizes[dim]
    })
}

/// The shared layout of K: the columns of a warpgroup's half of dQ are a multiple of the swizzle's width.
pub(super) fn swizzle_of_keys<T: Element>(depth: usize, queries: usize, rank: u32) -> Nvmma {
    let [_, columns] = half_of_dq(0, depth, queries);
    swizzle::<T>(columns.len(), rank)
}
