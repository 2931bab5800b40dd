//! Attention backward of any shape: gradients of Q, K and V, for masks, sequences of any lengths, strides, modified scores.
//!
//! With S = f(scale · Q · Kᵀ), P = softmax(S) and the row sums δ = Σ dO · O, the gradients are dV = Pᵀ · dO,
//! dS = P ∘ (dO · Vᵀ - δ) ∘ f', dK = scale · dSᵀ · Q and dQ = scale · dS · K. A CTA owns a block of keys and loops over the blocks of
//! queries that see them, so that dK and dV stay in registers. Scores are computed transposed: then P and dS are in registers in the layout
//! of operand A of `wgmma`. Many CTAs contribute to each block of dQ, which is accumulated in f32 in global memory.
//!
//! Atomic additions come in any order, so the last bits of dQ vary between runs. If `ORDERED`, each block of dQ has a counter of the terms it
//! has, and a CTA adds its own after those of all preceding blocks of keys. A CTA waits only for CTAs with lower numbers; numbers
//! are drawn from a ticket, so those CTAs are already resident. Every CTA visits blocks of queries in ascending order: the CTAs of a head follow at a
//! distance of one or two blocks, and wait once.

use std::marker::PhantomData;

use tilekit::prelude::*;

use super::key_blocks::{KeyBlocks, Seeing, Unmasked, store_rows};
use super::mainloop::swizzle;
use super::modifier::{Alibi, Differentiable, Plain, Softcap};
use super::problem::ROWS;
use super::spans::{Lengths, Window};

/// Consumer warpgroups, each of which owns 64 keys of a block.
pub(super) const GROUPS: usize = 2;
/// Keys of a block.
pub(super) const KEYS: usize = GROUPS * ROWS;
/// Queries of a block.
pub(super) const QUERIES: usize = 64;
/// Blocks of Q, of dO, and of dS in shared memory.
const STAGES: usize = 2;

/// Blocks of queries of a head that have rows in the workspace: each of several sequences begins a block of its own.
pub(super) fn block_stride(queries: usize, sequences: usize, is_ragged: bool) -> usize {
    if is_ragged {
        queries / QUERIES + sequences
    } else {
        queries.div_ceil(QUERIES)
    }
}

/// The shared layout of K: the columns of a warpgroup's half of dQ are a multiple of the swizzle's width.
fn swizzle_of_keys<T: Element>(columns: usize, rank: u32) -> Nvmma {
    swizzle::<T>(columns / 2, rank)
}

/// The layout of one half of a block of dQ, `[QUERIES, columns]`, in a warpgroup: a thread has four contiguous elements,
/// which one vector `red` adds.
#[device]
pub(super) fn in_order_of_threads(dq: Tensor<f32>, columns: usize) -> Tensor<f32> {
    let parts = dq.reshape([4, 2, 8, columns / 8, 4, 2]);
    let parts = parts.permute([3, 0, 2, 4, 1, 5]);
    parts.reshape([QUERIES * columns])
}

/// Computes dK and dV of a block of keys, and adds the block's terms of dQ to `sums`: a program for each block of the longest
/// sequence, each head of K and V, and each batch.
///
/// Q and dO are `[batch, heads, tokens, depth]`; K, V, dK and dV have a head for `query_heads` of theirs. A query sees keys from `left`
/// before to `right` after its position, within its chunk of `chunk` keys; the last query has the last key's position. With `is_ragged`,
/// batches are sequences one after the other, `query_offsets` and `key_offsets` say where each begins and the last ends, and `queries` and
/// `keys` are the longest. `log2_sum`, `delta`, `sums` and `turns` are what [`backward_begin`](super::backward_passes::backward_begin) made: of
/// the blocks of queries of each head, `block_stride` of them, of which `turns` are counted where `ORDERED`. Scores are multiplied
/// by `score_scale` where `M` says so, and by `log2_scale` in the exponent of 2; `scale` is the factor of dK. `dk_rows` and `dv_rows`
/// are `dk` and `dv`, whose heads and tokens are these strides apart.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(
    <bf16, 64, false, Plain>,
    <bf16, 64, true, Plain>,
    <bf16, 128, false, Plain>,
    <bf16, 128, true, Plain>,
    <bf16, 128, false, Softcap>,
    <bf16, 128, false, Alibi>,
    <f16, 128, false, Plain>
))]
pub fn backward<
    T: Float + WgmmaOperand<T, f32>,
    const D: usize,
    const ORDERED: bool,
    M: Differentiable,
