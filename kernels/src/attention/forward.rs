//! Attention forward: a persistent CTA computes tiles of queries, and loops over blocks of K and V for each, so that the matrix of
//! scores S never reaches global memory.
//!
//! A producer warp issues TMA loads, those of the next tile's Q, K and V while the last products of a tile run. Consumer warpgroups own
//! 64 queries each. S of a block is computed beside P · V of the block before.

use tilekit::prelude::*;
use tilekit::target::SM_90A;

use super::softmax::Softmax;
use super::tiles::Tiles;

/// Queries of a warpgroup: the rows of one instruction.
pub(super) const ROWS: usize = 64;
/// Blocks of K, and of V, in shared memory.
const STAGES: usize = 2;

/// Registers of a consumer thread, and of a producer thread, for so many consumer warpgroups.
fn registers(groups: usize, depth: usize) -> [u32; 2] {
    match (groups, depth) {
        (3, _) => [160, 32],
        // With 24 the producer spills.
        (_, 256) => [232, 40],
        _ => [240, 24],
    }
}

/// Do queries, outputs, and the stages of K and V fit a CTA's shared memory? Otherwise the output takes the place of the queries.
fn has_place_for_output<T>(depth: usize, queries: usize, keys: usize) -> bool {
    /// Bytes of mbarriers and of the slots of drawn tiles, rounded up.
    const BESIDES: usize = 1024;
    let bytes = (2 * queries + 2 * STAGES * keys) * depth * size_of::<T>();
    bytes + BESIDES <= SM_90A.cta.shared_bytes as usize
}

/// Rows of 128 bytes with the 128-byte swizzle, as `wgmma` reads them from shared memory.
fn swizzle<T: Element>(rank: u32) -> Nvmma {
    Nvmma::B128.of(T::DTYPE.bits()).with_rank(rank)
}

/// Blocks of K, or of V, which `groups` warpgroups read.
#[device]
fn blocks_of<T: Element>(map: TensorMap<T>, groups: usize) -> Pipeline<Smem<T>> {
    let [keys, columns] = [1, 2].map(|dim| map.block()[dim] as usize);
    let tiles = Smem::alloc([STAGES, keys, columns], swizzle::<T>(2));
    Pipeline::new(tiles, Producers::Tma, Consumers::warpgroups(groups))
}

/// Issues the TMA load of block `count`, which begins at row `first` of `head`.
#[device]
fn load_block<T: Element>(
    pipeline: Pipeline<Smem<T>>,
    count: Scalar<i32>,
    map: TensorMap<T>,
    [head, first]: [Scalar<i32>; 2],
) {
    let stage = pipeline.producer_acquire(pipeline.of_fill(count));
    map.load(
        (head, first, 0),
        stage.tiles.reshape(map.block()),
        stage.full,
    );
    pipeline.commit(stage);
}

/// `counter[0] = 0`: what [`forward`] finds at its first launch, and leaves behind.
#[kernel(warps = 1)]
pub fn reset(counter: Ptr<i32>) {
    counter.store(0);
}

/// What a warpgroup carries from block to block.
#[derive(Aggregate)]
struct State<T> {
    softmax: Softmax,
    sums: Accumulator<f32>,
    /// P of the block before, not yet multiplied.
    powers: Tensor<T>,
    /// What `sums` is to be multiplied by before the next product is added.
    rescale: Tensor<f32>,
}

/// `out[h] = softmax(scale · Q[h] · K[h / G]ᵀ) · V[h / G]` and its LSE, for Q and `out` of `[heads, tokens, D]`; `log2_scale` is
/// `scale · log2(e)`, G is `query_heads`, the query heads of a head of K and V. With `CAUSAL` a query sees the keys up to its own
/// place. With `TURNS` the warpgroups take turns at the tensor cores. Heads of a `section` are computed together; `counter` is 0 before
/// and after.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(
    <bf16, 64, 3, 128, false, true>,
    <bf16, 64, 3, 128, true, true>,
    <bf16, 128, 2, 176, false, true>,
    <bf16, 128, 2, 128, true, true>,
    <f16, 128, 2, 128, false, true>,
    <bf16, 256, 2, 80, false, false>,
    <bf16, 256, 2, 64, true, false>
))]
pub fn forward<
    T: Float + Factor<T, f32>,
    const D: usize,
    const GROUPS: usize,
    const KEYS: usize,
    const CAUSAL: bool,
    const TURNS: bool,
