//! Attention forward of heads with as many queries as keys: the instances that are tuned for speed.

use tilekit::prelude::*;

use super::dense::Dense;
use crate::attention::mainloop::attend::attend;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::mainloop::shape::{Rescaling, Shape, swizzle};
use crate::attention::mainloop::softmax::Exponentials;
use crate::attention::mainloop::tiles::Tiles;
use crate::attention::plan::limits_of_section;

/// Registers of a consumer thread, and of a producer thread, for so many consumer warpgroups.
fn registers(groups: usize) -> [u32; 2] {
    match groups {
        3 => [160, 32],
        _ => [240, 24],
    }
}

/// Tokens of a section, and its most heads: as many as [`section_of`](crate::attention::plan::section_of) makes.
const fn section_tokens<T>(depth: usize, is_masked: bool) -> usize {
    if is_masked {
        let row_bytes = 2 * depth * size_of::<T>();
        limits_of_section(row_bytes)[0] / row_bytes
    } else {
        1
    }
}

/// See [`section_tokens`].
const fn section_heads<T>(depth: usize) -> usize {
    limits_of_section(2 * depth * size_of::<T>())[1]
}

/// `counter[0] = 0`: the state before the first launch of [`forward`] and after each.
#[kernel(warps = 1)]
pub fn reset(counter: Ptr<i32>) {
    counter.store(0);
}

/// `out[b, h] = softmax(scale · Q[b, h] · K[b, h / G]ᵀ) · V[b, h / G]` and its LSE, for Q and `out` of `[batch, heads, tokens, D]`; `log2_scale` is
/// `scale · log2(e)`, G is `query_heads`, the query heads of a head of K and V. With `CAUSAL` a query sees the keys up to its own
/// position. With `TURNS` named barriers order the warpgroups' products (ping-pong). Heads of a `section` are computed together; `counter` is 0
/// before and after.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(
    <bf16, 64, 3, 128, false, true>,
    <bf16, 64, 3, 128, true, true>,
    <bf16, 128, 2, 176, false, true>,
    <bf16, 128, 2, 128, true, true>,
    <f16, 128, 2, 176, false, true>,
    <bf16, 256, 2, 80, false, false>,
    <bf16, 256, 2, 64, true, false>
), signature(
    q: [batch, heads, tokens, D],
    k: [batch, kv_heads, tokens, D],
    v: [batch, kv_heads, tokens, D],
    out: [batch, heads, tokens, D],
    lse: [batch, heads, tokens],
    counter: [1],
    query_heads = heads / kv_heads,
    section = min(min(batch * heads, section_heads::<T>(D)), max(1, section_tokens::<T>(D, CAUSAL) / tokens)),
    grid = min(cdiv(tokens, GROUPS * ROWS) * heads * batch, sms),
    requires(heads % kv_heads == 0, tokens > 0),
))]
pub fn forward<
    T: Float + WgmmaOperand<T, f32>,
    const D: usize,
    const GROUPS: usize,
    const KEYS: usize,
    const CAUSAL: bool,
    const TURNS: bool,
>(
    #[block([1, 1, ROWS, D], swizzle::<T>(D, 4))] q: TensorMap<T>,
    #[block([1, 1, KEYS, D], swizzle::<T>(D, 4))] k: TensorMap<T>,
    #[block([1, 1, KEYS, D], swizzle::<T>(D, 4))] v: TensorMap<T>,
    #[block([1, 1, ROWS, D], swizzle::<T>(D, 4))] out: TensorMap<T>,
    lse: Ptr<f32>,
    counter: Ptr<i32>,
    batch: i32,
    heads: i32,
    query_heads: i32,
    tokens: i32,
    section: i32,
    log2_scale: f32,
) {
    assume((heads > 0) & (query_heads > 0) & (tokens > 0));
    let queries = GROUPS * ROWS;
    let problem = Dense {
        maps: [q, k, v],
        out,
        lse,
        tiles: Tiles::new(cdiv(tokens, queries), batch * heads, section),
        heads,
        query_heads,
        tokens,
        log2_scale,
        is_causal: CAUSAL,
        tile: [queries, KEYS],
        descale: None,
    };
    let shape = Shape {
        depth: D,
        values: D,
        keys: KEYS,
        turns: TURNS,
        rescaling: Rescaling::Lazily,
        // A block of depth 256 without a mask waits for its products.
        is_triple: D < 256 || CAUSAL,
        exponentials: Exponentials::Special,
        registers: registers(GROUPS),
    };
    attend::<T, Dense<T, T>, GROUPS>(problem, shape, counter);
}
