//! The partitions of a CTA of attention forward. It is persistent: it computes tiles of queries, and loops over blocks of K and V for each, so
//! that the matrix of scores S never reaches global memory.
//!
//! A producer warp issues TMA loads; those of the next tile's Q, K and V while the last products of a tile are in flight. [`Consumer`] warpgroups
//! own 64 rows each. The [`Problem`] says what the rows are, which keys they see, and where results go.
//!
//! Products of 8-bit floats have a third stage: they read V transposed, so a warpgroup of its own transposes each block in shared memory.
//! So have products of 16 bits whose K and V are of 8 in memory: two warpgroups convert the blocks of K, and of V.

use tilekit::prelude::*;

use super::buffers::{Buffers, is_converted, is_transposed};
use super::consumer::Consumer;
use super::problem::Problem;
use super::shape::Shape;
use super::transpose::transpose;

/// Registers of a thread that transposes V.
const TO_TRANSPOSE: u32 = 40;

/// Registers of a thread that converts K or V.
const TO_CONVERT: u32 = 104;

/// Attention by `GROUPS` consumer warpgroups and a producer warp. Tiles are drawn from `counter`, which is 0 before and after.
#[device]
pub(in crate::attention) fn attend<T: WgmmaOperand<T, f32>, P: Problem<T>, const GROUPS: usize>(
    problem: P,
    shape: Shape,
    counter: Ptr<i32>,
) {
    let buffers = Buffers::<T, P, GROUPS>::alloc(problem, shape, counter);
    let attend = |group: usize| Consumer::new(problem, shape, &buffers, group).run();
    if P::OVERLAPS {
        launch_dependents();
        launch_wait();
    }
    let [of_consumers, of_producer] = shape.registers;
    let parts = warp_specialize().registers(of_consumers).main(|| attend(0));
    let parts = (1..GROUPS).fold(parts, |parts, group| {
        parts.worker(Warps(4).registers(of_consumers), || attend(group))
    });
    let parts = if is_transposed::<T>() {
        parts.worker(Warps(4).registers(TO_TRANSPOSE), || {
            turn(problem, &buffers);
        })
    } else {
        parts
    };
    let sides = if is_converted::<T, P>() { 2 } else { 0 };
    let parts = (0..sides).fold(parts, |parts, side| {
        parts.worker(Warps(4).registers(TO_CONVERT), || {
            convert(problem, &buffers, side);
        })
    });
    let parts = parts.worker(Warps(1).registers(of_producer), || load(problem, &buffers));
    let parts = if P::SENDS {
        parts.worker(Warps(1).registers(of_producer), || problem.send())
    } else {
        parts
    };
    parts.run();
}

/// The producer warp: draws tiles, and issues the loads of each.
#[device]
fn load<T: Element, P: Problem<T>, const GROUPS: usize>(
    problem: P,
    buffers: &Buffers<T, P, GROUPS>,
) {
    let drawn = buffers.drawn;
    let (mut base, mut round) = (scalar(0), scalar(0));
    let mut tile = drawn.start();
    while tile.number() < drawn.count() {
        let next = drawn.draw();
        let place = problem.tile(tile.number());
        let mut issue = || {
            let blocks = problem.blocks(place);
            problem.load_blocks(place, blocks, buffers.loaded, base, || {
                for (group, &pipeline) in buffers.queries.iter().enumerate() {
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
}

/// The warpgroup that transposes V.
#[device]
fn turn<T: Element, P: Problem<T>, const GROUPS: usize>(
    problem: P,
    buffers: &Buffers<T, P, GROUPS>,
) {
    let (drawn, straight, values) = (buffers.drawn, buffers.straight, buffers.values);
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
}

/// The warpgroup that converts K (`side` 0), or V (1).
#[device]
fn convert<T: Element, P: Problem<T>, const GROUPS: usize>(
    problem: P,
    buffers: &Buffers<T, P, GROUPS>,
    side: usize,
) {
    let drawn = buffers.drawn;
    let (from, to) = (buffers.loaded[side], [buffers.keys, buffers.values][side]);
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
}
