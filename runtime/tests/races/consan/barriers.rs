//! Barriers that nobody completes, and barriers that are none.

use emulator::FaultKind::{Deadlock, Mbarrier as Misuse};
use tilekit::prelude::*;

use crate::{fault_of, line, plain};

said!("barriers.rs");

/// Three partitions of one warp wait, and the fourth is done. Right: it arrives before.
#[kernel(warps = 4, instances(<true>, <false>))]
fn small_partitions<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let never = Mbarrier::alloc(1); // small: made
    let wait = move || {
        never.wait(0); // small: waits
    };
    warp_specialize()
        .main(|| {
            if !WRONG {
                never.arrive();
            }
            out.store(1);
        })
        .worker(Warps(1), wait)
        .worker(Warps(1), wait)
        .worker(Warps(1), wait)
        .run();
}

#[test]
fn partitions_that_wait_for_one_that_is_done_are_a_deadlock() {
    let said = said(&[Deadlock], &["small: made", "small: waits"]);
    said.of(1, small_partitions::<true>, small_partitions::<false>);
}

/// One partition completes a barrier of its own and returns, another one waits for a barrier that nobody completes.
#[kernel(warps = 4, instances(<true>, <false>))]
fn others_return<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let (never, other) = (Mbarrier::alloc(1), Mbarrier::alloc(1)); // return: made
    warp_specialize()
        .main(|| out.store(1))
        .worker(Warps(4), || {
            never.wait(0); // return: waits
        })
        .worker(Warps(4), || {
            other.arrive();
            if !WRONG {
                never.arrive();
            }
        })
        .run();
}

#[test]
fn a_partition_that_waits_after_all_others_have_returned_is_a_deadlock() {
    let said = said(&[Deadlock], &["return: made", "return: waits"]);
    said.of(1, others_return::<true>, others_return::<false>);
}

/// An arrival too many ends the phase after the one that is awaited.
#[kernel(warps = 4, instances(<true>, <false>))]
fn over_arrival<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let met = Mbarrier::alloc(1); // over: made
    met.arrive(); // over: arrives
    if WRONG {
        met.arrive(); // over: arrives again
    }
    met.wait(0); // over: waits
    out.at(arange(0..128, line())).store(1);
}

#[test]
fn an_arrival_too_many_is_reported() {
    let marks = [
        "over: made",
        "over: arrives",
        "over: arrives again",
        "over: waits",
    ];
    said(&[Deadlock, Misuse], &marks).of(1, over_arrival::<true>, over_arrival::<false>);
}

/// Each of two partitions arrives for the other; a barrier counts two.
#[kernel(warps = 4, instances(<2>, <1>))]
fn two_for_two<const COUNT: u32>(_x: Ptr<i32>, out: Ptr<i32>) {
    let (first, second) = (Mbarrier::alloc(COUNT), Mbarrier::alloc(COUNT)); // for two: made
    warp_specialize()
        .main(|| {
            second.arrive();
            first.wait(0); // for two: first
            out.store(1);
        })
        .worker(Warps(4), || {
            first.arrive();
            second.wait(0); // for two: second
        })
        .run();
}

#[test]
fn partitions_that_arrive_once_of_twice_are_a_deadlock() {
    let said = said(
        &[Deadlock],
        &["for two: made", "for two: first", "for two: second"],
    );
    said.of(1, two_for_two::<2>, two_for_two::<1>);
}

/// One partition waits for a phase and ends the next one, for which the other waits: different phases of one barrier, and no deadlock. Wrong: the
/// phase is not ended.
#[kernel(warps = 4, instances(<true>, <false>))]
fn different_phases<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let met = Mbarrier::alloc(1); // different: made
    met.arrive();
    warp_specialize()
        .main(|| {
            met.wait(0); // different: first
            if !WRONG {
                met.arrive();
            }
            out.store(1);
        })
        .worker(Warps(4), || {
            met.wait(1); // different: second
        })
        .run();
}

#[test]
fn waits_for_different_phases_of_one_barrier_are_no_deadlock() {
    let marks = ["different: made", "different: first", "different: second"];
    let said = said(&[Deadlock], &marks);
    said.of(1, different_phases::<true>, different_phases::<false>);
}

/// Two partitions wait for copies of their own: all wait, and none is stuck.
#[kernel(warps = 4)]
fn both_wait_for_copies(x: Ptr<i32>, out: Ptr<i32>) {
    let tiles = Smem::<i32>::alloc([2, 128], plain());
    let full = Mbarriers::alloc(2, Arrivals(1));
    let load = move |half: i32| {
        full.index(half).expect(tiles.index(half).bytes());
        x.bulk(half * 128).load(tiles.index(half), full.index(half));
        full.index(half).wait(0);
        let at = half * 128 + arange(0..128, line());
        out.at(at).store(tiles.index(half).load(line()));
    };
    warp_specialize()
        .main(|| load(0))
        .worker(Warps(4), move || load(1))
        .run();
}

#[test]
fn waits_for_copies_are_no_deadlock() {
    for seed in 0..crate::SEEDS {
        let fault = fault_of(seed, both_wait_for_copies, 1);
        assert!(fault.is_none(), "seed {seed}: {}", fault.unwrap());
    }
}

/// Uses of a barrier that is none: 0 waits, 1 arrives, 2 expects, 3 invalidates. Right: the barrier is made again before.
#[kernel(warps = 4, instances(<0, true>, <0, false>, <1, true>, <1, false>, <2, true>, <2, false>, <3, true>, <3, false>))]
fn none<const USE: usize, const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let met = Mbarrier::alloc(1);
    met.invalidate();
    if !WRONG {
        met.init(1);
    }
    match USE {
        0 => {
            if !WRONG {
                met.arrive();
            }
            met.wait(0); // none: waits
        }
        1 => met.arrive(),     // none: arrives
        2 => met.expect(0),    // none: expects
        _ => met.invalidate(), // none: invalidates
    }
    out.at(arange(0..128, line())).store(1);
}

#[test]
fn a_barrier_that_is_none_has_no_use() {
    said(&[Misuse], &["none: waits"]).of(1, none::<0, true>, none::<0, false>);
    said(&[Misuse], &["none: arrives"]).of(1, none::<1, true>, none::<1, false>);
    said(&[Misuse], &["none: expects"]).of(1, none::<2, true>, none::<2, false>);
    said(&[Misuse], &["none: invalidates"]).of(1, none::<3, true>, none::<3, false>);
}

/// One partition ends a phase and invalidates the barrier, while another one may not have observed that end.
#[kernel(warps = 4, instances(<true>, <false>))]
fn invalidated_under_a_wait<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let (met, seen) = (Mbarrier::alloc(1), Mbarrier::alloc(1)); // under: made
    warp_specialize()
        .main(|| {
            met.arrive(); // under: arrives
            if !WRONG {
                seen.wait(0);
            }
            met.invalidate(); // under: invalidates
            out.store(1);
        })
        .worker(Warps(4), || {
            met.wait(0); // under: waits
            seen.arrive();
        })
        .run();
}

#[test]
fn a_barrier_is_invalidated_after_all_waits() {
    let marks = [
        "under: made",
        "under: arrives",
        "under: invalidates",
        "under: waits",
    ];
    let said = said(&[Misuse], &marks);
    said.of(
        1,
        invalidated_under_a_wait::<true>,
        invalidated_under_a_wait::<false>,
    );
}
