//! Deadlocks, misused mbarriers, and tiles that are views of one another.

use emulator::FaultKind::{Deadlock, Mbarrier as Misuse, Race, Uninitialised};
use tilekit::prelude::*;

use crate::{fault_of, line, plain};

said!("barriers.rs");

/// Each waits for what the other does afterwards.
#[kernel(warps = 4, instances(<true>, <false>))]
fn two_partitions<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let (first, second) = (Mbarrier::alloc(1), Mbarrier::alloc(1)); // circle: made
    warp_specialize()
        .main(|| {
            if !WRONG {
                second.arrive();
            }
            first.wait(0); // circle: first
            if WRONG {
                second.arrive();
            }
            out.store(1);
        })
        .worker(Warps(4), || {
            second.wait(0); // circle: second
            first.arrive();
        })
        .run();
}

#[test]
fn two_partitions_do_not_wait_in_a_circle() {
    let said = said(
        &[Deadlock],
        &["circle: made", "circle: first", "circle: second"],
    );
    said.of(1, two_partitions::<true>, two_partitions::<false>);
}

/// An arrival too few.
#[kernel(warps = 4, instances(<true>, <false>))]
fn under_arrival<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let met = Mbarrier::alloc(2); // too few: made
    met.arrive();
    if !WRONG {
        met.arrive();
    }
    met.wait(0); // too few
    out.at(arange(0..128, line())).store(1);
}

#[test]
fn a_phase_has_no_fewer_arrivals_than_its_barrier_counts() {
    let too_few = said(&[Deadlock], &["too few: made", "too few"]);
    too_few.of(1, under_arrival::<true>, under_arrival::<false>);
}

/// A wait for the phase after the one that is awaited.
#[kernel(warps = 4, instances(<true>, <false>))]
fn phases<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let met = Mbarrier::alloc(1); // phases: made
    met.arrive();
    met.wait(0);
    met.wait(if WRONG { 1 } else { 0 }); // phases
    out.at(arange(0..128, line())).store(1);
}

#[test]
fn a_wait_names_a_phase_that_ends() {
    said(&[Deadlock], &["phases: made", "phases"]).of(1, phases::<true>, phases::<false>);
}

/// All threads wait, and a copy in flight ends that: no deadlock.
#[kernel(warps = 4)]
fn waits_for_tma(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1);
    full.expect(tile.bytes());
    x.bulk(0).load(tile, full);
    full.wait(0);
    out.at(arange(0..128, line())).store(tile.load(line()));
}

#[test]
fn waiting_for_a_copy_is_no_deadlock() {
    for seed in 0..crate::SEEDS {
        let fault = fault_of(seed, waits_for_tma, 1);
        assert!(fault.is_none(), "seed {seed}: {}", fault.unwrap());
    }
}

#[kernel(warps = 4, instances(<true>, <false>))]
fn underflow<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let met = Mbarrier::alloc(1); // underflow: made
    met.arrival().count(if WRONG { 2 } else { 1 }).arrive(); // underflow
    met.wait(0);
    out.at(arange(0..128, line())).store(1);
}

#[kernel(warps = 4, instances(<true>, <false>))]
fn initialised_again<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let met = Mbarrier::alloc(1); // again: made
    met.arrive();
    met.wait(0);
    if !WRONG {
        met.invalidate();
    }
    met.init(1); // again
    met.arrive();
    met.wait(0);
    out.at(arange(0..128, line())).store(1);
}

#[kernel(warps = 4, instances(<true>, <false>))]
fn used_after_its_end<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let met = Mbarrier::alloc(1);
    met.arrive();
    met.wait(0);
    met.invalidate();
    if WRONG {
        met.arrive(); // over
    }
    out.at(arange(0..128, line())).store(1);
}

/// A barrier is invalidated and used before it is made again.
#[kernel(warps = 4, instances(<true>, <false>))]
fn used_before_its_begin<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let met = Mbarrier::alloc(1);
    met.invalidate();
    if !WRONG {
        met.init(1);
    }
    met.arrive(); // before
    met.wait(0); // before: waits
    if WRONG {
        met.init(1);
    }
    out.at(arange(0..128, line())).store(1);
}

#[test]
fn a_barrier_is_used_between_its_begin_and_its_end() {
    said(&[Misuse], &["underflow: made", "underflow"]).of(1, underflow::<true>, underflow::<false>);
    let said_again = said(&[Misuse], &["again: made", "again"]);
    said_again.of(1, initialised_again::<true>, initialised_again::<false>);
    said(&[Misuse], &["over"]).of(1, used_after_its_end::<true>, used_after_its_end::<false>);
    let said_before = said(&[Misuse], &["before", "before: waits"]);
    said_before.of(
        1,
        used_before_its_begin::<true>,
        used_before_its_begin::<false>,
    );
}

/// One partition stores by one name of a tile, another one loads by another name; `WRONG` leaves out the wait.
#[kernel(warps = 4, instances(<0, true>, <0, false>, <1, true>, <1, false>, <2, true>, <2, false>))]
fn names_of_one_tile<const HOW: usize, const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([256], plain());
    let full = Mbarrier::alloc(1);
    let part = match HOW {
        0 => tile.slice(0, 0..128),
        1 => tile.reshape([2, 128]).index(0),
        _ => tile.reinterpret::<i32>([256], plain()).slice(0, 128..256),
    };
    warp_specialize()
        .main(|| {
            tile.store(arange(0..256, line())); // names: stores
            full.arrive();
        })
        .worker(Warps(4), || {
            if !WRONG {
                full.wait(0);
            }
            out.at(arange(0..128, line())).store(part.load(line())); // names: loads
        })
        .run();
}

#[test]
fn views_of_one_tile_are_one_memory() {
    let said = said(&[Race, Uninitialised], &["names: stores", "names: loads"]);
    said.of(
        1,
        names_of_one_tile::<0, true>,
        names_of_one_tile::<0, false>,
    );
    said.of(
        1,
        names_of_one_tile::<1, true>,
        names_of_one_tile::<1, false>,
    );
    said.of(
        1,
        names_of_one_tile::<2, true>,
        names_of_one_tile::<2, false>,
    );
}
