//! How two warpgroups divide a block of keys and the blocks of queries of the backward pass.

use std::ops::Range;

use tilekit::prelude::*;

use crate::attention::mainloop::attend::swizzle;
use crate::attention::mainloop::problem::ROWS;

/// Consumer warpgroups.
pub(in crate::attention) const GROUPS: usize = 2;

/// Queries of a block: twice as many where scores and gradients of both fit into registers, for half of the barriers. Numbers of dropout leave no place for
/// them.
pub(super) const fn queries_of(depth: usize, drops: bool) -> usize {
    if depth <= 64 && !drops {
        GROUPS * ROWS
    } else {
        ROWS
    }
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

/// Whether warpgroups divide the columns of dK and dV: beyond depth 128 their rows take more registers than a warpgroup has.
pub(super) fn divides_columns(depth: usize) -> bool {
    depth > 128
}

/// The rows and columns of a block of dQ of so many queries that warpgroup `group` computes, `[ROWS, columns]`.
pub(super) fn half_of_dq(group: usize, depth: usize, queries: usize) -> [Range<usize>; 2] {
    let share = |all: usize| group * all / GROUPS..(group + 1) * all / GROUPS;
    if queries > ROWS {
        [share(queries), 0..depth]
    } else {
        [0..ROWS, share(depth)]
    }
}

/// Whether warps of their own add terms of dQ, from shared memory, and order them: at depth 256 there is no place for the terms. Elsewhere consumers add from their
/// registers, which is faster only where a block has few columns.
pub(super) fn has_adders(depth: usize, is_ordered: bool) -> bool {
    (is_ordered || depth > 64) && depth < 256
}

/// Keys of a block.
pub(super) fn keys_of(depth: usize) -> usize {
    if divides_columns(depth) {
        ROWS
    } else {
        GROUPS * ROWS
    }
}

/// The columns of dK or dV, of which there are `columns`, that a warpgroup computes.
pub(super) fn share_of(columns: usize, depth: usize) -> usize {
    if divides_columns(depth) {
        columns / GROUPS
    } else {
        columns
    }
}

/// The shared layout of K: the columns of a warpgroup's half of dQ are a multiple of the swizzle's width.
pub(super) fn swizzle_of_keys<T: Element>(depth: usize, queries: usize, rank: u32) -> Nvmma {
    let [_, columns] = half_of_dq(0, depth, queries);
    swizzle::<T>(columns.len(), rank)
}

/// What a warpgroup computes. Up to depth 128 it owns 64 keys of a block: their scores with all queries of a step, whose P and dS never leave its
/// registers, and their rows of dK and dV. Beyond, it has the scores of all 64 keys with half of the 64 queries, and half of the columns of dK and dV: P and dS
/// are exchanged through shared memory.
pub(super) struct Part {
    /// The keys, and the queries, of its scores.
    pub(super) keys: Range<usize>,
    pub(super) queries: Range<usize>,
    /// The columns of its gradients.
    pub(super) of_dk: Range<usize>,
    pub(super) of_dv: Range<usize>,
}

impl Part {
    pub(super) fn of(group: usize, [depth, values]: [usize; 2], queries: usize) -> Part {
        let share = |all: usize| group * all / GROUPS..(group + 1) * all / GROUPS;
        if divides_columns(depth) {
            Part {
                keys: 0..ROWS,
                queries: share(queries),
                of_dk: share(depth),
                of_dv: share(values),
            }
        } else {
            Part {
                keys: share(GROUPS * ROWS),
                queries: 0..queries,
                of_dk: 0..depth,
                of_dv: 0..values,
            }
        }
    }
}
