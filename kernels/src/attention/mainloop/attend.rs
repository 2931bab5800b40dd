//! The main loop of attention forward: a persistent CTA computes tiles of queries, and loops over blocks of K and V for each, so
//! that the matrix of scores S never reaches global memory.
//!
//! A producer warp issues TMA loads; those of the next tile's Q, K and V while the last products of a tile are in flight. Consumer warpgroups
//! own 64 rows each. S of a block is computed while P · V of the preceding block is in flight. The [`Problem`] says what the rows are,
//! which keys they see, and where results go.
//!
//! Products of 8-bit floats have a third stage: they read V transposed, so a warpgroup of its own transposes each block in shared memory.
//! So have products of 16 bits whose K and V are of 8 in memory: two warpgroups convert the blocks of K, and of V.

use std::any::Any;

use tilekit::prelude::*;
use tilekit::target::SM_90A;

use super::problem::{Edges, Loads, Problem, ROWS};
use super::softmax::{Exponentials, Powers, Softmax};
use super::transpose::{order_of_operand, order_of_values, transpose};

/// Stages of K, and of V, in shared memory.
const STAGES: usize = 2;

/// The tile of an instance, and the schedule of its warpgroups.
#[derive(Clone, Copy, Debug)]
pub(in crate::attention) struct Shape {
    /// Elements of a row of Q and K.
    pub(in crate::attention) depth: usize,
    /// Elements of a row of V and of the output.
    pub(in crate::attention) values: usize,
    /// Keys of a block.
    pub(in crate::attention) keys: usize,
    /// Whether named barriers order the warpgroups' products (ping-pong).
    pub(in crate::attention) turns: bool,
    pub(in crate::attention) rescaling: Rescaling,
    /// Whether maxima of scores are taken three at a time, as integers, where [`Softmax::is_high`] says that this is right.
    pub(in crate::attention) is_triple: bool,
    pub(in crate::attention) exponentials: Exponentials,
    /// Registers of a consumer thread, and of a producer thread.
    pub(in crate::attention) registers: [u32; 2],
}

/// When the accumulator is rescaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::attention) enum Rescaling {
    /// In every block.
    Always,
    /// Where a maximum has grown by [`GROWTH`](super::softmax::GROWTH), once P · V is done and before the exponentials.
    Lazily,
    /// The same, while Q · K of the next block is in flight: exponentials begin before P · V is done.
    LazilyLater,
}

/// Registers of a thread that transposes V.
const TO_TRANSPOSE: u32 = 40;

/// Registers of a thread that converts K or V.
const TO_CONVERT: u32 = 104;

/// Whether products read V transposed.
const fn is_transposed<T>() -> bool {
    size_of::<T>() == 1
}

/// Do queries, outputs, and the stages of K and V fit a CTA's shared memory? Otherwise the output reuses the buffer of the queries.
fn has_place_for_output<T: Element, P: Problem<T>>(shape: Shape, queries: usize) -> bool {
    /// Bytes of mbarriers and of the slots of drawn tiles, rounded up.
    const BESIDES: usize = 1024;
    let blocks_of_values = if is_transposed::<T>() { 2 } else { 1 };
    let columns = shape.depth + blocks_of_values * shape.values;
    let operands = STAGES * shape.keys * columns + queries * shape.depth;
    let loaded = if is_converted::<T, P>() {
        STAGES * shape.keys * (shape.depth + shape.values) * size_of::<P::Loaded>()
    } else {
        0
    };
    let output = queries * shape.values * size_of::<P::Output>();
    let beside = BESIDES + P::bytes_beside([shape.depth, shape.values]);
    operands * size_of::<T>() + loaded + output + beside <= SM_90A.cta.shared_bytes as usize
}

/// Whether K and V have other elements in memory.
fn is_converted<T: Element, P: Problem<T>>() -> bool {
    P::Loaded::DTYPE != T::DTYPE
}

/// A pipeline of `T`, which is the type `L`.
fn same<T: Element, L: Element>(pipeline: Loads<T>) -> Loads<L> {
    let pipeline: &dyn Any = &pipeline;
    let same = pipeline.downcast_ref::<Loads<L>>();
    *same.expect("element types of one `DType` are one type")
}

/// The shared layout of an operand of `wgmma`: the widest swizzle that divides a row.
pub(in crate::attention) fn swizzle<T: Element>(columns: usize, rank: u32) -> Nvmma {
    let bytes = columns * size_of::<T>();
    let swizzle = match 1 << bytes.trailing_zeros() {
        32 => Nvmma::B32,
        64 => Nvmma::B64,
        _ => Nvmma::B128,
    };
    swizzle.of(T::DTYPE.bits()).with_rank(rank)
}

