//! Attention forward of block-sparse masks: each block of queries sees the blocks of keys of its list.

use std::marker::PhantomData;

use tilekit::prelude::*;

use super::listed::{Listed, Lists};
use crate::attention::dropout::Drops;
use crate::attention::mainloop::attend::attend;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::mainloop::shape::{Rescaling, Shape, swizzle};
use crate::attention::mainloop::softmax::Exponentials;
use crate::attention::mainloop::tiles::Tiles;
use crate::attention::masked::lengths::Lengths;
use crate::attention::masked::spans::{Results, Spans, Window};
use crate::attention::modifier::{Modifier, Plain};
use crate::attention::plan::FAR;

/// [`forward_masked`](crate::attention::masked::kernel::forward_masked) of heads whose tiles see the key blocks of a list. List `batch · list_batch + head · list_head + tile / list_tiles` begins at its
/// number in `starts`: first its partial blocks, `partial / 2`, whose scores are masked by `left`, `right` and `M`, then those that are not masked. Where `partial` is odd, the
/// last of them is seen up to the last key. Each is `list_parts` blocks of `KEYS`. A list
/// without a block of keys has one behind the last key, which is partial.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(
    <bf16, 64, 64, 128, true, Plain>,
    <bf16, 128, 128, 128, true, Plain>,
    <bf16, 192, 128, 64, true, Plain>,
    <bf16, 256, 256, 64, false, Plain>
))]
pub fn forward_blocks<
    T: Float + WgmmaOperand<T, f32>,
    const D: usize,
    const DV: usize,
    const KEYS: usize,
    const TURNS: bool,
    M: Modifier,
>(
    #[block([1, 1, ROWS, 1, D], swizzle::<T>(D, 5))] q: TensorMap<T>,
    #[block([1, 1, KEYS, D], swizzle::<T>(D, 4))] k: TensorMap<T>,
    #[block([1, 1, 1, KEYS, DV], swizzle::<T>(DV, 5))] v: TensorMap<T>,
    #[block([1, 1, ROWS, 1, DV], swizzle::<T>(DV, 5))] out: TensorMap<T>,
    lse: Ptr<f32>,
    counter: Ptr<i32>,
    starts: Ptr<i32>,
    partial: Ptr<i32>,
    blocks: Ptr<i32>,
    #[align(4)] sinks: Ptr<f32>,
    #[align(4)] data: Ptr<f32>,
    batch: i32,
    heads: i32,
    query_heads: i32,
    queries: i32,
    keys: i32,
    has_sinks: i32,
    left: i32,
    right: i32,
    list_batch: i32,
    list_head: i32,
    list_tiles: i32,
    list_parts: i32,
    log2_scale: f32,
    score_scale: f32,
) {
    assume((heads > 0) & (query_heads > 0) & (queries > 0) & (keys > 0));
    assume((list_tiles > 0) & (list_parts > 0));
    let rows = GROUPS * ROWS;
    let spans = Spans {
        maps: [q, k, v, out],
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
        results: Results {
            lse,
            lse_stride: queries,
            sinks,
            has_sinks: has_sinks != 0,
        },
        tiles: Tiles::new(cdiv(queries, rows), heads * batch, scalar(1)),
        heads,
        query_heads,
        log2_scale,
        score_scale,
        data,
        pack: 1,
        masks_all: false,
        tile: [rows, KEYS],
        drops: Drops::new(scalar(0_i64), scalar(0)),
        modifier: PhantomData::<fn() -> M>,
    };
    let problem = Listed {
        spans,
        lists: Lists {
            starts,
            partial,
            blocks,
            strides: [list_batch, list_head],
            tiles: list_tiles,
            parts: list_parts,
        },
    };
    let shape = Shape {
        depth: D,
        values: DV,
        keys: KEYS,
        turns: TURNS,
        rescaling: Rescaling::Always,
        is_triple: false,
        exponentials: Exponentials::Special,
        registers: if D > 128 { [232, 40] } else { [240, 24] },
    };
    attend::<T, Listed<T, M>, GROUPS>(problem, shape, counter);
}

/// Consumer warpgroups.
pub(super) const GROUPS: usize = 2;
