//! Attention backward of block-sparse masks: each block of keys is seen by the blocks of queries of its list.

use std::marker::PhantomData;

use tilekit::prelude::*;

use super::differentiate::{Tensors, differentiate};
use super::key_blocks::KeyBlocks;
use super::lines::{LinesFrom, has_parts};
use super::listed::{Listed, QueryLists};
use super::part::{
    is_crowded, keeps_bounds, listed_keys_of, part_of_gradient, queries_of, swizzle_of_keys,
};
use super::sections::Sections;
use crate::attention::dropout::Drops;
use crate::attention::mainloop::shape::swizzle;
use crate::attention::masked::lengths::Lengths;
use crate::attention::masked::spans::Window;
use crate::attention::modifier::{Differentiable, Plain};
use crate::attention::plan::FAR;

/// [`backward`](super::kernel::backward) of heads whose blocks of keys are seen by the blocks of queries of a list. List `batch · list_batch + block · list_block + head · list_head`, of block
/// `program / list_ctas`, begins at its number in `starts`: first its partial blocks, `partial`, whose scores are masked by `left`, `right` and `M`, then those that are
/// not masked. Each is `list_parts` steps. `ranks` has how many blocks of keys in front of the list's own each of them sees. Lists of heads lie one behind the other. Sections are as there.
/// `log2_sum`, `delta`, `parts`, `sums` and `turns` have blocks up to the end of the last block of the mask.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(
    <bf16, 64, 64, false, Plain>,
    <bf16, 128, 128, false, Plain>,
    <bf16, 192, 128, false, Plain>,
    <bf16, 256, 256, false, Plain>
))]
pub fn backward_blocks<
    T: Float + WgmmaOperand<T, f32> + MmaOperand<T, f32>,
    const D: usize,
    const DV: usize,
    const ORDERED: bool,
    M: Differentiable,
>(
    #[block([1, 1, 1, queries_of(D, is_crowded::<M>()), D], swizzle::<T>(D, 5))] q: TensorMap<T>,
    #[block([1, 1, 1, listed_keys_of(D), D], swizzle_of_keys::<T>(D, queries_of(D, is_crowded::<M>()), 5))]
    k: TensorMap<T>,
    #[block([1, 1, 1, listed_keys_of(D), DV], swizzle::<T>(DV, 5))] v: TensorMap<T>,
    #[block([1, 1, 1, queries_of(D, is_crowded::<M>()), DV], swizzle::<T>(DV, 5))] dout: TensorMap<
        T,
    >,
    #[block([1, 1, 1, part_of_gradient(D, D, listed_keys_of(D))[0], part_of_gradient(D, D, listed_keys_of(D))[1]], swizzle_of_keys::<T>(D, queries_of(D, is_crowded::<M>()), 5))]
    dk: TensorMap<T>,
    #[block([1, 1, 1, part_of_gradient(DV, D, listed_keys_of(D))[0], part_of_gradient(DV, D, listed_keys_of(D))[1]], swizzle::<T>(DV, 5))]
    dv: TensorMap<T>,
    log2_sum: Ptr<f32>,
    delta: Ptr<f32>,
    parts: Ptr<bf16>,
    sums: Ptr<f32>,
    turns: Ptr<i32>,
    starts: Ptr<i32>,
    partial: Ptr<i32>,
    blocks: Ptr<i32>,
    ranks: Ptr<i32>,
    #[align(4)] data: Ptr<f32>,
    query_heads: i32,
    queries: i32,
    keys: i32,
    left: i32,
    right: i32,
    block_stride: i32,
    section: i32,
    lead: i32,
    list_batch: i32,
    list_block: i32,
    list_head: i32,
    list_parts: i32,
    list_ctas: i32,
    log2_scale: f32,
    score_scale: f32,
    scale: f32,
) {
    assume((query_heads > 0) & (queries > 0) & (keys > 0));
    assume((list_parts > 0) & (list_ctas > 0) & (section > 0) & (lead > 0));
    let block_queries = queries_of(D, is_crowded::<M>());
    let keys = KeyBlocks {
        lengths: Lengths {
            is_ragged: scalar(false),
            offsets: [starts, starts],
            queries,
            keys,
        },
        window: Window {
            left,
            right,
            chunk: scalar(FAR),
        },
        kv_heads: num_programs(1),
        query_heads,
        block_stride,
        score_scale,
        data,
        block: [block_queries, listed_keys_of(D)],
        ctas: 1,
        keeps_bounds: keeps_bounds(D, M::DROPS),
        modifier: PhantomData::<fn() -> M>,
    };
    let lists = QueryLists {
        starts,
        partial,
        blocks,
        ranks,
        strides: [list_batch, list_block, list_head],
        parts: [list_parts, list_ctas],
    };
    let tensors = Tensors {
        maps: [q, k, v, dout],
        gradients: [dk, dv],
        lines: if has_parts::<M>(D) {
            LinesFrom::Parts(parts)
        } else {
            LinesFrom::Numbers([log2_sum, delta])
        },
        sums,
        turns,
        sections: Sections {
            heads: [section, num_programs(1) * num_programs(2)],
            lead,
            blocks: num_programs(0),
        },
        beside: None,
        depths: [D, DV],
        is_ordered: ORDERED,
        log2_scale,
        scale,
        drops: Drops::new(scalar(0_i64), scalar(0)),
    };
    differentiate(Listed { keys, lists }, tensors);
}
