//! CTAs that hand data to each other by flags, tickets and barriers of the grid: silent when each release and acquire is there, and reported
//! when any is weakened to relaxed.

use emulator::Fault;
use emulator::FaultKind::Race;
use tilekit::prelude::*;

use crate::{fault_with, line};

said!("published.rs", [Race]);

/// What is weakened to relaxed: nothing, the release, or the acquire.
const RIGHT: usize = 0;
const NO_RELEASE: usize = 1;
const NO_ACQUIRE: usize = 2;

/// CTAs of each launch, and words of the values that one publishes.
const CTAS: usize = 6;
const WORDS: usize = 128;

/// Runs a kernel on values, flags and a word; what the emulator reports.
fn fault_of<H>(seed: u64, kernel: impl Kernel<H>) -> Option<Box<Fault>>
where
    for<'b> (&'b Buffer<i32>, &'b Buffer<i32>, &'b Buffer<u64>): tilekit::Arguments<H>,
{
    let device = Device::emulator_with_seed(seed);
    let values = Buffer::<i32>::zeros(&device, 4 * CTAS * WORDS).unwrap();
    let flags = Buffer::<i32>::zeros(&device, 4 * CTAS).unwrap();
    let word = Buffer::<u64>::zeros(&device, 1).unwrap();
    fault_with(&device, kernel, CTAS, (&values, &flags, &word))
}

#[track_caller]
fn reported<W, R>(marks: &[&str], wrong: impl Kernel<W> + Copy, right: impl Kernel<R> + Copy)
where
    for<'b> (&'b Buffer<i32>, &'b Buffer<i32>, &'b Buffer<u64>):
        tilekit::Arguments<W> + tilekit::Arguments<R>,
{
    said(marks).of_runs(|seed| fault_of(seed, wrong), |seed| fault_of(seed, right));
}

/// Raises a flag, and waits for one.
fn raise<const HOW: usize>(flag: Ptr<i32>, value: i32) {
    if HOW == NO_RELEASE {
        flag.at(0).relaxed().atomic_store(value);
    } else {
        flag.at(0).release().atomic_store(value);
    }
}

#[device]
fn wait<const HOW: usize>(flag: Ptr<i32>) -> Scalar<i32> {
    if HOW == NO_ACQUIRE {
        flag.at(0).relaxed().atomic_poll(|seen| seen > 0).seen()
    } else {
        flag.at(0).acquire().atomic_poll(|seen| seen > 0).seen()
    }
}

/// A look-back scan whose state and sums are in different words: each CTA publishes the sums of its tile, then those of all tiles up to it. It looks back
/// until it meets a tile of which the latter are there.
#[kernel(warps = 4, instances(<0>, <1>, <2>))]
fn look_back<const HOW: usize>(values: Ptr<i32>, flags: Ptr<i32>, _word: Ptr<u64>) {
    let at = arange(0..WORDS, line());
    let place = |tile: Scalar<i32>, part: i32| (tile * 2 + part) * WORDS + at;
    // By a ticket, so that a CTA waits for running ones alone.
    let tile = flags.at(CTAS).relaxed().atomic_add(1).old();
    let own = at + tile;
    values.at(place(tile, 0)).store(own); // look-back: publishes sums
    raise::<HOW>(flags + tile, 1);
    let mut before: Tensor<i32> = full([WORDS], 0, line());
    let mut last = tile - 1;
    while last >= 0 {
        let state = wait::<HOW>(flags + last);
        if state == 2 {
            before += values.at(place(last, 1)).load(); // look-back: reads prefixes
            last = scalar(-1);
        } else {
            before += values.at(place(last, 0)).load(); // look-back: reads sums
            last -= 1;
        }
    }
    values.at(place(tile, 1)).store(before + own); // look-back: publishes prefixes
    raise::<HOW>(flags + tile, 2);
}

#[test]
fn a_look_back_scan_releases_sums_and_acquires_them() {
    let marks = [
        "look-back: publishes sums",
        "look-back: reads prefixes",
        "look-back: reads sums",
        "look-back: publishes prefixes",
    ];
    reported(&marks, look_back::<NO_RELEASE>, look_back::<RIGHT>);
    reported(&marks, look_back::<NO_ACQUIRE>, look_back::<RIGHT>);
}

/// Two tiles whose steps three CTAs share (stream-K): those that end no tile hand their part to the one that begins it, which adds it up behind its flag.
#[kernel(warps = 4, cooperative, instances(<0>, <1>, <2>))]
fn stream_k<const HOW: usize>(values: Ptr<i32>, flags: Ptr<i32>, _word: Ptr<u64>) {
    let at = arange(0..WORDS, line());
    let shares = StreamK::new(scalar(CTAS as i32 - 2), scalar(8));
    let mut work = shares.start();
    while work.steps_left() > 0 {
        let tile = work.tile();
        let mut sum: Tensor<i32> = full([WORDS], 0, line());
        for step in range(work.first(), work.end()) {
            sum += at + step;
        }
        if work.end() < 8 {
            // The first part of a tile: the rest comes from the programs after this one, last one first.
            let mut steps = work.end();
            let mut other = program_id(0) + 1;
            while steps < 8 {
                steps += wait::<HOW>(flags + other);
                sum += values.at(other * WORDS + at).load(); // stream-K: adds
                other += 1;
            }
        }
        if work.first() == 0 {
            values.at((tile + CTAS) * WORDS + at).store(sum);
        } else {
            values.at(program_id(0) * WORDS + at).store(sum); // stream-K: hands over
            let flag = flags + program_id(0);
            if HOW == NO_RELEASE {
                flag.at(0).relaxed().atomic_store(work.steps_left());
            } else {
                flag.at(0).release().atomic_store(work.steps_left());
            }
        }
        work = shares.next(work);
    }
}

