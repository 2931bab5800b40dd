//! Attention backward: gradients of Q, K and V, of heads of equally many queries and keys.
//!
//! With S = scale · Q · Kᵀ, P = softmax(S) and the row sums δ = Σ dO · O, the gradients are dV = Pᵀ · dO, dS = P ∘ (dO · Vᵀ - δ),
//! dK = scale · dSᵀ · Q and dQ = scale · dS · K. A CTA owns a block of keys and loops over blocks of queries, so that dK and dV
//! stay in registers. Scores are computed transposed: then P and dS lie in registers as the tensor cores want their left factors. Each
//! block of dQ has terms of many CTAs, which are added in f32 in memory.

use tilekit::prelude::*;

use super::mainloop::{ROWS, swizzle};

/// Consumer warpgroups, each of which owns 64 keys of a block.
const GROUPS: usize = 2;
/// Keys of a block.
pub(super) const KEYS: usize = GROUPS * ROWS;
/// Queries of a block.
const QUERIES: usize = 64;
/// Blocks of Q, of dO, and of dS in shared memory.
const STAGES: usize = 2;

/// Rows of K: the columns of a warpgroup's half of dQ are whole swizzles.
fn swizzle_of_keys<T: Element>(columns: usize, rank: u32) -> Nvmma {
    swizzle::<T>(columns / 2, rank)
}

/// `delta = Σ dout · out` of each row, `log2_sum = lse · log2(e)`, and zeros in `sums`: what [`backward`] reads and adds to. A program for
/// each 16 of `rows`, whose elements follow each other.
#[kernel(warps = 4, instances(<bf16, 64>, <bf16, 128>))]
pub fn backward_begin<T: Float, const D: usize>(
    #[readonly] out: Ptr<T>,
    #[readonly] dout: Ptr<T>,
    #[readonly] lse: Ptr<f32>,
    delta: Ptr<f32>,
    log2_sum: Ptr<f32>,
    sums: Ptr<f32>,
    rows: i32,
) {
    const OF_PROGRAM: usize = 16;
    // 16 bytes of a row each.
    let layout = Blocked::new([1, 8], [256 / D, D / 8], [4, 1], [1, 0]);
    let row = program_id(0) * OF_PROGRAM + arange(0..OF_PROGRAM, Slice::new(1, layout.clone()));
    let column = arange(0..D, Slice::new(0, layout.clone())).expand_dims(0);
    let is_row = (row < rows).expand_dims(1);
    let at = row.expand_dims(1) * D + column;
    let load = |x: Ptr<T>| x.at(at).mask(is_row).other(T::ZERO).load().cast::<f32>();
    let product = load(out) * load(dout);
    delta.at(row).mask(row < rows).store(product.sum(1));
    let sum = lse.at(row).mask(row < rows).load() * LOG2_E;
    log2_sum.at(row).mask(row < rows).store(sum);
    sums.at(at).mask(is_row).store(zeros_like(product));
}

/// `dq = scale · sums`, rounded: what is left when [`backward`] is done. A program for each 1024 elements.
#[kernel(warps = 4, instances(<bf16>))]
pub fn backward_end<T: Float>(#[readonly] sums: Ptr<f32>, dq: Ptr<T>, count: i32, scale: f32) {
    let at = program_id(0) * 1024 + arange(0..1024, Coalesced);
    let of_dq = sums.at(at).mask(at < count).load() * scale;
    dq.at(at).mask(at < count).store(of_dq.cast::<T>());
}

