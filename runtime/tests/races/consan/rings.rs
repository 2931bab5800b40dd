//! Partitions that hand tiles to each other in loops, and rings of operands.

use emulator::FaultKind::{Deadlock, Mbarrier as Misuse, Race, Uninitialised, Wgmma as Products};
use tilekit::prelude::*;

use crate::consan::{SIDE, fault_of_maps};
use crate::{line, plain};

said!(
    "rings.rs",
    [Race, Uninitialised, Misuse, Deadlock, Products]
);

/// Rounds of each loop.
const ROUNDS: i32 = 10;

/// TMA fills a ring a stage ahead while one product is in flight: that takes three stages.
#[kernel(warps = 4, instances(<2>, <3>))]
fn ring<const STAGES: usize>(
    #[block([SIDE, SIDE], Nvmma::B128)] a: TensorMap<f16>,
    #[block([SIDE, SIDE], Nvmma::B128)] b: TensorMap<f16>,
    out: Ptr<f32>,
) {
    let left = Smem::<f16>::alloc([STAGES, SIDE, SIDE], a.layout());
    let right = Smem::<f16>::alloc([STAGES, SIDE, SIDE], b.layout());
    let full = Mbarriers::alloc(STAGES, Arrivals(1)); // ring: made
    let load = |step: Scalar<i32>| {
        let (stage, to) = (step % STAGES, full.index(step % STAGES));
        to.expect(a.block_bytes() + b.block_bytes()); // ring: expects
        a.load([0, 0], left.index(stage), to); // ring: loads
        b.load([0, 0], right.index(stage), to); // ring: loads too
    };
    let mut acc = Accumulator::<f32>::zeros([SIDE, SIDE], Wgmma::new([4, 1], [64, 64, 16]));
    load(scalar(0));
    for step in range(0, ROUNDS) {
        if step < ROUNDS - 1 {
            load(step + 1);
        }
        let stage = step % STAGES;
        full.index(stage).wait(step / STAGES % 2); // ring: waits
        acc = acc.mma(left.index(stage), right.index(stage)); // ring: multiplies
        acc = acc.wait(1);
    }
    out.store(acc.wait_all().sum(1).sum(0).scalar());
}

#[test]
fn a_ring_that_is_filled_ahead_has_a_stage_for_each_product_in_flight() {
    let said = said(&[
        "ring: made",
        "ring: expects",
        "ring: loads",
        "ring: loads too",
        "ring: waits",
        "ring: multiplies",
    ]);
    said.of_runs(
        |seed| fault_of_maps(seed, ring::<2>),
        |seed| fault_of_maps(seed, ring::<3>),
    );
}

/// One partition stores, two load, each with a barrier in both directions. The storing one leaves out the wait for 0 or 1; the loading
/// ones leave out that for 2 and for 3.
#[kernel(warps = 4, instances(<0>, <1>, <2>, <3>, <4>))]
fn one_to_two<const MISSING: i32>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let empty = Mbarriers::alloc(2, Arrivals(1)); // to two: empty
    let filled = Mbarriers::alloc(2, Arrivals(1)); // to two: filled
    let at = || arange(0..128, line());
    let consume = move |who: i32| {
        let mut sum = at();
        for round in range(0, ROUNDS) {
            if MISSING != who + 2 {
                filled.index(who).wait(round % 2); // to two: waits for a tile
            }
            sum += tile.load(line()); // to two: loads
            empty.index(who).arrive(); // to two: frees
        }
        out.at(at() + who * 128).store(sum);
    };
    warp_specialize()
        .main(|| {
            for round in range(0, ROUNDS) {
                for who in 0..2 {
                    if MISSING != who {
                        empty.index(who).wait((round + 1) % 2); // to two: waits
                    }
                }
                tile.store(at() + round); // to two: stores
                filled.index(0).arrive(); // to two: fills
                filled.index(1).arrive(); // to two: fills too
            }
        })
        .worker(Warps(4), move || consume(0))
        .worker(Warps(4), move || consume(1))
        .run();
}

