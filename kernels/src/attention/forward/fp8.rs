//! Attention forward of 8-bit floats, for heads with as many queries as keys.

use tilekit::prelude::*;

use super::dense::Dense;
use super::descale::Descale;
use crate::attention::mainloop::attend::attend;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::mainloop::shape::{Rescaling, Shape, swizzle};
use crate::attention::mainloop::softmax::Exponentials;
use crate::attention::mainloop::tiles::Tiles;

/// Registers of a consumer thread, and of a producer thread. A warpgroup more, which transposes V, has the rest.
const REGISTERS: [u32; 2] = [224, 24];

/// Columns of the output that are stored at a time: all, where shared memory has a place for them.
const fn stored(depth: usize, keys: usize) -> usize {
    if depth == 256 && keys > 64 {
        depth / 2
    } else {
        depth
    }
}

/// [`forward`](super::kernel::forward) of e4m3 into bf16. Elements of Q, K and V are multiplied by the factors of their heads, of which
/// `q_factors` has one for each head of Q, `k_factors` and `v_factors` for each head of K and V. P is rounded to e4m3 as well, 2^4 times as
/// large, and the accumulator is rescaled only where a maximum has grown by 2^4, so that P is at most 256. With `TURNS` named barriers order the
/// warpgroups' products (ping-pong).
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(
    <64, 2, 128, false, false>,
    <64, 2, 128, true, false>,
    <128, 2, 192, false, false>,
    <128, 2, 128, true, true>,
    <256, 2, 96, false, false>,
    <256, 2, 96, true, false>
))]
pub fn forward_fp8<
    const D: usize,
    const GROUPS: usize,
    const KEYS: usize,
    const CAUSAL: bool,
    const TURNS: bool,
>(
    #[block([1, 1, ROWS, D], swizzle::<E4m3>(D, 4))] q: TensorMap<E4m3>,
    #[block([1, 1, KEYS, D], swizzle::<E4m3>(D, 4))] k: TensorMap<E4m3>,
    #[block([1, 1, KEYS, D], swizzle::<E4m3>(D, 4))] v: TensorMap<E4m3>,
    #[block([1, 1, ROWS, stored(D, KEYS)], swizzle::<bf16>(stored(D, KEYS), 4))] out: TensorMap<
        bf16,
    >,
    lse: Ptr<f32>,
    counter: Ptr<i32>,
    q_factors: Ptr<f32>,
    k_factors: Ptr<f32>,
    v_factors: Ptr<f32>,
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
        descale: Some(Descale([q_factors, k_factors, v_factors])),
    };
    let shape = Shape {
        depth: D,
        values: D,
        keys: KEYS,
        turns: TURNS,
        // Where blocks of 192 keys wait for P · V in front of the exponentials, they take 1.03 of the time (bench/results/attention.md, "One vote in front of shuffles and rescaling").
        rescaling: if D == 128 && !CAUSAL {
            Rescaling::LazilyLater
        } else {
            Rescaling::Lazily
        },
        is_triple: true,
        // At depth 64 ex2 takes twice as long as the products, and at 128 the diagonal has scores that no product needs. Full blocks of depth 128 lose in single launches what they gain back to back
        // (bench/results/attention.md, "Exponentials of e4m3 on the FMA pipes").
        exponentials: if D == 64 || (D == 128 && CAUSAL) {
            Exponentials::QuarterOnFma
        } else {
            Exponentials::Special
        },
        registers: REGISTERS,
    };
    attend::<E4m3, Dense<E4m3, bf16>, GROUPS>(problem, shape, counter);
}
