//! The CTA of the backward pass: what its warps do for a block of keys.

use tilekit::prelude::*;

use super::beside::Beside;
use super::block::{Block, Tiles};
use super::consumer::Consumer;
use super::lines::{LinesFrom, has_parts};
use super::part::{ADDERS, GROUPS, gradient_of_group, has_query_rows, may_ascend};
use super::sections::Sections;
use super::strips::Buffers;
use super::walk::Walk;
use crate::attention::dropout::Drops;
use crate::attention::modifier::Modifier;

/// Whether the launch may begin beside the one in front of it (PDL), and the next beside it. At depth 64 it takes 0.5 % longer then, and at depth 256 it spills more.
fn overlaps_launches(depth: usize) -> bool {
    !matches!(depth, 64 | 256)
}

/// Registers of a consumer thread, and of a thread of the other warps: those that compute passes of other heads, or keep turns of lists, would spill with 24, and so would those that
/// load and add at the other depths where sums are ordered.
fn registers(depth: usize, has_passes: bool, keeps_turns_of_lists: bool) -> [u32; 2] {
    match depth {
        64 | 128 if !has_passes => [240, 24],
        256 if !keeps_turns_of_lists => [240, 24],
        _ => [232, 40],
    }
}

/// The tensors and numbers of a launch, which do not depend on which queries see a block of keys.
#[derive(Clone, Copy)]
pub(super) struct Tensors<T> {
    /// Q, K, V and dO.
    pub(super) maps: [TensorMap<T>; 4],
    /// dK and dV.
    pub(super) gradients: [TensorMap<T>; 2],
    /// LSE and delta of each row.
    pub(super) lines: LinesFrom,
    /// The accumulator of dQ.
    pub(super) sums: Ptr<f32>,
    pub(super) turns: Ptr<i32>,
    pub(super) sections: Sections,
    /// Passes of other heads, which need sections.
    pub(super) beside: Option<Beside<T>>,
    pub(super) depths: [usize; 2],
    pub(super) is_ordered: bool,
    pub(super) log2_scale: Scalar<f32>,
    pub(super) scale: Scalar<f32>,
    pub(super) drops: Drops,
}

/// Computes dK and dV of a block of keys, and adds the block's terms of dQ.
#[device]
pub(super) fn differentiate<T: Float + WgmmaOperand<T, f32> + MmaOperand<T, f32>, W: Walk>(
    walk: W,
    of: Tensors<T>,
) {
    let depths = of.depths;
    if overlaps_launches(depths[0]) {
        launch_dependents();
        launch_wait();
    }
    let sizes = walk.keys().block;
    // In any order of terms numbers of dropout leave no registers for them, nor do lists beyond depth 128.
    let is_listed = !W::HAS_TWO_EDGES;
    let has_sections =
        of.is_ordered || !(W::Modifier::DROPS || (is_listed && has_query_rows(depths[0])));
    let sections = has_sections.then_some(of.sections);
    let has_ascending_heads = of.is_ordered && W::HAS_TWO_EDGES && may_ascend(depths[0]);
    let takes_ticket = of.is_ordered || of.beside.is_some();
    let block = Block::of_program(
        walk,
        sections,
        of.turns,
        of.is_ordered,
        takes_ticket,
        has_ascending_heads,
    );
    let tiles = Tiles::<T>::alloc(
        depths,
        sizes,
        of.is_ordered,
        of.beside.is_some(),
        has_parts::<W::Modifier>(depths[0]),
        walk.keys().ctas,
    );
    if tiles.exchange.is_some() {
        // Both CTAs have begun, and observe the mbarriers.
        cluster_barrier_relaxed();
    }
    let differentiate = |group: usize| {
        let consumer = Consumer {
            block,
            tiles,
            group,
            sums: of.sums,
            depths,
            log2_scale: of.log2_scale,
            drops: of.drops,
        };
        let gradients = consumer.gradients();
        let parts = depths.map(|columns| gradient_of_group(group, columns, depths[0], sizes[1]));
        // All products have read K and V, whose buffers the gradients reuse.
        tiles.both.sync();
        let [k_rows, v_rows] =
            [(tiles.k, &parts[0]), (tiles.v, &parts[1])].map(|(tile, [keys, columns])| {
                tile.index(0)
                    .slice(0, keys.clone())
                    .slice(1, columns.clone())
            });
        let in_rows = |sums: Tensor<T>| {
            if has_query_rows(depths[0]) {
                sums.transpose()
            } else {
                sums
            }
        };
        v_rows.store(in_rows(gradients.dv.wait_all().cast::<T>()));
        k_rows.store(in_rows((gradients.dk.wait_all() * of.scale).cast::<T>()));
        let [of_dk, of_dv] = parts;
        block.store(of.gradients[1], v_rows, of_dv);
        block.store(of.gradients[0], k_rows, of_dk);
        tma_store_wait_read(0);
    };
    let keeps_turns_of_lists = !W::HAS_TWO_EDGES && tiles.turns.is_some();
    let [of_consumers, of_producer] =
        registers(depths[0], of.beside.is_some(), keeps_turns_of_lists);
    let parts = warp_specialize()
        .registers(of_consumers)
        .main(|| differentiate(0))
        .worker(Warps(4).registers(of_consumers), || differentiate(1))
        .worker(Warps(1).registers(of_producer), || {
            block.load(of.maps, of.lines, tiles, of.beside);
        });
    let parts = match tiles.dq {
        Some(terms) => parts.workers(0..ADDERS, Warps(1).registers(of_producer), |adder| {
            let elements = sizes[0] * depths[0] / GROUPS;
            let head = block.head_of_all();
            if let Some(beside) = of.beside {
                beside.await_rows(head);
            }
            if of.is_ordered {
                block.add_terms_in_order(adder, terms, of.sums, elements);
            } else {
                block.add_terms(adder, terms[adder], of.sums, elements);
            }
            if let Some(beside) = of.beside {
                beside.end_terms(head);
            }
        }),
        None => parts,
    };
    let parts = match tiles.turns {
        Some(turns) if tiles.exchange.is_some() => {
            parts.worker(Warps(1).registers(of_producer), || {
                block.keep_turns(cluster_rank(), turns[0]);
            })
        }
        Some(turns) => parts.workers(0..GROUPS, Warps(1).registers(of_producer), |group| {
            block.keep_turns(Scalar::of(group), turns[group]);
        }),
        None => parts,
    };
    let parts = match of.beside {
        Some(beside) => {
            let shares = has_parts::<W::Modifier>(depths[0]);
            let buffers = Buffers::alloc(depths, sizes[0], shares);
            parts.worker(Warps(1).registers(of_producer), || {
                beside.run(block.head_of_all(), block.number, buffers);
            })
        }
        None => parts,
    };
    parts.run();
}
