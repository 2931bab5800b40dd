//! Attention backward of any shape: gradients of Q, K and V, for masks, sequences of any lengths, strides, modified scores.
//!
//! With S = f(scale · Q · Kᵀ), P = softmax(S) and the row sums δ = Σ dO · O, the gradients are dV = Pᵀ · dO,
//! dS = P ∘ (dO · Vᵀ - δ) ∘ f', dK = scale · dSᵀ · Q and dQ = scale · dS · K. A CTA owns a block of keys and loops over the blocks of
//! queries that see them, so that dK and dV stay in registers. Up to depth 128 scores are computed transposed: then P and dS are in registers in the layout
//! of operand A of `wgmma` (`step_by_keys.rs`). Beyond, rows of scores are queries, and dK and dV are computed transposed, so that a block may have 96 or 80 keys (`step_by_queries.rs`). Many CTAs contribute to each block
//! of dQ, which is accumulated in f32 in global memory. A warp for each warpgroup adds its terms from
//! shared memory, by bulk copies, so that consumers have registers for the rest; at depth 256, for whose terms shared memory has no place,
//! consumers add from their registers.
//!
//! Atomic additions come in any order, so the last bits of dQ vary between runs. If `ORDERED`, each block of dQ has a counter of the terms it
//! has, and a CTA adds its own after those of all preceding blocks of keys. It takes its block of keys by a ticket, and tickets of a head follow the order of its terms, in whatever order heads take
//! turns (`sections.rs`). So a CTA waits only for CTAs with lower tickets, which have begun, and of those that run, the one with the lowest ticket waits for none: there is no deadlock, however many CTAs
//! are resident. A head's CTAs visit blocks of queries in descending order then: with a causal mask, too,
//! all of them begin at the same block, follow at a distance of a few blocks, and wait once. Or, with a mask at depth 192, in ascending order, those of the last block of keys first, and none waits (`sections.rs`). The warps
//! that add wait until terms are added, so that consumers only wait for their buffer (`terms.rs`). Where shared memory has no place for
//! terms, consumers add from their registers, and a warp for each warpgroup waits for its turn and counts what has been added (`turns.rs`).

use std::marker::PhantomData;

use tilekit::prelude::*;

use super::block::Rows;
use super::differentiate::{Tensors, differentiate};
use super::key_blocks::KeyBlocks;
use super::part::{
    is_crowded, keeps_bounds, keys_of, part_of_gradient, queries_of, swizzle_of_keys,
};
use super::sections::Sections;
use crate::attention::dropout::Drops;
use crate::attention::mainloop::attend::swizzle;
use crate::attention::masked::spans::{Lengths, Window};
use crate::attention::modifier::{Alibi, Differentiable, Dropped, Plain, Softcap};

/// Computes dK and dV of a block of keys, and adds the block's terms of dQ to `sums`: a program for each block of the longest
/// sequence, each head of K and V, and each batch.
///
/// Q and dO are `[batch, heads, tokens, depth]`; K, V, dK and dV have a head for `query_heads` of theirs; V, dO and dV have rows of `DV`. A query sees keys from `left`
/// before to `right` after its position, within its chunk of `chunk` keys; the last query has the last key's position. With `is_ragged`,
/// batches are sequences one after the other, `query_offsets` and `key_offsets` say where each begins and the last ends, and `queries` and
/// `keys` are the longest. `log2_sum`, `delta`, `sums` and `turns` are what [`backward_begin`](super::passes::backward_begin) made: of
/// the blocks of queries of each head, `block_stride` of them, of which `turns` are counted where `ORDERED`. Heads are in sections of `section`, and one begins when the one before it has
/// begun `lead` of its blocks of keys (up to depth 128, or where `ORDERED`). Scores are multiplied
/// by `score_scale` where `M` says so, and by `log2_scale` in the exponent of 2; `scale` is the factor of dK. `dk_rows` and `dv_rows`
/// are `dk` and `dv`, whose heads and tokens are these strides apart. Weights are dropped as in
/// [`forward_masked`](crate::attention::masked::kernel::forward_masked).
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(
    <bf16, 64, 64, false, Plain>,
    <bf16, 64, 64, true, Plain>,
    <bf16, 96, 96, false, Plain>,
    <bf16, 96, 96, true, Plain>,
    <bf16, 128, 128, false, Plain>,
    <bf16, 128, 128, true, Plain>,
    <bf16, 192, 128, false, Plain>,
    <bf16, 192, 128, true, Plain>,
    <bf16, 256, 256, false, Plain>,
    <bf16, 256, 256, true, Plain>,
    <bf16, 128, 128, false, Softcap>,
    <bf16, 128, 128, false, Alibi>,
    <bf16, 64, 64, false, Dropped<Plain>>,
    <bf16, 128, 128, false, Dropped<Plain>>,
    <bf16, 192, 128, false, Dropped<Plain>>,
    <bf16, 256, 256, false, Dropped<Plain>>,
    <f16, 128, 128, false, Plain>
))]
pub fn backward<
    T: Float + WgmmaOperand<T, f32>,
    const D: usize,
    const DV: usize,
    const ORDERED: bool,
    M: Differentiable,
