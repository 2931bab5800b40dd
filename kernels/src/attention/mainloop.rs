//! The main loop of attention forward: a persistent CTA computes tiles of queries, and loops over blocks of K and V for each, so
//! that the matrix of scores S never reaches global memory.
//!
//! A producer warp issues TMA loads; those of the next tile's Q, K and V while the last products of a tile are in flight. Consumer warpgroups
//! own 64 rows each. S of a block is computed while P · V of the preceding block is in flight. The [`Problem`] says what the rows are,
//! which keys they see, and where results go.

use tilekit::prelude::*;
use tilekit::target::SM_90A;

use super::softmax::Softmax;

/// Rows of a warpgroup: M of one `wgmma`.
pub(super) const ROWS: usize = 64;
/// Stages of K, and of V, in shared memory.
const STAGES: usize = 2;

/// The tile of an instance, and the schedule of its warpgroups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Elements of a row of Q and K.
    pub(super) depth: usize,
    /// Elements of a row of V and of the output.
    pub(super) values: usize,
    /// Keys of a block.
    pub(super) keys: usize,
    /// Whether named barriers order the warpgroups' products (ping-pong).
    pub(super) turns: bool,
    /// Whether the accumulator is rescaled only where a maximum has grown by [`GROWTH`](super::softmax::GROWTH).
    pub(super) is_lazy: bool,
    /// Registers of a consumer thread, and of a producer thread.
    pub(super) registers: [u32; 2],
}

/// The key blocks of a tile, which are computed in descending order.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    /// One past the last block.
    pub(super) top: Scalar<i32>,
    /// How many there are, at least 1.
    pub(super) count: Scalar<i32>,
}

/// The steps in which a warpgroup's rows need a mask. Step 0, the first block, is always masked.
#[derive(Clone, Copy)]
pub(super) struct Edges {
    /// Steps from 1 up to here are masked; `None` where only step 0 is.
    pub(super) high: Option<Scalar<i32>>,
    /// Steps from here on are masked; `None` where none is.
    pub(super) low: Option<Scalar<i32>>,
    /// Whether every step is masked.
    pub(super) all: bool,
}

/// The buffers that a producer loads into.
pub(super) type Loads<T> = Pipeline<Smem<T>>;

/// A kind of attention: its tiles, the keys that their rows see, and the copies between memory and the CTA.
pub(super) trait Problem<T: Element>: Copy {
    /// A tile.
    type Tile: Copy;
    /// The rows of a warpgroup in a tile.
    type Rows: Copy;

    /// How many tiles there are.
    fn count(self) -> Scalar<i32>;
    /// The tile with this index.
    fn tile(self, number: Scalar<i32>) -> Self::Tile;
    /// The key blocks that the rows of a tile see.
    fn blocks(self, tile: Self::Tile) -> Blocks;
    /// Whether a tile has rows at all; `None` where every tile has.
    fn has_rows(self, tile: Self::Tile) -> Option<Scalar<bool>>;
    /// The rows of warpgroup `group`, in this layout.
    fn rows(self, tile: Self::Tile, group: usize, layout: Slice) -> Self::Rows;
    /// Whether rows see keys `[1, keys]`.
    fn sees(self, rows: Self::Rows, key: Tensor<i32>) -> Tensor<bool>;
    /// The scores from which P is computed, given Q · K.
    fn scores(self, rows: Self::Rows, key: Tensor<i32>, scores: Tensor<f32>) -> Tensor<f32>;
    /// The steps that need a mask.
    fn edges(self, rows: Self::Rows, blocks: Blocks) -> Edges;
    /// The factor of scores in an exponent of 2.
    fn log2_scale(self) -> Scalar<f32>;
    /// The maximum of a row that has seen no key yet.
    fn least(self) -> f32;
    /// Issues the TMA load of a warpgroup's queries, as fill `count`.
    fn load_queries(self, tile: Self::Tile, group: usize, to: Loads<T>, count: Scalar<i32>);
    /// Issues the TMA loads of the blocks of K and V, the last block first, as fills from `base` on. V of a block follows K of the next
    /// one; `load_queries` is called behind the first block of K.
    fn load_blocks(
        self,
        tile: Self::Tile,
        blocks: Blocks,
        to: [Loads<T>; 2],
        base: Scalar<i32>,
        load_queries: impl FnOnce(),
    );
    /// Whether the kernel may begin beside the launch in front of it, and the next one beside this one.
    const OVERLAPS: bool = false;
    /// Whether [`clear`](Problem::clear) does anything.
    const CLEARS: bool = false;
    /// Clears the rows of the last block of V, `number`, past the last key, which a P of 0 multiplies. Only one warpgroup reads V then.
    fn clear(self, _rows: Self::Rows, _number: Scalar<i32>, _values: Smem<T>) {}
    /// Stores the output, staged in `place` in shared memory, and LSE. `sums` is the accumulator of P · V.
    fn store(self, rows: Self::Rows, sums: Tensor<f32>, softmax: Softmax, place: Smem<T>);
}

