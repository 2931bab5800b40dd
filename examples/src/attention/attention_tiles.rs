//! Attention over tiles whose extents are no powers of two: 192 queries by 128 keys with three warpgroups that multiply, and
//! 128 queries by 176 keys with two. The more keys a block has, the fewer times its sums are scaled; the more queries, the
//! fewer times keys and values are brought.

use tilekit::prelude::*;

use crate::attention::attention_case::Attention;
use crate::attention::attention_forward::{blocks_of, load_block, swizzle};

/// Queries of one warpgroup: the rows of one instruction.
const ROWS: usize = 64;

/// Registers of a thread that multiplies, for so many warpgroups beside one that copies.
fn registers(groups: usize) -> u32 {
    if groups == 3 { 160 } else { 240 }
}

/// `out[h] = softmax(scale · Q[h] · K[h]ᵀ) · V[h]`, all of `[heads, tokens, D]`, by blocks of `64 * GROUPS` queries and `KEYS`
/// keys; `log2_scale` is `scale · log2(e)`.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(<bf16, 64, 3, 128>, <bf16, 128, 2, 176>))]
pub fn attention_tiles<
    T: Float + WgmmaOperand<T, f32>,
    const D: usize,
    const GROUPS: usize,
    const KEYS: usize,
>(
    #[block([1, GROUPS * ROWS, D], swizzle::<T>(3))] q: TensorMap<T>,
    #[block([1, KEYS, D], swizzle::<T>(3))] k: TensorMap<T>,
    #[block([1, KEYS, D], swizzle::<T>(3))] v: TensorMap<T>,
    #[block([1, ROWS, D], swizzle::<T>(3))] out: TensorMap<T>,
    tokens: i32,
    log2_scale: f32,
) {
    // The last keys come first: only their block needs a mask.
    let (block, head) = (program_id(0), program_id(1));
    let last = cdiv(tokens, KEYS) - 1;
    let queries = Smem::<T>::alloc([GROUPS * ROWS, D], swizzle::<T>(2));
    let asked = Mbarrier::alloc(1);
    let (keys, values) = (blocks_of(k, GROUPS), blocks_of(v, GROUPS));
    let turns = NamedTurns::<GROUPS>::new(128);

    let attend = |group: usize| {
        let [of_scores, of_sums] = [KEYS, D].map(|n| Wgmma::new([4, 1], [64, n, 16]));
        let of_powers = DotOperand::new(0, of_sums.clone(), 2);
        let of_rows = Slice::new(1, of_scores.clone());
        let q = queries.slice(0, group * ROWS..(group + 1) * ROWS);
        let scores = || Accumulator::<f32>::zeros([ROWS, KEYS], of_scores.clone());

        asked.wait(0);
        let first_keys = keys.consumer_wait(keys.of_fill(scalar(0)));
        let s = scores().mma(q, first_keys.tiles.transpose()).wait_all();
        keys.consumer_release(first_keys);
        let of_columns = Slice::new(0, of_scores.clone());
        let column = last * KEYS + arange(0..KEYS, of_columns).expand_dims(0);
        let mut softmax = OnlineSoftmax::new(ROWS, log2_scale, of_rows);
        // What goes on to the next product is rounded at once: it has half the registers.
        let operand_a = |powers: Tensor<f32>| {
            let powers = powers.cast::<T>();
            powers.convert_layout_trivial(of_powers.clone())
        };
        let (powers, _) = softmax.add(select(column < tokens, s, f32::NEG_INFINITY));
        let mut powers = operand_a(powers);
        let mut sums = Accumulator::zeros([ROWS, D], of_sums.clone());
        // The scores of a block are computed beside the product of the powers of the block before with its values.
        let is_last_group = group + 1 == GROUPS;
        turns.begin(group);
        for count in range(0, last) {
            let k = keys.consumer_wait(keys.of_fill(count + 1)); // mutate: equivalent(mbarrier.wait): the group before, whose turn comes first, has waited for it
            let v = values.consumer_wait(values.of_fill(count)); // mutate: equivalent(mbarrier.wait): so it has for this one
            turns.wait(group);
            let s = scores().mma(q, k.tiles.transpose());
            sums = sums.mma(powers, v.tiles); // mutate: equivalent(wgmma.fence): the last access to these registers stands before the fence of the scores
            if !is_last_group | (count + 1 < last) {
                turns.pass(group);
            }
            let s = s.wait_older_than(1);
            keys.consumer_release(k);
            let (next, scale) = softmax.add(s);
            let scale = scale.expand_dims(1).convert_layout_trivial(of_sums.clone());
            let done = sums.wait_all();
            values.consumer_release(v);
            (sums, powers) = (Accumulator::from_tensor(done * scale), operand_a(next));
        }
        let v = values.consumer_wait(values.of_fill(last));
        let sums = sums.mma(powers, v.tiles).wait_all();
        let total = softmax.sum().expand_dims(1);
        // Nobody else reads these queries.
        q.store((sums / total.convert_layout_trivial(of_sums)).cast::<T>()); // mutate: equivalent(bar.sync): each warp stores the rows of queries that it alone has read
        let first = (block * GROUPS + group) * ROWS;
        out.store((head, first, 0), q.reshape(out.block()));
        tma_store_wait_read(0);
    };
    let copy = || {
        asked.expect(q.block_bytes());
        let rows = (head, block * (GROUPS * ROWS), 0);
        q.load(rows, queries.reshape(q.block()), asked);
        for count in range(0, last + 1) {
            let first = (last - count) * KEYS;
            load_block(keys, count, k, [head, first]);
            load_block(values, count, v, [head, first]);
        }
    };
    let of_groups = registers(GROUPS);
    warp_specialize()
        .registers(of_groups)
        .main(|| attend(0))
        .workers(1..GROUPS, Warps(4).registers(of_groups), attend)
        .worker(Warps(4).registers(24), copy)
        .run();
}

fn attention<const D: usize, const GROUPS: usize, const KEYS: usize>(
    case: &mut Case,
) -> CaseResult {
    let attention = Attention::<bf16>::new(case, D, false);
    let kernel = attention_tiles::<bf16, D, GROUPS, KEYS>;
    case.launch(kernel, attention.grid(GROUPS * ROWS), attention.arguments())?;
    attention.expect(case)
}

#[case(sizes(heads = [1, 1], tokens = [712, 77]))]
fn attention_of_192_queries_by_128_keys(case: &mut Case) -> CaseResult {
    attention::<64, 3, 128>(case)
}

#[case(sizes(heads = [1], tokens = [200, 1]))]
fn attention_of_192_queries_at_ragged_sizes(case: &mut Case) -> CaseResult {
    attention::<64, 3, 128>(case)
}

#[case(sizes(heads = [2, 1], tokens = [352, 100]))]
fn attention_of_128_queries_by_176_keys(case: &mut Case) -> CaseResult {
    attention::<128, 2, 176>(case)
}

#[case(sizes(heads = [1], tokens = [1000, 1]))]
fn attention_of_176_keys_at_ragged_sizes(case: &mut Case) -> CaseResult {
    attention::<128, 2, 176>(case)
}