>(
    #[block([1, 1, queries_of(D, is_crowded::<M>()), D], swizzle::<T>(D, 4))] q: TensorMap<T>,
    #[block([1, 1, keys_of(D, M::DROPS), D], swizzle_of_keys::<T>(D, queries_of(D, is_crowded::<M>()), 4))]
    k: TensorMap<T>,
    #[block([1, 1, keys_of(D, M::DROPS), DV], swizzle::<T>(DV, 4))] v: TensorMap<T>,
    #[block([1, 1, queries_of(D, is_crowded::<M>()), DV], swizzle::<T>(DV, 4))] dout: TensorMap<T>,
    #[block([1, 1, part_of_gradient(D, D, keys_of(D, M::DROPS))[0], part_of_gradient(D, D, keys_of(D, M::DROPS))[1]], swizzle_of_keys::<T>(D, queries_of(D, is_crowded::<M>()), 4))]
    dk: TensorMap<T>,
    #[block([1, 1, part_of_gradient(DV, D, keys_of(D, M::DROPS))[0], part_of_gradient(DV, D, keys_of(D, M::DROPS))[1]], swizzle::<T>(DV, 4))]
    dv: TensorMap<T>,
    dk_rows: Ptr<T>,
    dv_rows: Ptr<T>,
    #[readonly] log2_sum: Ptr<f32>,
    #[readonly] delta: Ptr<f32>,
    sums: Ptr<f32>,
    turns: Ptr<i32>,
    #[align(4)] query_offsets: Ptr<i32>,
    #[align(4)] key_offsets: Ptr<i32>,
    #[align(4)] data: Ptr<f32>,
    query_heads: i32,
    queries: i32,
    keys: i32,
    is_ragged: i32,
    left: i32,
    right: i32,
    chunk: i32,
    block_stride: i32,
    section: i32,
    lead: i32,
    log2_scale: f32,
    score_scale: f32,
    scale: f32,
    #[multiple_of(8)] dk_head_stride: i64,
    #[multiple_of(8)] dk_token_stride: i64,
    #[multiple_of(8)] dv_head_stride: i64,
    #[multiple_of(8)] dv_token_stride: i64,
    seed: i64,
    dropped: i32,
) {
    assume((query_heads > 0) & (queries > 0) & (keys > 0) & (chunk > 0));
    assume((section > 0) & (lead > 0));
    let block_queries = queries_of(D, is_crowded::<M>());
    let windows = KeyBlocks {
        lengths: Lengths {
            is_ragged: is_ragged != 0,
            offsets: [query_offsets, key_offsets],
            queries,
            keys,
        },
        window: Window { left, right, chunk },
        kv_heads: num_programs(1),
        query_heads,
        block_stride,
        score_scale,
        data,
        block: [block_queries, keys_of(D, M::DROPS)],
        keeps_bounds: keeps_bounds(D, M::DROPS),
        modifier: PhantomData::<fn() -> M>,
    };
    let tensors = Tensors {
        maps: [q, k, v, dout],
        gradients: [
            Rows {
                map: dk,
                to: dk_rows,
                strides: [dk_head_stride, dk_token_stride],
            },
            Rows {
                map: dv,
                to: dv_rows,
                strides: [dv_head_stride, dv_token_stride],
            },
        ],
        lines: [log2_sum, delta],
        sums,
        turns,
        sections: Sections {
            heads: [section, num_programs(1) * num_programs(2)],
            lead,
            blocks: num_programs(0),
        },
        depths: [D, DV],
        is_ordered: ORDERED,
        log2_scale,
        scale,
        drops: Drops::new(seed, dropped),
    };
    differentiate(windows, tensors);
}

/// The arguments of [`backward`], from those of a call.
macro_rules! backward_arguments {
    (
        maps: [$q:expr, $k:expr, $v:expr, $dout:expr, $dk:expr, $dv:expr],
        workspace: $workspace:expr,
        offsets: [$query_offsets:expr, $key_offsets:expr],
        data: $data:expr,
        numbers: $numbers:expr,
        is_ragged: $is_ragged:expr,
        block_stride: $block_stride:expr,
        sections: $sections:expr,
        factors: $factors:expr,
        scale: $scale:expr,
        strides: [$of_dk:expr, $of_dv:expr],
        dropout: $dropout:expr
    ) => {{
        let dropout: Option<Dropout> = $dropout;
        let sections: Plan = $sections;
        let (log2_sum, delta, sums, turns) = $workspace;
        let Numbers {
            query_heads,
            queries,
            keys,
            left,
            right,
            chunk,
            ..
        } = $numbers;
        let [score_scale, exponent_scale]: [f32; 2] = $factors;
        let [of_dk, of_dv]: [[usize; 2]; 2] = [$of_dk, $of_dv];
        (
            $q,
            $k,
            $v,
            $dout,
            $dk,
            $dv,
            $dk,
            $dv,
            log2_sum,
            delta,
            sums,
            turns,
            $query_offsets,
            $key_offsets,
            $data,
            query_heads,
            queries,
            keys,
            i32::from($is_ragged),
            left,
            right,
            chunk,
            $block_stride as i32,
            sections.heads,
            sections.lead,
            exponent_scale * LOG2_E as f32,
            score_scale,
            $scale,
            of_dk[0] as i64,
            of_dk[1] as i64,
            of_dv[0] as i64,
            of_dv[1] as i64,
            dropout.map_or(0, |dropout| dropout.seed as i64),
            dropout.map_or(0, |dropout| dropout.threshold() as i32),
        )
    }};
}

pub(super) use backward_arguments;