>(
    #[block([1, 1, QUERIES, D], swizzle::<T>(D, 4))] q: TensorMap<T>,
    #[block([1, 1, KEYS, D], swizzle_of_keys::<T>(D, 4))] k: TensorMap<T>,
    #[block([1, 1, KEYS, D], swizzle::<T>(D, 4))] v: TensorMap<T>,
    #[block([1, 1, QUERIES, D], swizzle::<T>(D, 4))] dout: TensorMap<T>,
    #[block([1, 1, ROWS, D], swizzle_of_keys::<T>(D, 4))] dk: TensorMap<T>,
    #[block([1, 1, ROWS, D], swizzle::<T>(D, 4))] dv: TensorMap<T>,
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
    log2_scale: f32,
    score_scale: f32,
    scale: f32,
    #[multiple_of(8)] dk_head_stride: i64,
    #[multiple_of(8)] dk_token_stride: i64,
    #[multiple_of(8)] dv_head_stride: i64,
    #[multiple_of(8)] dv_token_stride: i64,
) {
    assume((query_heads > 0) & (queries > 0) & (keys > 0) & (chunk > 0));
    let (key_blocks, kv_heads) = (num_programs(0), num_programs(1));
    let problem = KeyBlocks {
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
        block: [QUERIES, KEYS],
        modifier: PhantomData::<fn() -> M>,
    };
    let (number, kv_head, batch) = if ORDERED {
        let ticket = turns.at(0).relaxed().atomic_add(1).old();
        let head = ticket / key_blocks;
        (ticket % key_blocks, head % kv_heads, head / kv_heads)
    } else {
        (program_id(0), program_id(1), program_id(2))
    };
    let at = problem.block(number, batch);
    let seeing = problem.seeing(at);
    let Seeing { first, end } = seeing;
    let steps = end - first;

    let k_tile = Smem::<T>::alloc([1, KEYS, D], swizzle_of_keys::<T>(D, 2));
    let v_tile = Smem::<T>::alloc([1, KEYS, D], swizzle::<T>(D, 2));
    let keys_full = Mbarrier::alloc(1);
    let of_queries = || {
        let tiles = Smem::<T>::alloc([STAGES, QUERIES, D], swizzle::<T>(D, 2));
        let lines = Smem::<f32>::alloc([STAGES, QUERIES], Swizzled::plain([0]));
        Pipeline::new(
            (tiles, lines),
            Producers::Tma,
            Consumers::warpgroups(GROUPS),
        )
    };
    let (of_q, of_dout) = (of_queries(), of_queries());
    let ds_tiles = Smem::<T>::alloc([STAGES, KEYS, QUERIES], swizzle::<T>(QUERIES, 2));
    let ds_full = NamedBarrier::new(GROUPS * 128);

    let differentiate = |group: usize| {
        let [of_scores, of_rows] = [QUERIES, D].map(|n| Wgmma::new([4, 1], [64, n, 16]));
        let of_half = Wgmma::new([4, 1], [64, D / 2, 16]);
        let half = group * D / 2..(group + 1) * D / 2;
        let of_operand = DotOperand::new(0, of_rows.clone(), 2);
        let operand_a = |x: Tensor<f32>| {
            let x = x.cast::<T>();
            x.convert_layout_trivial(of_operand.clone())
        };
        let mine = group * ROWS..(group + 1) * ROWS;
        let [k_rows, v_rows] = [k_tile, v_tile].map(|tile| tile.index(0).slice(0, mine.clone()));
        let key = at.first
            + group * ROWS
            + arange(0..ROWS, Slice::new(1, of_scores.clone())).expand_dims(1);
        let column = arange(0..QUERIES, Slice::new(0, of_scores.clone()));
        let Unmasked(from, to) = problem.unmasked(at, seeing, group);

        keys_full.wait(0);
        let zeros = || Accumulator::<f32>::zeros([ROWS, D], of_rows.clone());
        let (mut sum_dk, mut sum_dv) = (zeros(), zeros());
        for member in range(0, query_heads) {
            let head = kv_head * query_heads + member;
            let first_block = problem.first_block(at, head);
            let step = |block: Scalar<i32>,
                        is_masked: bool,
                        sum_dk: Accumulator<f32>,
                        sum_dv: Accumulator<f32>| {
                let count = member * steps + block - first;
                let scores = || Accumulator::<f32>::zeros([ROWS, QUERIES], of_scores.clone());
                let query = block * QUERIES + column;
                let q_stage = of_q.consumer_wait(of_q.of_fill(count));
                let (q_tile, sum_line) = q_stage.tiles;
                let s = scores().mma(k_rows, q_tile.transpose());
                let dout_stage = of_dout.consumer_wait(of_dout.of_fill(count));
                let (dout_tile, delta_line) = dout_stage.tiles;
                let dp = scores().mma(v_rows, dout_tile.transpose());
                let sum = sum_line.load(Slice::new(0, of_scores.clone()));
                let place = problem.place(at, head, query.expand_dims(0), key);
                let s = M::scores(s.wait_older_than(1), place);
                let slopes = M::slopes(s);
                let s = if is_masked {
                    select(problem.sees(at, key, place), s, f32::NEG_INFINITY)
                } else {
                    s
                };
                let p = fma(s, log2_scale, -sum.expand_dims(0)).exp2();
                let dp = dp.wait_all();
                let sum_dv = sum_dv.mma(operand_a(p), dout_tile);
                let delta = delta_line.load(Slice::new(0, of_scores.clone()));
                let p = slopes.map_or(p, |slopes| p * slopes);
                let ds = operand_a(p * (dp - delta.expand_dims(0)));
                let ds_tile = ds_tiles.index(count % STAGES);
                ds_tile.slice(0, mine.clone()).store(ds);
                fence_async_shared();
                ds_full.sync();
                // dQ comes first: it is added while the product of dK is in flight.
                let dq = Accumulator::<f32>::zeros([QUERIES, D / 2], of_half.clone());
                let columns = k_tile.index(0).slice(1, half.clone());
                let dq = dq.mma(ds_tile.transpose(), columns);
                let sum_dk = sum_dk.mma(ds, q_tile);
                let sum_dv = Accumulator::from_tensor(sum_dv.wait_older_than(2));
                of_dout.consumer_release(dout_stage);
                let dq = in_order_of_threads(dq.wait_older_than(1), D / 2);
                let half_block = (first_block + block) * GROUPS + group;
                let to = sums + half_block.cast::<i64>() * (QUERIES * D / 2) as i64;
                let to = to.at(arange(0..QUERIES * D / 2, dq.layout()));
                // The ticket comes first, then a counter for each half of a block.
                let turn = turns.at(half_block + 1);
                if ORDERED {
                    let before = number - problem.first_seen(at, block * QUERIES);
                    turn.acquire().atomic_poll(|terms| terms == before);
                }
                to.relaxed().atomic_add(dq);
                if ORDERED {
                    turn.release().atomic_add(1);
                }
                let sum_dk = Accumulator::from_tensor(sum_dk.wait_all());
                of_q.consumer_release(q_stage);
                (sum_dk, sum_dv)
            };
            for block in range(first, from) {
                (sum_dk, sum_dv) = step(block, true, sum_dk, sum_dv);
            }
            for block in range(from, to) {
                (sum_dk, sum_dv) = step(block, false, sum_dk, sum_dv);
            }
            for block in range(to, end) {
                (sum_dk, sum_dv) = step(block, true, sum_dk, sum_dv);
            }
        }
        // All products have read K and V, whose buffers the gradients reuse.
        ds_full.sync();
        let row = at.first + group * ROWS;
        let rows = at.lengths[1] - row;
        let token = at.starts[1] + row;
        v_rows.store(sum_dv.wait_all().cast::<T>());
        k_rows.store((sum_dk.wait_all() * scale).cast::<T>());
        // A tensor map ends with the last sequence. Where another sequence follows, a TMA store would overwrite its rows, so rows are stored one by one.
        if (is_ragged == 0) | (rows >= ROWS) {
            let to = (at.batch, kv_head, token, 0);
            dv.store(to, v_rows.reshape(dv.block()));
            dk.store(to, k_rows.reshape(dk.block()));
        } else {
            let [kv_head, token] = [kv_head, token].map(|x| x.cast::<i64>());
            let first = kv_head * dv_head_stride + token * dv_token_stride;
            store_rows(dv_rows, first, dv_token_stride, rows, v_rows);
            let first = kv_head * dk_head_stride + token * dk_token_stride;
            store_rows(dk_rows, first, dk_token_stride, rows, k_rows);
        }
        tma_store_wait_read(0);
    };
    let load = || {
        let token = at.starts[1] + at.first;
        keys_full.expect(k.block_bytes() + v.block_bytes());
        for (map, tile) in [(k, k_tile), (v, v_tile)] {
            let tile = tile.index(0).reshape(map.block());
            map.load((at.batch, kv_head, token, 0), tile, keys_full);
        }
        for member in range(0, query_heads) {
            let head = kv_head * query_heads + member;
            let first_block = problem.first_block(at, head);
            for block in range(first, end) {
                let count = member * steps + block - first;
                let token = at.starts[0] + block * QUERIES;
                let first_row = (first_block + block) * QUERIES;
                for (pipeline, map, line) in [(of_q, q, log2_sum), (of_dout, dout, delta)] {
                    let stage = pipeline.producer_acquire(pipeline.of_fill(count));
                    let (tile, row) = stage.tiles;
                    let tile = tile.reshape(map.block());
                    map.load((at.batch, head, token, 0), tile, stage.full);
                    line.bulk(first_row).load(row, stage.full);
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
        factors: $factors:expr,
        scale: $scale:expr,
        strides: [$of_dk:expr, $of_dv:expr]
    ) => {{
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
            exponent_scale * LOG2_E as f32,
            score_scale,
            $scale,
            of_dk[0] as i64,
            of_dk[1] as i64,
            of_dv[0] as i64,
            of_dv[1] as i64,
        )
    }};
}

pub(super) use backward_arguments;
