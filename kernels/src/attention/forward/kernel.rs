//! Attention forward of heads with as many queries as keys: the instances that are tuned for speed.

use tilekit::prelude::*;

use super::dense::Dense;
use crate::attention::mainloop::attend::{Rescaling, Shape, attend, swizzle};
use crate::attention::mainloop::problem::ROWS;
use crate::attention::mainloop::softmax::Exponentials;
use crate::attention::mainloop::tiles::Tiles;
use crate::attention::plan::section_bytes;

/// Registers of a consumer thread, and of a producer thread, for so many consumer warpgroups.
fn registers(groups: usize) -> [u32; 2] {
    match groups {
        3 => [160, 32],
        _ => [240, 24],
    }
}

/// Keys and values of a section, in tokens of one head: as many sections of a head as [`section_of_rows`](crate::attention::plan::section_of_rows) makes.
const fn section_tokens<T>(depth: usize, is_masked: bool) -> usize {
    if is_masked {
        let row_bytes = depth * size_of::<T>();
        section_bytes(row_bytes) / (2 * row_bytes)
    } else {
        1
    }
}

/// `counter[0] = 0`: the state before the first launch of [`forward`] and after each.
#[kernel(warps = 1)]
pub fn reset(counter: Ptr<i32>) {
    counter.store(0);
}

/// `out[h] = softmax(scale · Q[h] · K[h / G]ᵀ) · V[h / G]` and its LSE, for Q and `out` of `[heads, tokens, D]`; `log2_scale` is
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
    q: [heads, tokens, D],
    k: [kv_heads, tokens, D],
    v: [kv_heads, tokens, D],
    out: [heads, tokens, D],
    lse: [heads, tokens],
    counter: [1],
    query_heads = heads / kv_heads,
    section = min(heads, max(1, section_tokens::<T>(D, CAUSAL) / tokens)),
    grid = min(cdiv(tokens, GROUPS * ROWS) * heads, sms),
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
    #[block([1, ROWS, D], swizzle::<T>(D, 3))] q: TensorMap<T>,
    #[block([1, KEYS, D], swizzle::<T>(D, 3))] k: TensorMap<T>,
    #[block([1, KEYS, D], swizzle::<T>(D, 3))] v: TensorMap<T>,
    #[block([1, ROWS, D], swizzle::<T>(D, 3))] out: TensorMap<T>,
    lse: Ptr<f32>,
    counter: Ptr<i32>,
    heads: i32,
    query_heads: i32,
    tokens: i32,
    section: i32,
    log2_scale: f32,
) {
    assume(tokens > 0);
    let queries = GROUPS * ROWS;
    let problem = Dense {
        maps: [q, k, v],
        out,
        lse,
        tiles: Tiles::new(cdiv(tokens, queries), heads, section),
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
