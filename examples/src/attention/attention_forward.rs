//! Flash attention, forward: a CTA keeps a block of Q of one head and loops over blocks of K and V, so that the matrix of
//! scores S never reaches global memory. Two consumer warpgroups own 64 queries each and take turns at the tensor cores:
//! while one multiplies, the other computes exponentials. A producer warp issues TMA loads of K and V.

use tilekit::prelude::*;

use crate::attention::attention_case::Attention;

/// Consumer warpgroups, and the queries of each: the rows of one instruction.
const GROUPS: usize = 2;
const ROWS: usize = 64;
const QUERIES: usize = GROUPS * ROWS;

/// Keys of a block. With as many keys as queries, the diagonal and the end of the sequence each cross one block.
const KEYS: usize = QUERIES;
const STAGES: usize = 2;

/// Blocks of keys, or of values, some stages deep, which `groups` warpgroups read.
#[device]
pub(super) fn blocks_of<T: Element>(map: TensorMap<T>, groups: usize) -> Pipeline<Smem<T>> {
    let [keys, columns] = [1, 2].map(|dim| map.block()[dim] as usize);
    let tiles = Smem::alloc([STAGES, keys, columns], swizzle::<T>(2));
    Pipeline::new(tiles, Producers::Tma, Consumers::warpgroups(groups))
}

/// Issues the TMA load of block `count`, which begins at row `first` of `head`.
#[device]
pub(super) fn load_block<T: Element>(
    pipeline: Pipeline<Smem<T>>,
    count: Scalar<i32>,
    map: TensorMap<T>,
    [head, first]: [Scalar<i32>; 2],
) {
    let stage = pipeline.producer_acquire(pipeline.of_fill(count));
    let tile = stage.tiles.reshape(map.block());
    map.load((head, first, 0), tile, stage.full);
    pipeline.commit(stage);
}

/// Rows of 128 bytes with the 128-byte swizzle, as `wgmma` reads them from shared memory.
pub(super) fn swizzle<T: Element>(rank: u32) -> Nvmma {
    Nvmma::B128.of(T::DTYPE.bits()).with_rank(rank)
}

