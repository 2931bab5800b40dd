//! Attention backward of any shape: gradients of Q, K and V, for masks, sequences of any lengths, strides, modified scores.
//!
//! With S = f(scale · Q · Kᵀ), P = softmax(S) and the row sums δ = Σ dO · O, the gradients are dV = Pᵀ · dO,
//! dS = P ∘ (dO · Vᵀ - δ) ∘ f', dK = scale · dSᵀ · Q and dQ = scale · dS · K. A CTA owns a block of keys and loops over the blocks of
//! queries that see them, so that dK and dV stay in registers. Up to depth 128 scores are computed transposed: then P and dS are in registers in the layout
//! of operand A of `wgmma` (`step_by_keys.rs`). Beyond, rows of scores are queries, and dK and dV are computed transposed, so that a block may have 96 or 80 keys (`step_by_queries.rs`). Many CTAs contribute to each block
//! of dQ, which is accumulated in f32 in global memory. A warp for each warpgroup adds its terms from
//! shared memory, by bulk copies, so that consumers have registers for the rest; at depth 256, for whose terms shared memory has no place,
//! consumers add from their registers, and two CTAs exchange dS, so that each adds half of the terms (`exchange.rs`).
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

use super::beside::{Beside, has_passes};
use super::differentiate::{Tensors, differentiate};
use super::key_blocks::KeyBlocks;
use super::lines::{LinesFrom, has_parts};
use super::part::{
    ctas_of, is_crowded, keeps_bounds, keys_of, loaded_columns, part_of_gradient, queries_of,
    swizzle_of_keys,
};
use super::sections::Sections;
use super::strips::{ROWS_OF_WARP, Strips};
use crate::attention::dropout::Drops;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::mainloop::shape::swizzle;
use crate::attention::masked::lengths::Lengths;
use crate::attention::masked::spans::Window;
use crate::attention::modifier::{Alibi, Differentiable, Dropped, Plain, Softcap};

/// Computes dK and dV of a block of keys, and adds the block's terms of dQ to `sums`: a program for each block of the longest
/// sequence, each head of K and V, and each batch; at depth 256 without dropout an even number of blocks, of which a cluster has two.
///
/// Q, K, V, dO, dK and dV are `[1, batch, heads, tokens, depth]`; K, V, dK and dV have a head for `query_heads` of theirs; V, dO and dV have rows of `DV`. A query sees keys from `left`
/// before to `right` after its position, within its chunk of `chunk` keys; the last query has the last key's position. With `is_ragged`,
/// batches are sequences one after the other, `query_offsets` and `key_offsets` say where each begins and the last ends, `queries` and
/// `keys` are the longest, and their maps are [with sequences](TensorView::with_sequences). `log2_sum` and `delta`, or `parts` of plain scores at depths 96 and 128, `sums` and `turns` are what [`backward_begin`](super::passes::backward_begin) made: of
/// the blocks of queries of each head, `block_stride` of them, of which `turns` are counted where `ORDERED`. `sections` are the heads of a section; the blocks of keys that one has begun when the next one begins; how many heads ahead row sums and zeros are written, and behind dQ is rounded; and whether the first block of keys has the most steps. What
/// `backward_begin` makes for the first heads, and [`backward_end`](super::passes::backward_end) for the last ones, this kernel makes for the others (at depths 64 and 128, of plain scores): from `out`, dO by
/// 32 rows and `lse`, whose heads are `row_stride` apart, and into `dq`, `dq_strides` apart. `progress` has two counts for each head of K and V, 0 before. Scores are multiplied
/// by `score_scale` where `M` says so, and by `log2_scale` in the exponent of 2; `scale` is the factor of dK and dQ. Weights are dropped as in
/// [`forward_masked`](crate::attention::masked::kernel::forward_masked).
#[kernel(warps = 4, cluster = ctas_of(D, M::DROPS), min_ctas_per_sm = 1, instances(
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
    T: Float + WgmmaOperand<T, f32> + MmaOperand<T, f32>,
    const D: usize,
    const DV: usize,
    const ORDERED: bool,
    M: Differentiable,