>(
    #[block([1, ROWS, D], swizzle::<T>(3))] q: TensorMap<T>,
    #[block([1, KEYS, D], swizzle::<T>(3))] k: TensorMap<T>,
    #[block([1, KEYS, D], swizzle::<T>(3))] v: TensorMap<T>,
    #[block([1, ROWS, D], swizzle::<T>(3))] out: TensorMap<T>,
    lse: Ptr<f32>,
    counter: Ptr<i32>,
    heads: i32,
    query_heads: i32,
    tokens: i32,
    section: i32,
    log2_scale: f32,
) {
    let queries_of_tile = GROUPS * ROWS;
    let has_place = has_place_for_output::<T>(D, queries_of_tile, KEYS);
    assume(tokens > 0);
    let tiles = Tiles::new(cdiv(tokens, queries_of_tile), heads, section);
    let drawn = DynamicTiles::new(counter, tiles.count(), Consumers::warpgroups(GROUPS));
    let tile_of_queries = |_| Smem::<T>::alloc([1, ROWS, D], swizzle::<T>(2));
    let of_queries = |group| {
        let tile = tile_of_queries(group);
        Pipeline::new(tile, Producers::Tma, Consumers::warpgroups(1))
    };
    let queries: Vec<Pipeline<Smem<T>>> = (0..GROUPS).map(of_queries).collect();
    let outputs: Option<Vec<Smem<T>>> =
        has_place.then(|| (0..GROUPS).map(tile_of_queries).collect());
    let (keys, values) = (blocks_of(k, GROUPS), blocks_of(v, GROUPS));
    let turns = TURNS.then(|| NamedTurns::<GROUPS>::new(128));
    // Blocks of keys of a tile, the last of which is loaded first.
    let blocks_of = |block: Scalar<i32>| {
        let all = cdiv(tokens, KEYS);
        if CAUSAL {
            minimum(cdiv((block + 1) * queries_of_tile, KEYS), all)
        } else {
            all
        }
    };

    let attend = |group: usize| {
        let [of_scores, of_sums] = [KEYS, D].map(|n| Wgmma::new([4, 1], [64, n, 16]));
        let of_powers = DotOperand::new(0, of_sums.clone(), 2);
        let of_rows = Slice::new(1, of_scores.clone());
        let of_columns = Slice::new(0, of_scores.clone());
        let scores = || Accumulator::<f32>::zeros([ROWS, KEYS], of_scores.clone());
        let factor = |powers: Tensor<f32>| {
            let powers = powers.cast::<T>();
            powers.convert_layout_trivial(of_powers.clone())
        };
        let spread = |of_rows: Tensor<f32>| {
            let column = of_rows.expand_dims(1);
            column.convert_layout_trivial(of_sums.clone())
        };

        let (mut base, mut round) = (scalar(0), scalar(0));
        let mut tile = drawn.start();
        while tile.number() < drawn.count() {
            let [block, head] = tiles.place(tile.number());
            let blocks = blocks_of(block);
            let first = block * queries_of_tile + group * ROWS;
            let row = first + arange(0..ROWS, of_rows.clone());
            let column = arange(0..KEYS, of_columns.clone()).expand_dims(0);
            let masked = |s: Tensor<f32>, number: Scalar<i32>| {
                let column = (blocks - 1 - number) * KEYS + column;
                let seen = if CAUSAL {
                    (column <= row.expand_dims(1)) & (column < tokens)
                } else {
                    column < tokens
                };
                select(seen, s, f32::NEG_INFINITY)
            };

            let asked = queries[group].consumer_wait(queries[group].of_fill(round));
            let q = asked.tiles;
            let stage = keys.consumer_wait(keys.of_fill(base));
            let s = scores().mma(q, stage.tiles.transpose()).wait_all();
            keys.consumer_release(stage);
            let (softmax, powers) = Softmax::first(masked(s, scalar(0)), log2_scale, [ROWS, KEYS]);
            // A turn that is passed must be taken: a tile of one block takes none.
            if let Some(turns) = turns {
                if blocks > 1 {
                    turns.begin(group);
                }
            }
            let step = |number: Scalar<i32>, is_masked: bool, state: State<T>| {
                let State {
                    mut softmax,
                    mut sums,
                    powers,
                    rescale,
                } = state;
                let count = base + number;
                let stage = keys.consumer_wait(keys.of_fill(count));
                if let Some(turns) = turns {
                    turns.wait(group);
                }
                let s = scores().mma(q, stage.tiles.transpose());
                if !TURNS {
                    sums = Accumulator::from_tensor(sums.wait_all() * spread(rescale));
                }
                let before = values.consumer_wait(values.of_fill(count - 1));
                let sums = sums.mma(powers, before.tiles);
                if let Some(turns) = turns {
                    let is_last_group = group + 1 == GROUPS;
                    if !is_last_group | (number + 1 < blocks) {
                        turns.pass(group);
                    }
                }
                let s = s.wait_older_than(1);
                keys.consumer_release(stage);
                let s = if is_masked { masked(s, number) } else { s };
                let (next, rescale) = softmax.add(s, ROWS);
                let done = sums.wait_all();
                values.consumer_release(before);
                let done = if TURNS { done * spread(rescale) } else { done };
                State {
                    softmax,
                    sums: Accumulator::from_tensor(done),
                    powers: factor(next),
                    rescale,
                }
            };
            let mut state = State {
                softmax,
                sums: Accumulator::zeros([ROWS, D], of_sums.clone()),
                powers: factor(powers),
                rescale: full([ROWS], 1.0f32, of_rows.clone()),
            };
            // The last keys come first: only blocks that cross the diagonal need a mask.
            let edge = if CAUSAL && KEYS < queries_of_tile {
                let edge = minimum(maximum(blocks - (first + 1) / KEYS, 1), blocks);
                for number in range(1, edge) {
                    state = step(number, true, state);
                }
                edge
            } else {
                scalar(1)
            };
            for number in range(edge, blocks) {
                state = step(number, false, state);
            }

            let State {
                softmax,
                mut sums,
                powers,
                rescale,
            } = state;
            let output = outputs.as_ref().map(|outputs| outputs[group].index(0));
            // Only the last products of a tile are left: the next Q may be loaded.
            let asked = match output {
                Some(_) => {
                    queries[group].consumer_release(asked);
                    None
                }
                None => Some(asked),
            };
            if !TURNS {
                sums = Accumulator::from_tensor(sums.wait_all() * spread(rescale));
            }
            let last = values.consumer_wait(values.of_fill(base + blocks - 1));
            let sums = sums.mma(powers, last.tiles).wait_all();
            values.consumer_release(last);
            let (total, log_sum_exp) = softmax.finish();
            tma_store_wait_read(0);
            let output = output.unwrap_or(q);
            output.store((sums * (1.0 / spread(total))).cast::<T>());
            out.store((head, first, 0), output.reshape(out.block()));
            let to = lse.at(head * tokens + row).mask(row < tokens);
            to.store(log_sum_exp);
            if let Some(asked) = asked {
                tma_store_wait_read(0);
                queries[group].consumer_release(asked);
            }
            base += blocks;
            round += 1;
            tile = drawn.receive(tile, 4);
        }
        tma_store_wait_read(0);
    };
    let load = || {
        let (mut base, mut round) = (scalar(0), scalar(0));
        let mut tile = drawn.start();
        while tile.number() < drawn.count() {
            let next = drawn.draw();
            let [block, head] = tiles.place(tile.number());
            let (blocks, kv) = (blocks_of(block), head / query_heads);
            let place = |number: Scalar<i32>| [kv, (blocks - 1 - number) * KEYS];
            load_block(keys, base, k, place(scalar(0)));
            for (group, &pipeline) in queries.iter().enumerate() {
                let row = block * queries_of_tile + group * ROWS;
                load_block(pipeline, round, q, [head, row]);
            }
            for number in range(1, blocks) {
                load_block(keys, base + number, k, place(number));
                load_block(values, base + number - 1, v, place(number - 1));
            }
            load_block(values, base + blocks - 1, v, place(blocks - 1));
            base += blocks;
            round += 1;
            tile = drawn.send(tile, next);
        }
    };
    let [of_consumers, of_producer] = registers(GROUPS, D);
    let parts = warp_specialize().registers(of_consumers).main(|| attend(0));
    let parts = (1..GROUPS).fold(parts, |parts, group| {
        parts.worker(Warps(4).registers(of_consumers), || attend(group))
    });
    parts.worker(Warps(1).registers(of_producer), load).run();
}