/// Do queries, outputs, and the stages of K and V fit a CTA's shared memory? Otherwise the output reuses the buffer of the queries.
fn has_place_for_output<T>(shape: Shape, queries: usize) -> bool {
    /// Bytes of mbarriers and of the slots of drawn tiles, rounded up.
    const BESIDES: usize = 1024;
    let elements = (queries + STAGES * shape.keys) * (shape.depth + shape.values);
    elements * size_of::<T>() + BESIDES <= SM_90A.cta.shared_bytes as usize
}

/// The shared layout of an operand of `wgmma`: the widest swizzle that divides a row.
pub(super) fn swizzle<T: Element>(columns: usize, rank: u32) -> Nvmma {
    let bits = T::DTYPE.bits();
    let swizzle = if (columns * size_of::<T>()).is_multiple_of(128) {
        Nvmma::B128
    } else {
        Nvmma::B64
    };
    swizzle.of(bits).with_rank(rank)
}

/// The pipeline of K, or of V, with `groups` consumer warpgroups.
#[device]
fn blocks_of<T: Element>(keys: usize, columns: usize, groups: usize) -> Loads<T> {
    let tiles = Smem::alloc([STAGES, keys, columns], swizzle::<T>(columns, 2));
    Pipeline::new(tiles, Producers::Tma, Consumers::warpgroups(groups))
}

/// Issues the TMA load of the block at `at`, as fill `count` of its pipeline.
#[device]
pub(super) fn load<T: Element, const RANK: usize>(
    to: Loads<T>,
    count: Scalar<i32>,
    map: TensorMap<T>,
    at: [Scalar<i32>; RANK],
) {
    let stage = to.producer_acquire(to.of_fill(count));
    map.load(at, stage.tiles.reshape(map.block()), stage.full);
    to.commit(stage);
}

/// [`Problem::load_blocks`] of a problem whose blocks are found by their numbers: `load_keys` and `load_values` issue the loads of a
/// block, as a fill and by its number.
#[device]
pub(super) fn load_numbered(
    blocks: Blocks,
    base: Scalar<i32>,
    load_queries: impl FnOnce(),
    load_keys: impl Fn(Scalar<i32>, Scalar<i32>),
    load_values: impl Fn(Scalar<i32>, Scalar<i32>),
) {
    // K and V share one counter of fills, since a producer has few registers.
    let end = base + blocks.count;
    let top = base + blocks.top - 1;
    load_keys(base, blocks.top - 1);
    load_queries();
    for fill in range(base + 1, end) {
        load_keys(fill, top - fill);
        load_values(fill - 1, top - fill + 1);
    }
    load_values(end - 1, top - end + 1);
}

/// The loop-carried values of a consumer warpgroup.
#[derive(Aggregate)]
struct State<T> {
    softmax: Softmax,
    sums: Accumulator<f32>,
    /// P of the preceding block, not yet multiplied.
    powers: Tensor<T>,
    /// The factors by which `sums` is rescaled before the next product is added.
    rescale: Tensor<f32>,
}