>(
    #[block([1, 1, 1, queries_of(D, is_crowded::<M>()), loaded_columns(D, M::DROPS)], swizzle::<T>(D, 5))]
    q: TensorMap<T>,
    #[block([1, 1, 1, keys_of(D, M::DROPS), loaded_columns(D, M::DROPS)], swizzle_of_keys::<T>(D, queries_of(D, is_crowded::<M>()), 5))]
    k: TensorMap<T>,
    #[block([1, 1, 1, keys_of(D, M::DROPS), DV], swizzle::<T>(DV, 5))] v: TensorMap<T>,
    #[block([1, 1, 1, queries_of(D, is_crowded::<M>()), DV / ctas_of(D, M::DROPS)], swizzle::<T>(DV, 5))]
    dout: TensorMap<T>,
    #[block([1, 1, 1, part_of_gradient(D, D, keys_of(D, M::DROPS))[0], part_of_gradient(D, D, keys_of(D, M::DROPS))[1]], swizzle_of_keys::<T>(D, queries_of(D, is_crowded::<M>()), 5))]
    dk: TensorMap<T>,
    #[block([1, 1, 1, part_of_gradient(DV, D, keys_of(D, M::DROPS))[0], part_of_gradient(DV, D, keys_of(D, M::DROPS))[1]], swizzle::<T>(DV, 5))]
    dv: TensorMap<T>,
    log2_sum: Ptr<f32>,
    delta: Ptr<f32>,
    parts: Ptr<bf16>,
    sums: Ptr<f32>,
    turns: Ptr<i32>,
    #[block([1, 1, ROWS_OF_WARP, DV], swizzle::<T>(DV, 4))] out: TensorMap<T>,
    #[block([1, 1, ROWS_OF_WARP, DV], swizzle::<T>(DV, 4))] dout_rows: TensorMap<T>,
    lse: Ptr<f32>,
    dq: Ptr<T>,
    progress: Ptr<i32>,
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
    sections: [i32; 4],
    row_stride: i32,
    log2_scale: f32,
    score_scale: f32,
    scale: f32,
    #[multiple_of(8)] dq_strides: [i64; 3],
    seed: i64,
    dropped: i32,
) {
    assume((query_heads > 0) & (queries > 0) & (keys > 0) & (chunk > 0));
    let [section, lead, ahead, is_causal] = sections;
    assume((section > 0) & (lead > 0) & (block_stride > 0));
    let kv_heads = num_programs(1);
    let block_queries = queries_of(D, is_crowded::<M>());
    let lines = if has_parts::<M>(D) {
        LinesFrom::Parts(parts)
    } else {
        LinesFrom::Numbers([log2_sum, delta])
    };
    let beside = Beside {
        strips: Strips {
            rows: [out, dout_rows],
            lse,
            row_stride,
            lines,
            sums,
            turns: ORDERED.then_some(turns),
            dq,
            strides: dq_strides,
            scale,
            queries,
            depths: [D, DV],
            block: block_queries,
        },
        progress,
        ahead,
        heads: kv_heads * num_programs(2),
        blocks: num_programs(0),
        is_causal: is_causal != 0,
        query_heads: [query_heads, query_heads * kv_heads],
        of_line: block_stride * (block_queries / ROWS),
    };
    let windows = KeyBlocks {
        lengths: Lengths {
            is_ragged: is_ragged != 0,
            offsets: [query_offsets, key_offsets],
            queries,
            keys,
        },
        window: Window { left, right, chunk },
        kv_heads,
        query_heads,
        block_stride,
        score_scale,
        data,
        block: [block_queries, keys_of(D, M::DROPS)],
        ctas: ctas_of(D, M::DROPS),
        keeps_bounds: keeps_bounds(D, M::DROPS),
        modifier: PhantomData::<fn() -> M>,
    };
    let tensors = Tensors {
        maps: [q, k, v, dout],
        gradients: [dk, dv],
        lines,
        sums,
        turns,
        sections: Sections {
            heads: [section, kv_heads * num_programs(2)],
            lead,
            blocks: if ctas_of(D, M::DROPS) > 1 {
                num_clusters(0)
            } else {
                num_programs(0)
            },
        },
        beside: has_passes::<M>(D).then_some(beside),
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
        passes: [$out:expr, $dout_rows:expr, $lse:expr, $dq:expr, $progress:expr],
        ahead: $ahead:expr,
        is_causal: $is_causal:expr,
        row_stride: $row_stride:expr,
        factors: $factors:expr,
        scale: $scale:expr,
        strides_of_dq: $of_dq:expr,
        dropout: $dropout:expr
    ) => {{
        let dropout: Option<Dropout> = $dropout;
        let sections: Plan = $sections;
        let (log2_sum, delta, parts, sums, turns) = $workspace;
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
        (
            $q,
            $k,
            $v,
            $dout,
            $dk,
            $dv,
            log2_sum,
            delta,
            parts,
            sums,
            turns,
            $out,
            $dout_rows,
            $lse,
            $dq,
            $progress,
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
            [
                sections.heads,
                sections.lead,
                $ahead as i32,
                i32::from($is_causal),
            ],
            $row_stride as i32,
            exponent_scale * LOG2_E as f32,
            score_scale,
            $scale,
            $of_dq,
            dropout.map_or(0, |dropout| dropout.seed as i64),
            dropout.map_or(0, |dropout| dropout.threshold() as i32),
        )
    }};
}

pub(super) use backward_arguments;