#[test]
fn stream_k_releases_partial_tiles_and_acquires_them() {
    let marks = ["stream-K: adds", "stream-K: hands over"];
    reported(&marks, stream_k::<NO_RELEASE>, stream_k::<RIGHT>);
    reported(&marks, stream_k::<NO_ACQUIRE>, stream_k::<RIGHT>);
}

/// Each CTA stores a part of a sum and draws a ticket; the last one adds up.
#[kernel(warps = 4, instances(<0>, <1>, <2>, <3>))]
fn ticket<const HOW: usize>(values: Ptr<i32>, flags: Ptr<i32>, _word: Ptr<u64>) {
    let (at, ctas) = (arange(0..WORDS, line()), num_programs(0));
    values.at(program_id(0) * WORDS + at).store(at); // ticket: stores
    let counter = flags.at(0);
    let drawn = match HOW {
        RIGHT => counter.acq_rel().atomic_add(1).old(),
        NO_RELEASE => counter.acquire().atomic_add(1).old(),
        NO_ACQUIRE => counter.release().atomic_add(1).old(),
        _ => counter.relaxed().atomic_add(1).old(),
    };
    if drawn == ctas - 1 {
        let mut sum: Tensor<i32> = full([WORDS], 0, line());
        for other in range(0, ctas) {
            sum += values.at(other * WORDS + at).load(); // ticket: adds
        }
        values.at(ctas * WORDS + at).store(sum);
    }
}

#[test]
fn the_last_ticket_of_a_reduction_acquires_what_all_released() {
    let marks = ["ticket: stores", "ticket: adds"];
    reported(&marks, ticket::<NO_RELEASE>, ticket::<RIGHT>);
    reported(&marks, ticket::<NO_ACQUIRE>, ticket::<RIGHT>);
    reported(&marks, ticket::<3>, ticket::<RIGHT>);
}

/// The same by a lock: who holds it adds to one sum.
#[kernel(warps = 4, cooperative, instances(<0>, <1>, <2>))]
fn lock<const HOW: usize>(values: Ptr<i32>, flags: Ptr<i32>, _word: Ptr<u64>) {
    let at = arange(0..WORDS, line());
    // Turns by number: the next one holds the lock when all before have handed it on.
    let me = program_id(0);
    if HOW == NO_ACQUIRE {
        flags.at(0).relaxed().atomic_poll(|turn| turn == me);
    } else {
        flags.at(0).acquire().atomic_poll(|turn| turn == me);
    }
    values.at(at).store(values.at(at).load() + at); // lock: adds
    if HOW == NO_RELEASE {
        flags.at(0).relaxed().atomic_add(1);
    } else {
        flags.at(0).release().atomic_add(1);
    }
}

#[test]
fn a_turn_is_handed_on_by_a_release_and_taken_by_an_acquire() {
    reported(&["lock: adds"], lock::<NO_RELEASE>, lock::<RIGHT>);
    reported(&["lock: adds"], lock::<NO_ACQUIRE>, lock::<RIGHT>);
}

/// Each round a CTA stores, waits for all, and loads what its neighbour stored. `HOW` weakens the arrival or the wait.
#[kernel(warps = 4, cooperative, instances(<0>, <1>, <2>))]
fn rounds<const HOW: usize>(values: Ptr<i32>, flags: Ptr<i32>, _word: Ptr<u64>) {
    let (at, ctas) = (arange(0..WORDS, line()), num_programs(0));
    let me = program_id(0);
    let mut sum = at;
    for round in range(0, 3) {
        let from = values + (round % 2) * CTAS * WORDS;
        from.at(me * WORDS + at).store(sum); // rounds: stores
        if HOW == NO_RELEASE {
            flags.at(0).relaxed().atomic_add(1);
        } else {
            flags.at(0).release().atomic_add(1);
        }
        let all = ctas * (round + 1);
        if HOW == NO_ACQUIRE {
            flags.at(0).relaxed().atomic_poll(|seen| seen >= all);
        } else {
            flags.at(0).acquire().atomic_poll(|seen| seen >= all);
        }
        sum += from.at((me + 1) % ctas * WORDS + at).load(); // rounds: loads
    }
    values.at((me + 2 * CTAS) * WORDS + at).store(sum);
}

/// The same by the library's barrier.
#[kernel(warps = 4, cooperative)]
fn rounds_of_the_library(values: Ptr<i32>, _flags: Ptr<i32>, word: Ptr<u64>) {
    let (at, ctas) = (arange(0..WORDS, line()), num_programs(0));
    let (me, barrier) = (program_id(0), GridBarrier::new(word));
    let mut sum = at;
    for round in range(0, 3) {
        let from = values + (round % 2) * CTAS * WORDS;
        from.at(me * WORDS + at).store(sum);
        barrier.sync();
        sum += from.at((me + 1) % ctas * WORDS + at).load();
    }
    values.at((me + 2 * CTAS) * WORDS + at).store(sum);
}

#[test]
fn a_persistent_barrier_of_the_grid_releases_and_acquires() {
    let marks = ["rounds: stores", "rounds: loads"];
    reported(&marks, rounds::<NO_RELEASE>, rounds::<RIGHT>);
    reported(&marks, rounds::<NO_ACQUIRE>, rounds::<RIGHT>);
    reported(&marks, rounds::<NO_RELEASE>, rounds_of_the_library);
}