/// Attention by `GROUPS` consumer warpgroups and a producer warp. Tiles are drawn from `counter`, which is 0 before and after.
#[allow(
    clippy::redundant_field_names,
    reason = "rewritten code writes short fields out"
)]
#[device]
pub(super) fn attend<T: Float + WgmmaOperand<T, f32>, P: Problem<T>, const GROUPS: usize>(
    problem: P,
    shape: Shape,
    counter: Ptr<i32>,
) {
    let Shape {
        depth,
        values: columns,
        keys: block_keys,
        turns: has_turns,
        is_lazy,
        registers: [of_consumers, of_producer],
    } = shape;
    let has_place = has_place_for_output::<T>(shape, GROUPS * ROWS);
    static_assert!(
        has_place || depth == columns,
        "an output of {columns} columns takes the place of queries of {depth}"
    );
    let drawn = DynamicTiles::new(counter, problem.count(), Consumers::warpgroups(GROUPS));
    let of_queries = |_| {
        let tile = Smem::<T>::alloc([1, ROWS, depth], swizzle::<T>(depth, 2));
        Pipeline::new(tile, Producers::Tma, Consumers::warpgroups(1))
    };
    let queries: Vec<Loads<T>> = (0..GROUPS).map(of_queries).collect();
    let of_output = |_| Smem::<T>::alloc([1, ROWS, columns], swizzle::<T>(columns, 2));
    let outputs: Option<Vec<Smem<T>>> = has_place.then(|| (0..GROUPS).map(of_output).collect());
    let keys = blocks_of::<T>(block_keys, depth, GROUPS);
    let values = blocks_of::<T>(block_keys, columns, GROUPS);
    let turns = has_turns.then(|| NamedTurns::<GROUPS>::new(128));

    let attend = |group: usize| {
        let [of_scores, of_sums] = [block_keys, columns].map(|n| Wgmma::new([4, 1], [64, n, 16]));
        let of_powers = DotOperand::new(0, of_sums.clone(), 2);
        let of_rows = Slice::new(1, of_scores.clone());
        let of_columns = Slice::new(0, of_scores.clone());
        let scores = || Accumulator::<f32>::zeros([ROWS, block_keys], of_scores.clone());
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
            let place = problem.tile(tile.number());
            let mut compute = || {
                let blocks = problem.blocks(place);
                let rows = problem.rows(place, group, of_rows.clone());
                let column = arange(0..block_keys, of_columns.clone()).expand_dims(0);
                // The scores of step `number`, masked.
                let seen = |s: Tensor<f32>, number: Scalar<i32>, is_masked: bool| {
                    let key = (blocks.top - 1 - number) * block_keys + column;
                    let s = problem.scores(rows, key, s);
                    if is_masked {
                        select(problem.sees(rows, key), s, f32::NEG_INFINITY)
                    } else {
                        s
                    }
                };

                let asked = queries[group].consumer_wait(queries[group].of_fill(round));
                let q = asked.tiles;
                let stage = keys.consumer_wait(keys.of_fill(base));
                let s = scores().mma(q, stage.tiles.transpose()).wait_all();
                keys.consumer_release(stage);
                let (softmax, powers) = Softmax::first(
                    seen(s, scalar(0), true),
                    problem.log2_scale(),
                    problem.least(),
                    [ROWS, block_keys],
                );
                if P::CLEARS {
                    let first = values.consumer_wait(values.of_fill(base));
                    problem.clear(rows, blocks.top - 1, first.tiles);
                }
                // Each arrival at a named barrier needs its wait: a tile of one block has neither.
                if let Some(turns) = turns {
                    if blocks.count > 1 {
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
                    // The wait for V keeps ptxas from moving the multiplications between the instructions of Q · K.
                    let before = values.consumer_wait(values.of_fill(count - 1));
                    if !has_turns {
                        sums = Accumulator::from_tensor(sums.wait_older_than(1) * spread(rescale));
                    }
                    let sums = sums.mma(powers, before.tiles);
                    if let Some(turns) = turns {
                        let is_last_group = group + 1 == GROUPS;
                        if !is_last_group | (number + 1 < blocks.count) {
                            turns.pass(group);
                        }
                    }
                    let s = s.wait_older_than(1);
                    keys.consumer_release(stage);
                    let s = seen(s, number, is_masked);
                    let rescale = softmax.grow(s, is_lazy);
                    // ptxas does not schedule across a branch: after it, exponentials and conversions interleave.
                    let mut next = None;
                    if !is_lazy {
                        next = Some(softmax.add(s, rescale, ROWS));
                    }
                    let done = sums.wait_all();
                    values.consumer_release(before);
                    let done = match (has_turns, is_lazy) {
                        (true, true) => done.rescale(spread(rescale)),
                        (true, false) => done * spread(rescale),
                        (false, _) => done,
                    };
                    let next = next.unwrap_or_else(|| softmax.add(s, rescale, ROWS));
                    State {
                        softmax,
                        sums: Accumulator::from_tensor(done),
                        powers: factor(next),
                        rescale,
                    }
                };
                let mut state = State {
                    softmax,
                    sums: Accumulator::zeros([ROWS, columns], of_sums.clone()),
                    powers: factor(powers),
                    rescale: full([ROWS], 1.0f32, of_rows.clone()),
                };
                let Edges { high, low, all } = problem.edges(rows, blocks);
                if let Some(high) = high {
                    for number in range(1, high) {
                        state = step(number, true, state);
                    }
                }
                let first = high.unwrap_or_else(|| scalar(1));
                for number in range(first, low.unwrap_or(blocks.count)) {
                    state = step(number, all, state);
                }
                if let Some(low) = low {
                    for number in range(low, blocks.count) {
                        state = step(number, true, state);
                    }
                }

                let State {
                    softmax,
                    mut sums,
                    powers,
                    rescale,
                } = state;
                let output = outputs.as_ref().map(|outputs| outputs[group].index(0));
                // No product of this tile reads Q any more: the next Q may be loaded.
                let asked = match output {
                    Some(_) => {
                        queries[group].consumer_release(asked);
                        None
                    }
                    None => Some(asked),
                };
                if !has_turns {
                    sums = Accumulator::from_tensor(sums.wait_all() * spread(rescale));
                }
                let last = values.consumer_wait(values.of_fill(base + blocks.count - 1));
                let sums = sums.mma(powers, last.tiles).wait_all();
                values.consumer_release(last);
                problem.store(rows, sums, softmax, output.unwrap_or(q));
                if let Some(asked) = asked {
                    tma_store_wait_read(0);
                    queries[group].consumer_release(asked);
                }
                base += blocks.count;
                round += 1;
            };
            match problem.has_rows(place) {
                Some(has_rows) => {
                    if has_rows {
                        compute();
                    }
                }
                None => compute(),
            }
            tile = drawn.receive(tile);
        }
        tma_store_wait_read(0);
    };
    let load = || {
        let (mut base, mut round) = (scalar(0), scalar(0));
        let mut tile = drawn.start();
        while tile.number() < drawn.count() {
            let next = drawn.draw();
            let place = problem.tile(tile.number());
            let mut issue = || {
                let blocks = problem.blocks(place);
                problem.load_blocks(place, blocks, [keys, values], base, || {
                    for (group, &pipeline) in queries.iter().enumerate() {
                        problem.load_queries(place, group, pipeline, round);
                    }
                });
                base += blocks.count;
                round += 1;
            };
            match problem.has_rows(place) {
                Some(has_rows) => {
                    if has_rows {
                        issue();
                    }
                }
                None => issue(),
            }
            tile = drawn.send(tile, next);
        }
    };
    if P::OVERLAPS {
        launch_dependents();
        launch_wait();
    }
    let parts = warp_specialize().registers(of_consumers).main(|| attend(0));
    let parts = (1..GROUPS).fold(parts, |parts, group| {
        parts.worker(Warps(4).registers(of_consumers), || attend(group))
    });
    parts.worker(Warps(1).registers(of_producer), load).run();
}