/// dK and dV of a block of keys, and the block's terms of dQ, which are added to `sums`: a program for each block and each head of K and
/// V. Q and dO are `[heads, tokens, D]`; K, V, dK and dV have a head for `query_heads` of theirs. `log2_sum` and `delta` are those of
/// [`backward_begin`]; `log2_scale` is `scale · log2(e)`. With `CAUSAL` a query sees the keys up to its own place.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(
    <bf16, 64, false>,
    <bf16, 64, true>,
    <bf16, 128, false>,
    <bf16, 128, true>
))]
pub fn backward<T: Float + Factor<T, f32>, const D: usize, const CAUSAL: bool>(
    #[block([1, QUERIES, D], swizzle::<T>(D, 3))] q: TensorMap<T>,
    #[block([1, KEYS, D], swizzle_of_keys::<T>(D, 3))] k: TensorMap<T>,
    #[block([1, KEYS, D], swizzle::<T>(D, 3))] v: TensorMap<T>,
    #[block([1, QUERIES, D], swizzle::<T>(D, 3))] dout: TensorMap<T>,
    #[block([1, ROWS, D], swizzle_of_keys::<T>(D, 3))] dk: TensorMap<T>,
    #[block([1, ROWS, D], swizzle::<T>(D, 3))] dv: TensorMap<T>,
    #[readonly] log2_sum: Ptr<f32>,
    #[readonly] delta: Ptr<f32>,
    sums: Ptr<f32>,
    query_heads: i32,
    tokens: i32,
    log2_scale: f32,
    scale: f32,
) {
    assume((tokens > 0) & (query_heads > 0));
    let (first_key, kv_head) = (program_id(0) * KEYS, program_id(1));
    let blocks = cdiv(tokens, QUERIES);
    let first = if CAUSAL {
        first_key / QUERIES
    } else {
        scalar(0)
    };
    // Blocks that cross the diagonal need a mask. Without one, keys behind the last one need it in every block; with one, no query sees
    // them.
    let edge = if CAUSAL {
        minimum(first + KEYS / QUERIES, blocks)
    } else {
        select(first_key + KEYS > tokens, blocks, first)
    };
    let steps = blocks - first;

    let k_tile = Smem::<T>::alloc([1, KEYS, D], swizzle_of_keys::<T>(D, 2));
    let v_tile = Smem::<T>::alloc([1, KEYS, D], swizzle::<T>(D, 2));
    let keys_full = Mbarrier::alloc(1);
    let of_queries = || {
        let tiles = Smem::<T>::alloc([STAGES, QUERIES, D], swizzle::<T>(D, 2));
        Pipeline::new(tiles, Producers::Tma, Consumers::warpgroups(GROUPS))
    };
    let (queries, gradients) = (of_queries(), of_queries());
    let ds_tiles = Smem::<T>::alloc([STAGES, KEYS, QUERIES], swizzle::<T>(QUERIES, 2));
    let ds_full = NamedBarrier::new(GROUPS * 128);

    let differentiate = |group: usize| {
        let [of_scores, of_rows] = [QUERIES, D].map(|n| Wgmma::new([4, 1], [64, n, 16]));
        let of_half = Wgmma::new([4, 1], [64, D / 2, 16]);
        let half = group * D / 2..(group + 1) * D / 2;
        let left = DotOperand::new(0, of_rows.clone(), 2);
        let factor = |x: Tensor<f32>| x.cast::<T>().convert_layout_trivial(left.clone());
        let mine = group * ROWS..(group + 1) * ROWS;
        let [k_rows, v_rows] = [k_tile, v_tile].map(|tile| tile.index(0).slice(0, mine.clone()));
        let key = first_key
            + group * ROWS
            + arange(0..ROWS, Slice::new(1, of_scores.clone())).expand_dims(1);
        let column = arange(0..QUERIES, Slice::new(0, of_scores.clone()));

        keys_full.wait(0);
        let zeros = || Accumulator::<f32>::zeros([ROWS, D], of_rows.clone());
        let (mut of_dk, mut of_dv) = (zeros(), zeros());
        for member in range(0, query_heads) {
            let head = kv_head * query_heads + member;
            let step = |block: Scalar<i32>,
                        is_masked: bool,
                        of_dk: Accumulator<f32>,
                        of_dv: Accumulator<f32>| {
                let count = member * steps + block - first;
                let scores = || Accumulator::<f32>::zeros([ROWS, QUERIES], of_scores.clone());
                let query = block * QUERIES + column;
                let is_query = query < tokens;
                let row = head * tokens + query;
                let of_q = queries.consumer_wait(queries.of_fill(count));
                let s = scores().mma(k_rows, of_q.tiles.transpose());
                let of_dout = gradients.consumer_wait(gradients.of_fill(count));
                let dp = scores().mma(v_rows, of_dout.tiles.transpose());
                // P of rows behind the last one is 2^-inf.
                let sum = log2_sum.at(row).mask(is_query).other(f32::INFINITY).load();
                let load_delta = || delta.at(row).mask(is_query).other(0.0).load();
                // Beside a mask there are registers for it only when the sums are no longer needed.
                let early = (!is_masked).then(load_delta);
                let s = s.wait_older_than(1);
                let s = if is_masked {
                    let seen = if CAUSAL {
                        key <= query.expand_dims(0)
                    } else {
                        key < tokens
                    };
                    select(seen, s, f32::NEG_INFINITY)
                } else {
                    s
                };
                let p = fma(s, log2_scale, -sum.expand_dims(0)).exp2();
                let dp = dp.wait_all();
                let of_dv = of_dv.mma(factor(p), of_dout.tiles);
                let delta = early.unwrap_or_else(load_delta);
                let ds = factor(p * (dp - delta.expand_dims(0)));
                let ds_tile = ds_tiles.index(count % STAGES);
                ds_tile.slice(0, mine.clone()).store(ds);
                fence_async_shared();
                ds_full.sync();
                let of_dk = of_dk.mma(ds, of_q.tiles);
                let dq = Accumulator::<f32>::zeros([QUERIES, D / 2], of_half.clone());
                let columns = k_tile.index(0).slice(1, half.clone());
                let dq = dq.mma(ds_tile.transpose(), columns);
                let of_dv = Accumulator::from_tensor(of_dv.wait_older_than(2));
                gradients.consumer_release(of_dout);
                let dq = dq.wait_all();
                let of_dk = Accumulator::from_tensor(of_dk.wait_all());
                queries.consumer_release(of_q);
                let query = block * QUERIES + arange(0..QUERIES, Slice::new(1, of_half.clone()));
                let column = arange(half.clone(), Slice::new(0, of_half.clone()));
                let at = ((head * tokens + query) * D).expand_dims(1) + column.expand_dims(0);
                let to = sums.at(at).mask((query < tokens).expand_dims(1));
                to.relaxed().atomic_add(dq);
                (of_dk, of_dv)
            };
            for block in range(first, edge) {
                (of_dk, of_dv) = step(block, true, of_dk, of_dv);
            }
            for block in range(edge, blocks) {
                (of_dk, of_dv) = step(block, false, of_dk, of_dv);
            }
        }
        // All products have read K and V, whose places the gradients take.
        ds_full.sync();
        let row = first_key + group * ROWS;
        v_rows.store(of_dv.wait_all().cast::<T>());
        dv.store((kv_head, row, 0), v_rows.reshape(dv.block()));
        k_rows.store((of_dk.wait_all() * scale).cast::<T>());
        dk.store((kv_head, row, 0), k_rows.reshape(dk.block()));
        tma_store_wait_read(0);
    };
    let load = || {
        keys_full.expect(k.block_bytes() + v.block_bytes());
        k.load(
            (kv_head, first_key, 0),
            k_tile.index(0).reshape(k.block()),
            keys_full,
        );
        v.load(
            (kv_head, first_key, 0),
            v_tile.index(0).reshape(v.block()),
            keys_full,
        );
        for member in range(0, query_heads) {
            let head = kv_head * query_heads + member;
            for block in range(first, blocks) {
                let count = member * steps + block - first;
                for (pipeline, map) in [(queries, q), (gradients, dout)] {
                    let stage = pipeline.producer_acquire(pipeline.of_fill(count));
                    let tile = stage.tiles.reshape(map.block());
                    map.load((head, block * QUERIES, 0), tile, stage.full);
                    pipeline.commit(stage);
                }
            }
        }
    };
    warp_specialize()
        .registers(240)
        .main(|| differentiate(0))
        .worker(Warps(4).registers(240), || differentiate(1))
        .worker(Warps(1).registers(24), load)
        .run();
}
