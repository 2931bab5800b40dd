//! Attention forward of any shape: masks, sequences of any lengths, strides, modified scores.

use std::marker::PhantomData;

use tilekit::prelude::*;

use super::lengths::Lengths;
use super::spans::{Results, Spans, Window};
use crate::attention::dropout::Drops;
use crate::attention::mainloop::attend::attend;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::mainloop::shape::{Rescaling, Shape, swizzle};
use crate::attention::mainloop::softmax::Exponentials;
use crate::attention::mainloop::tiles::Tiles;
use crate::attention::modifier::{Alibi, Dropped, Modifier, Plain, Softcap};

/// Registers of a consumer thread, and of a producer thread, for so many consumer warpgroups. The producer computes spans too, and
/// would spill with fewer.
fn registers(groups: usize, depth: usize) -> [u32; 2] {
    match (groups, depth) {
        (3, _) => [160, 32],
        (_, 192 | 256) => [232, 40],
        _ => [240, 24],
    }
}

/// `out = softmax(f(Q · Kᵀ)) · V` and its LSE, where `f` is what `M` does to scores, over the span of keys that each query sees.
///
/// Q is `[batch, heads, tokens, PACK, D]`, K `[batch, kv_heads, keys, D]`, V `[1, batch, kv_heads, keys, DV]`, and `out` has rows of `DV`. `PACK` query heads are rows of
/// one tile; `heads` counts packs, and `query_heads` packs of a head of K and V. A query sees keys from `left` before to `right` after
/// its position, within its chunk of `chunk` keys; the last query has the last key's position. With `is_ragged`, batches are concatenated
/// sequences, `query_offsets` and `key_offsets` say where each begins and the last ends, `queries` and `keys` are the longest, and the map
/// of V is one [with sequences](TensorView::with_sequences), that of `out` one [with stored sequences](TensorView::with_stored_sequences). A head has `lse_stride` LSE, one for each token of `out`. Scores are multiplied by `score_scale` where `M` says so, and by `log2_scale` in the exponent of 2. `sinks` has a logit for each
/// query head if `has_sinks`. Heads of a `section` are computed together; `counter` is 0 before and after. Weights whose word of `seed` is
/// below `dropped`, without a sign, are dropped where `M` says so.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(
    <bf16, 64, 64, 3, 128, true, 1, Plain>,
    <bf16, 96, 96, 2, 128, true, 1, Plain>,
    <bf16, 128, 128, 2, 128, true, 1, Plain>,
    <bf16, 192, 128, 2, 112, true, 1, Plain>,
    <bf16, 256, 256, 2, 64, false, 1, Plain>,
    <bf16, 128, 128, 2, 128, true, 8, Plain>,
    <bf16, 128, 128, 2, 128, true, 1, Softcap>,
    <bf16, 128, 128, 2, 128, true, 1, Alibi>,
    <bf16, 64, 64, 2, 128, true, 1, Alibi>,
    <bf16, 64, 64, 2, 128, true, 1, Dropped<Plain>>,
    <bf16, 128, 128, 2, 128, true, 1, Dropped<Plain>>,
    <bf16, 192, 128, 2, 96, true, 1, Dropped<Plain>>,
    <f16, 128, 128, 2, 128, true, 1, Plain>
))]
pub fn forward_masked<
    T: Float + WgmmaOperand<T, f32>,
    const D: usize,
    const DV: usize,
    const GROUPS: usize,
    const KEYS: usize,
    const TURNS: bool,
    const PACK: usize,
    M: Modifier,
>(
    #[block([1, 1, ROWS / PACK, PACK, D], swizzle::<T>(D, 5))] q: TensorMap<T>,
    #[block([1, 1, KEYS, D], swizzle::<T>(D, 4))] k: TensorMap<T>,
    #[block([1, 1, 1, KEYS, DV], swizzle::<T>(DV, 5))] v: TensorMap<T>,
    #[block([1, 1, ROWS / PACK, PACK, DV], swizzle::<T>(DV, 5))] out: TensorMap<T>,
    lse: Ptr<f32>,
    counter: Ptr<i32>,
    #[align(4)] query_offsets: Ptr<i32>,
    #[align(4)] key_offsets: Ptr<i32>,
    #[align(4)] sinks: Ptr<f32>,
    #[align(4)] data: Ptr<f32>,
    batch: i32,
    heads: i32,
    query_heads: i32,
    queries: i32,
    keys: i32,
    is_ragged: i32,
    has_sinks: i32,
    left: i32,
    right: i32,
    chunk: i32,
    section: i32,
    log2_scale: f32,
    score_scale: f32,
    lse_stride: i32,
    seed: i64,
    dropped: i32,
) {
    assume((heads > 0) & (query_heads > 0) & (queries > 0) & (keys > 0) & (chunk > 0));
    let rows = GROUPS * ROWS;
    let problem = Spans {
        maps: [q, k, v, out],
        lengths: Lengths {
            is_ragged: is_ragged != 0,
            offsets: [query_offsets, key_offsets],
            queries,
            keys,
        },
        window: Window { left, right, chunk },
        results: Results {
            lse,
            lse_stride,
            sinks,
            has_sinks: has_sinks != 0,
        },
        tiles: Tiles::new(cdiv(queries * PACK, rows), heads * batch, section),
        heads,
        query_heads,
        log2_scale,
        score_scale,
        data,
        pack: PACK,
        masks_all: DV > 128 && M::DROPS,
        tile: [rows, KEYS],
        drops: Drops::new(seed, dropped),
        modifier: PhantomData::<fn() -> M>,
    };
    let shape = Shape {
        depth: D,
        values: DV,
        keys: KEYS,
        turns: TURNS,
        rescaling: if matches!(D, 64 | 256) {
            Rescaling::Lazily
        } else {
            Rescaling::Always
        },
        // Not measured at depth 96, and depth 256 would spill.
        is_triple: matches!(D, 64 | 128 | 192),
        exponentials: Exponentials::Special,
        registers: registers(GROUPS, D),
    };
    attend::<T, Spans<T, M>, GROUPS>(problem, shape, counter);
}

/// The arguments of [`forward_masked`], from those of a call.
macro_rules! masked_arguments {
    (
        maps: [$q:expr, $k:expr, $v:expr, $out:expr],
        results: [$lse:expr, $counter:expr],
        offsets: [$query_offsets:expr, $key_offsets:expr],
        data: [$sinks:expr, $data:expr],
        numbers: $numbers:expr,
        flags: [$is_ragged:expr, $has_sinks:expr],
        factors: $factors:expr,
        lse_stride: $lse_stride:expr,
        dropout: $dropout:expr
    ) => {{
        let dropout: Option<Dropout> = $dropout;
        let Numbers {
            batch,
            heads,
            query_heads,
            queries,
            keys,
            left,
            right,
            chunk,
            section,
            ..
        } = $numbers;
        let [score_scale, exponent_scale]: [f32; 2] = $factors;
        (
            $q,
            $k,
            $v,
            $out,
            $lse,
            $counter,
            $query_offsets,
            $key_offsets,
            $sinks,
            $data,
            batch,
            heads,
            query_heads,
            queries,
            keys,
            i32::from($is_ragged),
            i32::from($has_sinks),
            left,
            right,
            chunk,
            section,
            exponent_scale * LOG2_E as f32,
            score_scale,
            $lse_stride as i32,
            dropout.map_or(0, |dropout| dropout.seed as i64),
            dropout.map_or(0, |dropout| dropout.threshold() as i32),
        )
    }};
}

pub(in crate::attention) use masked_arguments;