/// `out[h] = softmax(scale · Q[h] · K[h]ᵀ) · V[h]`, all of `[heads, tokens, D]`; `log2_scale` is `scale · log2(e)`. With
/// `CAUSAL`, a query sees the keys up to its own place.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(<bf16, 64, false>, <bf16, 128, true>))]
pub fn attention_forward<T: Float + WgmmaOperand<T, f32>, const D: usize, const CAUSAL: bool>(
    #[block([1, QUERIES, D], swizzle::<T>(3))] q: TensorMap<T>,
    #[block([1, KEYS, D], swizzle::<T>(3))] k: TensorMap<T>,
    #[block([1, KEYS, D], swizzle::<T>(3))] v: TensorMap<T>,
    #[block([1, ROWS, D], swizzle::<T>(3))] out: TensorMap<T>,
    tokens: i32,
    log2_scale: f32,
) {
    // Blocks with the most keys first, and within each the last keys first: only those need a mask.
    let (block, head) = (num_programs(0) - 1 - program_id(0), program_id(1));
    let blocks = cdiv(tokens, KEYS);
    let last = if CAUSAL { block } else { blocks - 1 };
    let queries = Smem::<T>::alloc([QUERIES, D], swizzle::<T>(2));
    let asked = Mbarrier::alloc(1);
    let (keys, values) = (blocks_of(k, GROUPS), blocks_of(v, GROUPS));
    let turns = NamedTurns::<GROUPS>::new(128);

    let attend = |group: usize| {
        let [of_scores, of_sums] = [KEYS, D].map(|n| Wgmma::new([4, 1], [64, n, 16]));
        let of_powers = DotOperand::new(0, of_sums.clone(), 2);
        let of_rows = Slice::new(1, of_scores.clone());
        let first = block * QUERIES + group * ROWS;
        let q = queries.slice(0, group * ROWS..(group + 1) * ROWS);
        let scores = || Accumulator::<f32>::zeros([ROWS, KEYS], of_scores.clone());

        asked.wait(0);
        let first_keys = keys.consumer_wait(keys.of_fill(scalar(0)));
        let s = scores().mma(q, first_keys.tiles.transpose()).wait_all();
        keys.consumer_release(first_keys);
        let row = first + arange(0..ROWS, of_rows.clone()).expand_dims(1);
        let of_columns = Slice::new(0, of_scores.clone());
        let column = last * KEYS + arange(0..KEYS, of_columns).expand_dims(0);
        let seen = if CAUSAL {
            column <= row
        } else {
            column < tokens
        };
        let mut softmax = OnlineSoftmax::new(ROWS, log2_scale, of_rows);
        let (mut powers, _) = softmax.add(select(seen, s, f32::NEG_INFINITY));
        let mut sums = Accumulator::zeros([ROWS, D], of_sums.clone());
        // S of a block is computed beside P · V of the block before.
        let product = |sums: Accumulator<f32>, powers: Tensor<f32>, v: Smem<T>| {
            let powers = powers.cast::<T>().convert_layout_trivial(of_powers.clone());
            sums.mma(powers, v)
        };
        turns.begin(group);
        for count in range(0, last) {
            let k = keys.consumer_wait(keys.of_fill(count + 1)); // mutate: equivalent(mbarrier.wait): the group before, whose turn comes first, has waited for it
            let v = values.consumer_wait(values.of_fill(count)); // mutate: equivalent(mbarrier.wait): so it has for this one
            turns.wait(group);
            let s = scores().mma(q, k.tiles.transpose());
            sums = product(sums, powers, v.tiles);
            if (group == 0) | (count + 1 < last) {
                turns.pass(group);
            }
            let s = s.wait_older_than(1);
            keys.consumer_release(k);
            let (next, scale) = softmax.add(s);
            let scale = scale.expand_dims(1).convert_layout_trivial(of_sums.clone());
            let done = sums.wait_all();
            values.consumer_release(v);
            (sums, powers) = (Accumulator::from_tensor(done * scale), next);
        }
        let v = values.consumer_wait(values.of_fill(last));
        let sums = product(sums, powers, v.tiles).wait_all();
        let total = softmax.sum().expand_dims(1);
        // Only this warpgroup reads these queries.
        q.store((sums / total.convert_layout_trivial(of_sums)).cast::<T>()); // mutate: equivalent(bar.sync): each warp stores the rows of queries that it alone has read
        out.store((head, first, 0), q.reshape(out.block()));
        tma_store_wait_read(0);
    };
    let copy = || {
        asked.expect(q.block_bytes());
        let rows = (head, block * QUERIES, 0);
        q.load(rows, queries.reshape(q.block()), asked);
        for count in range(0, last + 1) {
            let first = (last - count) * KEYS;
            load_block(keys, count, k, [head, first]);
            load_block(values, count, v, [head, first]);
        }
    };
    warp_specialize()
        .registers(240)
        .main(|| attend(0))
        .workers(1..GROUPS, Warps(4).registers(240), attend)
        .worker(Warps(1).registers(24), copy)
        .run();
}

fn attention<T, const D: usize, const CAUSAL: bool>(case: &mut Case) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + DeviceElement,
{
    let attention = Attention::<T>::new(case, D, CAUSAL);
    let kernel = attention_forward::<T, D, CAUSAL>;
    case.launch(kernel, attention.grid(QUERIES), attention.arguments())?;
    attention.expect(case)
}

#[case(sizes(heads = [1, 3], tokens = [640, 1]))]
fn attention_forward_bf16(case: &mut Case) -> CaseResult {
    attention::<bf16, 64, false>(case)
}

#[case(sizes(heads = [1, 1], tokens = [640, 130]))]
fn attention_forward_causal(case: &mut Case) -> CaseResult {
    attention::<bf16, 128, true>(case)
}

#[case(sizes(heads = [1, 1], tokens = [200, 712]))]
fn attention_forward_f16(case: &mut Case) -> CaseResult {
    attention::<f16, 128, false>(case)
}