#[test]
fn each_wait_of_a_loop_between_three_partitions_is_needed() {
    let said = said(&[
        "to two: empty",
        "to two: filled",
        "to two: waits for a tile",
        "to two: loads",
        "to two: frees",
        "to two: waits",
        "to two: stores",
        "to two: fills",
        "to two: fills too",
    ]);
    said.of(1, one_to_two::<0>, one_to_two::<4>);
    said.of(1, one_to_two::<1>, one_to_two::<4>);
    said.of(1, one_to_two::<2>, one_to_two::<4>);
    said.of(1, one_to_two::<3>, one_to_two::<4>);
}

/// Two tiles are filled one after the other; after the first arrival only the first is read.
#[kernel(warps = 4, instances(<1>, <0>))]
fn one_after_the_other<const READ: i32>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tiles = Smem::<i32>::alloc([2, 128], plain());
    let filled = Mbarriers::alloc(2, Arrivals(1));
    let empty = Mbarrier::alloc(1);
    warp_specialize()
        .main(|| {
            for round in range(0, ROUNDS) {
                empty.wait((round + 1) % 2);
                tiles.index(0).store(arange(0..128, line()) + round); // one after: first
                filled.index(0).arrive();
                tiles.index(1).store(arange(0..128, line()) + round); // one after: second
                filled.index(1).arrive();
            }
        })
        .worker(Warps(4), || {
            let mut sum = arange(0..128, line());
            for round in range(0, ROUNDS) {
                filled.index(0).wait(round % 2);
                sum += tiles.index(READ).load(line()); // one after: loads
                filled.index(1).wait(round % 2);
                empty.arrive();
            }
            out.at(arange(0..128, line())).store(sum);
        })
        .run();
}

#[test]
fn an_arrival_hands_on_the_stores_before_it_alone() {
    let said = said(&["one after: first", "one after: second", "one after: loads"]);
    said.of(1, one_after_the_other::<1>, one_after_the_other::<0>);
}

/// Two partitions fill a tile each and arrive at one barrier, two load a tile each and free both; one of the two does not wait.
#[kernel(warps = 4, instances(<0>, <1>, <2>))]
fn two_to_two<const MISSING: i32>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tiles = Smem::<i32>::alloc([2, 128], plain());
    let filled = Mbarrier::alloc(2); // two to two: filled
    let empty = Mbarriers::alloc(2, Arrivals(2)); // two to two: empty
    let at = || arange(0..128, line());
    let produce = move |who: i32| {
        for round in range(0, ROUNDS) {
            empty.index(who).wait((round + 1) % 2); // two to two: waits
            tiles.index(who).store(at() + round); // two to two: stores
            filled.arrive(); // two to two: fills
        }
    };
    let consume = move |who: i32| {
        let mut sum = at();
        for round in range(0, ROUNDS) {
            if MISSING != who {
                filled.wait(round % 2); // two to two: waits for a tile
            }
            sum += tiles.index(who).load(line()); // two to two: loads
            empty.index(0).arrive(); // two to two: frees
            empty.index(1).arrive(); // two to two: frees too
        }
        out.at(at() + who * 128).store(sum);
    };
    warp_specialize()
        .main(|| produce(0))
        .worker(Warps(4), move || produce(1))
        .worker(Warps(4), move || consume(0))
        .worker(Warps(4), move || consume(1))
        .run();
}

#[test]
fn each_consumer_of_a_loop_waits_for_its_producers() {
    let said = said(&[
        "two to two: filled",
        "two to two: empty",
        "two to two: waits",
        "two to two: stores",
        "two to two: fills",
        "two to two: waits for a tile",
        "two to two: loads",
        "two to two: frees",
        "two to two: frees too",
    ]);
    said.of(1, two_to_two::<0>, two_to_two::<2>);
    said.of(1, two_to_two::<1>, two_to_two::<2>);
}