/// The pipeline of K, or of V, with `groups` consumer warpgroups.
#[device]
fn blocks_of<T: Element>(keys: usize, columns: usize, groups: usize) -> Loads<T> {
    let tiles = Smem::alloc([STAGES, keys, columns], swizzle::<T>(columns, 2));
    Pipeline::new(tiles, Producers::Tma, Consumers::warpgroups(groups))
}

/// The pipeline of blocks `[rows, columns]` that four warps store: transposed V, or what is converted.
#[device]
fn stored_blocks<T: Element>(rows: usize, columns: usize, groups: usize) -> Loads<T> {
    let tiles = Smem::alloc([STAGES, rows, columns], swizzle::<T>(columns, 2));
    let stores = Producers::Stores { warps: 4 };
    Pipeline::new(tiles, stores, Consumers::warpgroups(groups))
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
pub(in crate::attention) fn attend<T: WgmmaOperand<T, f32>, P: Problem<T>, const GROUPS: usize>(
    problem: P,
    shape: Shape,
    counter: Ptr<i32>,
) {
    let Shape {
        depth,
        values: columns,
        keys: block_keys,
        turns: has_turns,
        rescaling,
        is_triple,
        exponentials,
        registers: [of_consumers, of_producer],
    } = shape;
    let has_place = has_place_for_output::<T, P>(shape, GROUPS * ROWS);
    let is_transposed = is_transposed::<T>();
    let is_converted = is_converted::<T, P>();
    // The columns of an output that fit the place of queries.
    let of_place = depth * size_of::<T>() / size_of::<P::Output>();
    static_assert!(
        has_place || columns.is_multiple_of(of_place),
        "an output of {columns} columns takes the place of queries of {depth}"
    );
    let partitions = GROUPS + usize::from(is_transposed) + 2 * usize::from(is_converted);
    let drawn = DynamicTiles::new(counter, problem.count(), Consumers::warpgroups(partitions));
    let of_queries = |_| {
        let tile = Smem::<T>::alloc([1, ROWS, depth], swizzle::<T>(depth, 2));
        Pipeline::new(tile, Producers::Tma, Consumers::warpgroups(1))
    };
    let queries: Vec<Loads<T>> = (0..GROUPS).map(of_queries).collect();
    let of_output = |_| Smem::alloc([1, ROWS, columns], swizzle::<P::Output>(columns, 2));
    let outputs: Option<Vec<Smem<P::Output>>> =
        has_place.then(|| (0..GROUPS).map(of_output).collect());
    let blocks = |columns: usize, groups: usize| {
        if is_converted {
            stored_blocks::<T>(block_keys, columns, groups)
        } else {
            blocks_of::<T>(block_keys, columns, groups)
        }
    };
    let keys = blocks(depth, GROUPS);
    let straight = blocks(columns, if is_transposed { 1 } else { GROUPS });
    let values = if is_transposed {
        stored_blocks::<T>(columns, block_keys, GROUPS)
    } else {
        straight
    };
    let loaded: [Loads<P::Loaded>; 2] = if is_converted {
        [depth, columns].map(|columns| blocks_of(block_keys, columns, 1))
    } else {
        [keys, straight].map(same)
    };
    let turns = has_turns.then(|| NamedTurns::<GROUPS>::new(128));
    // Where no turns leave a warpgroup waiting, and every block rescales, O is multiplied under Q · K of the next block.
    let is_later = match rescaling {
        Rescaling::Always => !has_turns,
        Rescaling::Lazily => false,
        Rescaling::LazilyLater => true,
    };

    let attend = |group: usize| {
        // One instruction has at most 128 columns where warps are launched with fewer registers.
        let widest = if is_transposed || is_converted {
            128
        } else {
            256
        };
        let [of_scores, of_sums] = [block_keys, columns]
            .map(|n| Wgmma::new([4, 1], [64, n / n.div_ceil(widest), 32 / size_of::<T>()]));
        let of_powers = DotOperand::new(0, of_sums.clone(), 4 / size_of::<T>() as u32);
        let of_rows = Slice::new(1, of_scores.clone());
        let of_columns = Slice::new(0, of_scores.clone());
        let scores = || Accumulator::<f32>::zeros([ROWS, block_keys], of_scores.clone());
        let factor = |powers: Tensor<f32>| {
            if !is_transposed {
                let powers = powers.cast::<T>();
                return powers.convert_layout_trivial(of_powers.clone());
            }
            // In the order of the operand first: four elements that are converted in a row are a word of it.
            let powers = order_of_operand(powers, ROWS, block_keys);
            powers.convert_layout_trivial(of_powers.clone()).cast::<T>()
        };
        let right = |values: Smem<T>| {
            if is_transposed {
                values.transpose()
            } else {
                values
            }
        };
        let spread = |of_rows: Tensor<f32>| {
            let column = of_rows.expand_dims(1);
            column.convert_layout_trivial(of_sums.clone())
        };
        let rescaled = |done: Tensor<f32>, rescale: Tensor<f32>| {
            Accumulator::from_tensor(if rescaling == Rescaling::Always {
                done * spread(rescale)
            } else {
                done.rescale(spread(rescale))
            })
        };

        let (mut base, mut round) = (scalar(0), scalar(0));
        let mut tile = drawn.start();
        while tile.number() < drawn.count() {
            let place = problem.tile(tile.number());
            let mut compute = || {
                let blocks = problem.blocks(place);
                let rows = problem.rows(place, group, of_rows.clone());
                let column = arange(0..block_keys, of_columns.clone()).expand_dims(0);
                let asked = queries[group].consumer_wait(queries[group].of_fill(round));
                let q = asked.tiles;
                let rows = problem.ready(rows, q);
                // The scores of step `number`, masked.
                let seen = |s: Tensor<f32>, number: Scalar<i32>, is_masked: bool| {
                    let key = problem.first_key(place, blocks, number, block_keys) + column;
                    let s = problem.scores(rows, key, s);
                    if is_masked {
                        let rows = problem.at(rows, number);
                        select(problem.sees(rows, key), s, f32::NEG_INFINITY)
                    } else {
                        s
                    }
                };

                let unseen = problem.unseen(rows, blocks, group);
                if let Some(unseen) = unseen {
                    for number in range(0, unseen) {
                        let of_unseen = keys.consumer_wait(keys.of_fill(base + number));
                        keys.consumer_release(of_unseen);
                    }
                }
                let start = unseen.unwrap_or_else(|| scalar(0));
                let stage = keys.consumer_wait(keys.of_fill(base + start));
                let how = Powers {
                    is_shifted: is_transposed,
                    exponentials,
                };
                let first = |s: Tensor<f32>, keys: usize| {
                    let (scale, least) = (problem.log2_scale(rows), problem.least());
                    Softmax::first(s, scale, least, [ROWS, keys], how)
                };
                let few = problem.first_keys(group, block_keys);
                let (softmax, powers) = if few < block_keys {
                    let of_few = Wgmma::new([4, 1], [64, few, 32 / size_of::<T>()]);
                    let s = Accumulator::<f32>::zeros([ROWS, few], of_few.clone());
                    let few_keys = stage.tiles.slice(0, 0..few).transpose();
                    let s = s.mma(q, few_keys).wait_all();
                    keys.consumer_release(stage);
                    let rows = problem.rows(place, group, Slice::new(1, of_few.clone()));
                    let column = arange(0..few, Slice::new(0, of_few)).expand_dims(0);
                    let key = problem.first_key(place, blocks, start, block_keys) + column;
                    let s = problem.scores(rows, key, s);
                    let s = select(problem.sees(rows, key), s, f32::NEG_INFINITY);
                    let (softmax, powers) = first(s, few);
                    let others = full([ROWS, block_keys - few], 0.0f32, powers.layout());
                    let powers = powers.cat(others, 1);
                    let powers = powers.convert_layout_trivial(of_scores.clone());
                    (softmax.widened(powers, [ROWS, block_keys]), powers)
                } else {
                    let s = scores().mma(q, stage.tiles.transpose()).wait_all();
                    keys.consumer_release(stage);
                    first(seen(s, start, true), block_keys)
                };
                let first_key =
                    |number: Scalar<i32>| problem.first_key(place, blocks, number, block_keys);
                let powers = problem.kept(rows, first_key(start), powers);
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
                let pass_turn = |turns: NamedTurns<GROUPS>, number: Scalar<i32>| {
                    let is_last_group = group + 1 == GROUPS;
                    if !is_last_group | (number + 1 < blocks.count) {
                        turns.pass(group);
                    }
                };
                if let Some(unseen) = unseen {
                    for number in range(0, unseen) {
                        let of_unseen = values.consumer_wait(values.of_fill(base + number));
                        values.consumer_release(of_unseen);
                        if let Some(turns) = turns {
                            turns.wait(group);
                            pass_turn(turns, number + 1);
                        }
                    }
                }
                let step = |number: Scalar<i32>,
                            is_masked: bool,
                            is_high: Option<Scalar<bool>>,
                            state: State<T>| {
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
                    if is_later {
                        sums = rescaled(sums.wait_older_than(1), rescale);
                    }
                    let sums = sums.mma(powers, right(before.tiles));
                    if let Some(turns) = turns {
                        pass_turn(turns, number);
                    }
                    let s = s.wait_older_than(1);
                    keys.consumer_release(stage);
                    let s = seen(s, number, is_masked);
                    let mut rescale = full([ROWS], 1.0f32, of_rows.clone());
                    let mut next = None;
                    let mut grown = None;
                    if rescaling == Rescaling::Always {
                        rescale = softmax.grow_where(is_high, s);
                        // ptxas does not schedule across a branch: where there is none, exponentials and conversions interleave around the wait.
                        next = Some(softmax.add(s, rescale, ROWS));
                    } else {
                        // In most blocks no maximum grows, and a warp neither exchanges maxima nor rescales.
                        let maxima = softmax.of_threads(is_high, s);
                        let grows = softmax.grows(maxima);
                        if is_later {
                            if grows {
                                (softmax, rescale) = softmax.grown(maxima, ROWS);
                            }
                        } else {
                            grown = Some((grows, maxima));
                        }
                    }
                    let mut done = sums.wait_all();
                    values.consumer_release(before);
                    if let Some((grows, maxima)) = grown {
                        if grows {
                            (softmax, rescale) = softmax.grown(maxima, ROWS);
                            done *= spread(rescale);
                        }
                    } else if !is_later {
                        done *= spread(rescale);
                    }
                    let next = next.unwrap_or_else(|| softmax.add_grown(s, ROWS));
                    let next = problem.kept(rows, first_key(number), next);
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
                    for number in range(start + 1, high) {
                        state = step(number, true, None, state);
                    }
                }
                let first = high.unwrap_or_else(|| start + 1);
                // Behind the masked blocks, since rows that see few keys of these, or none, may have low maxima until then.
                let is_high = is_triple.then(|| state.softmax.is_high::<T>());
                for number in range(first, low.unwrap_or(blocks.count)) {
                    state = step(number, all, is_high, state);
                }
                if let Some(low) = low {
                    for number in range(low, blocks.count) {
                        state = step(number, true, None, state);
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
                if is_later {
                    sums = rescaled(sums.wait_all(), rescale);
                }
                let last = values.consumer_wait(values.of_fill(base + blocks.count - 1));
                let mut sums = sums.mma(powers, right(last.tiles)).wait_all();
                values.consumer_release(last);
                if is_transposed {
                    sums = order_of_values(sums, ROWS, columns);
                }
                let place = output.unwrap_or_else(|| {
                    q.reinterpret([ROWS, of_place], swizzle::<P::Output>(of_place, 2))
                });
                problem.store(rows, sums, softmax, place);
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
                problem.load_blocks(place, blocks, loaded, base, || {
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
    let turn = || {
        let mut base = scalar(0);
        let mut tile = drawn.start();
        while tile.number() < drawn.count() {
            let count = problem.blocks(problem.tile(tile.number())).count;
            for number in range(base, base + count) {
                let from = straight.consumer_wait(straight.of_fill(number));
                let to = values.producer_acquire(values.of_fill(number));
                transpose(from.tiles, to.tiles);
                values.commit(to);
                straight.consumer_release(from);
            }
            base += count;
            tile = drawn.receive(tile);
        }
    };
    let convert = |side: usize| {
        let (from, to) = (loaded[side], [keys, values][side]);
        let mut base = scalar(0);
        let mut tile = drawn.start();
        while tile.number() < drawn.count() {
            let place = problem.tile(tile.number());
            let mut convert = || {
                let blocks = problem.blocks(place);
                let (end, top) = (base + blocks.count, base + blocks.top - 1);
                // Loads of factors are in flight while the block before theirs is converted.
                let mut factors = problem.factors(place, side, blocks.top - 1);
                for fill in range(base, end) {
                    let next = problem.factors(place, side, top - fill - 1);
                    let full = from.consumer_wait(from.of_fill(fill));
                    let stage = to.producer_acquire(to.of_fill(fill));
                    problem.convert(&factors, full.tiles, stage.tiles);
                    to.commit(stage);
                    from.consumer_release(full);
                    factors = next;
                }
                base = end;
            };
            match problem.has_rows(place) {
                Some(has_rows) => {
                    if has_rows {
                        convert();
                    }
                }
                None => convert(),
            }
            tile = drawn.receive(tile);
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
    let parts = if is_transposed {
        parts.worker(Warps(4).registers(TO_TRANSPOSE), turn)
    } else {
        parts
    };
    let sides = if is_converted { 2 } else { 0 };
    let parts = (0..sides).fold(parts, |parts, side| {
        parts.worker(Warps(4).registers(TO_CONVERT), || convert(side))
    });
    let parts = parts.worker(Warps(1).registers(of_producer), load);
    let parts = if P::SENDS {
        parts.worker(Warps(1).registers(of_producer), || problem.send())
    } else {
        parts
    };
    parts.run();
}
