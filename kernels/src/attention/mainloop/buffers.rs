//! The shared memory of a CTA: Q and the output of each consumer warpgroup, and the stages of K and V.

use std::any::Any;

use tilekit::prelude::*;
use tilekit::target::SM_90A;

use super::problem::{Loads, Problem, ROWS};
use super::shape::{Shape, swizzle};

/// Stages of K, and of V.
const STAGES: usize = 2;

/// What the partitions of a CTA share.
pub(super) struct Buffers<T: Element, P: Problem<T>, const GROUPS: usize> {
    /// The tiles that the CTA computes.
    pub(super) drawn: DynamicTiles,
    /// Q of each consumer warpgroup.
    pub(super) queries: Vec<Loads<T>>,
    /// Where each one stages its output; `None` where that is the place of its Q.
    pub(super) outputs: Option<Vec<Smem<P::Output>>>,
    /// K and V as products read them.
    pub(super) keys: Loads<T>,
    pub(super) values: Loads<T>,
    /// V as it is loaded, where products read it transposed.
    pub(super) straight: Loads<T>,
    /// What the TMA loads of K and V fill: the stages of products, or those from which they are converted.
    pub(super) loaded: [Loads<P::Loaded>; 2],
    /// Orders the products of the consumer warpgroups.
    pub(super) turns: Option<NamedTurns<GROUPS>>,
}

/// Whether products read V transposed.
pub(super) const fn is_transposed<T>() -> bool {
    size_of::<T>() == 1
}

/// Whether K and V have other elements in memory.
pub(super) fn is_converted<T: Element, P: Problem<T>>() -> bool {
    P::Loaded::DTYPE != T::DTYPE
}

/// The columns of an output that fit the place of queries.
pub(super) fn columns_of_place<T: Element, P: Problem<T>>(depth: usize) -> usize {
    depth * size_of::<T>() / size_of::<P::Output>()
}

/// Do queries, outputs, and the stages of K and V fit a CTA's shared memory? Otherwise the output reuses the buffer of the queries.
fn has_place_for_output<T: Element, P: Problem<T>>(shape: Shape, queries: usize) -> bool {
    /// Bytes of mbarriers and of the slots of drawn tiles, rounded up.
    const BESIDES: usize = 1024;
    let blocks_of_values = if is_transposed::<T>() { 2 } else { 1 };
    let columns = shape.depth + blocks_of_values * shape.values;
    let operands = STAGES * shape.keys * columns + queries * shape.depth;
    let loaded = if is_converted::<T, P>() {
        STAGES * shape.keys * (shape.depth + shape.values) * size_of::<P::Loaded>()
    } else {
        0
    };
    let output = queries * shape.values * size_of::<P::Output>();
    let beside = BESIDES + P::bytes_beside([shape.depth, shape.values]);
    operands * size_of::<T>() + loaded + output + beside <= SM_90A.cta.shared_bytes as usize
}

/// A pipeline of `T`, which is the type `L`.
fn same<T: Element, L: Element>(pipeline: Loads<T>) -> Loads<L> {
    let pipeline: &dyn Any = &pipeline;
    let same = pipeline.downcast_ref::<Loads<L>>();
    *same.expect("element types of one `DType` are one type")
}

/// The pipeline of K, or of V, with `groups` consumer warpgroups.
#[device]
fn blocks_of<T: Element>(keys: usize, columns: usize, groups: usize) -> Loads<T> {
    let tiles = Smem::alloc([STAGES, keys, columns], swizzle::<T>(columns, 2));
    Pipeline::new(tiles, Producers::Tma, Consumers::warpgroups(groups))
}

/// The pipeline of blocks `[rows, columns]` that four warps store: transposed V, or what is converted.
#[device]
fn stored_blocks<T: Element>(rows: usize, columns: usize, groups: usize) -> Loads<T> {
    let tiles = Smem::alloc([STAGES, rows, columns], swizzle::<T>(columns, 2));
    let stores = Producers::Stores { warps: 4 };
    Pipeline::new(tiles, stores, Consumers::warpgroups(groups))
}

impl<T: Element, P: Problem<T>, const GROUPS: usize> Buffers<T, P, GROUPS> {
    /// Those of tiles of `problem`, drawn from `counter`.
    #[device]
    pub(super) fn alloc(problem: P, shape: Shape, counter: Ptr<i32>) -> Self {
        let Shape {
            depth,
            values: columns,
            keys: block_keys,
            ..
        } = shape;
        let has_place = has_place_for_output::<T, P>(shape, GROUPS * ROWS);
        let is_transposed = is_transposed::<T>();
        let is_converted = is_converted::<T, P>();
        static_assert!(
            has_place || columns.is_multiple_of(columns_of_place::<T, P>(depth)),
            "an output of {columns} columns takes the place of queries of {depth}"
        );
        let partitions = GROUPS + usize::from(is_transposed) + 2 * usize::from(is_converted);
        let drawn = DynamicTiles::new(counter, problem.count(), Consumers::warpgroups(partitions));
        let of_queries = |_| {
            let tile = Smem::<T>::alloc([1, ROWS, depth], swizzle::<T>(depth, 2));
            Pipeline::new(tile, Producers::Tma, Consumers::warpgroups(1))
        };
        let queries = (0..GROUPS).map(of_queries).collect();
        let of_output = |_| Smem::alloc([1, ROWS, columns], swizzle::<P::Output>(columns, 2));
        let outputs = has_place.then(|| (0..GROUPS).map(of_output).collect());
        let blocks = |columns: usize, groups: usize| {
            if is_converted {
                stored_blocks::<T>(block_keys, columns, groups)
            } else {
                blocks_of::<T>(block_keys, columns, groups)
            }
        };
        let keys = blocks(depth, GROUPS);
        let straight = blocks(columns, if is_transposed { 1 } else { GROUPS });
        let values = if is_transposed {
            stored_blocks::<T>(columns, block_keys, GROUPS)
        } else {
            straight
        };
        let loaded = if is_converted {
            [depth, columns].map(|columns| blocks_of(block_keys, columns, 1))
        } else {
            [keys, straight].map(same)
        };
        let turns = shape.turns.then(|| NamedTurns::new(128));
        Buffers {
            drawn,
            queries,
            outputs,
            keys,
            values,
            straight,
            loaded,
            turns,
        }
    }
}
