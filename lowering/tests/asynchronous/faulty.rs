//! Kernels that are wrong in the ways in which kernels are: the report names the line in Rust, the other line concerned, and the
//! help.

use emulator::FaultKind;
use gluon_lang::lang::KernelFn;
use gluon_lang::lang::prelude::*;

use crate::machine::{Argument, buffer, faults};

fn line() -> Blocked {
    Blocked::new([1], [32], [4], [0])
}

fn plain() -> Swizzled {
    Swizzled::plain([0])
}

/// The number of the line that ends in a comment.
fn line_of(mark: &str) -> u32 {
    let comment = format!("// {mark}");
    let mut lines = include_str!("faulty.rs").lines();
    let at = lines.position(|line| line.ends_with(&comment));
    at.unwrap_or_else(|| panic!("no line is marked {mark}")) as u32 + 1
}

/// In every order the report is at one of the lines, speaks of one of these, shows the lines of the others, and helps.
#[track_caller]
fn check<Args>(
    kernel: impl KernelFn<Args>,
    (ctas, arguments): (u32, &[Argument]),
    kinds: &[FaultKind],
    (marks, related): (&[&str], &[&str]),
    phrases: &[&str],
) {
    for fault in faults(kernel, [ctas, 1, 1], arguments) {
        assert!(kinds.contains(&fault.kind), "{fault}");
        let at = fault.place.as_ref().expect("the place is known").line;
        assert!(marks.iter().any(|mark| line_of(mark) == at), "{fault}");
        let text = fault.to_string();
        assert!(
            phrases.iter().any(|phrase| text.contains(phrase)),
            "{fault}"
        );
        for mark in related {
            let line = line_of(mark);
            assert!(
                text.contains(&format!("faulty.rs:{line}:")),
                "{mark}: {fault}"
            );
        }
        assert!(fault.help.is_some(), "{fault}");
    }
}

fn words(count: usize) -> Argument {
    buffer(&vec![1_i32; count])
}

#[kernel(warps = 4)]
fn loads_beyond(x: Ptr<i32>, out: Ptr<i32>) {
    let at = arange(0..128, line());
    out.at(at).store(x.at(at + 1).load()); // loads beyond
}

#[kernel(warps = 4)]
fn stores_before(out: Ptr<i32>) {
    let at = arange(0..128, line());
    out.at(at - 1).store(at); // stores before
}

#[kernel(warps = 4)]
fn copies_crooked(x: Ptr<i32>, out: Ptr<i32>, from: i32) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1);
    full.expect(tile.bytes());
    x.bulk(from).load(tile, full); // copies crooked
    full.wait(0);
    out.at(arange(0..128, line())).store(tile.load(line()));
}

#[kernel(warps = 4)]
fn reads_unwritten_elements(out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    out.at(arange(0..128, line())).store(tile.load(line())); // reads unwritten
}

#[test]
fn places_that_are_not_there() {
    check(
        loads_beyond,
        (1, &[words(128), words(128)]),
        &[FaultKind::OutOfBounds],
        (&["loads beyond"], &[]),
        &["it ends 4 bytes past the end of the allocation of 512 bytes"],
    );
    check(
        stores_before,
        (1, &[words(128)]),
        &[FaultKind::OutOfBounds],
        (&["stores before"], &[]),
        &["it is 4 bytes before the allocation of 512 bytes"],
    );
    check(
        copies_crooked,
        (1, &[words(132), words(128), Argument::Int(1)]),
        &[FaultKind::Misaligned],
        (&["copies crooked"], &[]),
        &["the address must be a multiple of 16"],
    );
    check(
        reads_unwritten_elements,
        (1, &[words(128)]),
        &[FaultKind::Uninitialised],
        (&["reads unwritten"], &[]),
        &["nothing has written byte 0 of it"],
    );
}

#[kernel(warps = 4)]
fn waits_for_the_wrong_phase(x: Ptr<i32>, out: Ptr<i32>, phase: i32) {
    let tile = Smem::alloc_with(arange(0..128, line()), plain());
    let full = Mbarrier::alloc(1); // wrong phase: made
    fence_async_shared();
    full.expect(tile.bytes());
    x.bulk(0).load(tile, full); // wrong phase: copied
    full.wait(phase); // wrong phase: waits
    out.at(arange(0..128, line())).store(tile.load(line())); // wrong phase: loads
    full.wait(0);
}

#[kernel(warps = 4)]
fn waits_once_more(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1); // once more: made
    full.expect(tile.bytes());
    x.bulk(0).load(tile, full);
    full.wait(0);
    full.wait(1); // waits once more
    out.at(arange(0..128, line())).store(tile.load(line()));
}

#[kernel(warps = 4)]
fn counts_too_many(out: Ptr<i32>) {
    let met = Mbarrier::alloc(2); // counts too many: made
    met.arrive();
    met.wait(0); // counts too many
    out.at(arange(0..128, line())).store(1);
}

#[kernel(warps = 4)]
fn expects_too_much(x: Ptr<i32>, out: Ptr<i32>, more: i32) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1); // expects too much: made
    full.expect(tile.bytes() as i32 + more);
    x.bulk(0).load(tile, full); // expects too much: copied
    full.wait(0); // expects too much
    out.at(arange(0..128, line())).store(tile.load(line()));
}

#[kernel(warps = 4)]
fn expects_too_little(x: Ptr<i32>, out: Ptr<i32>) {
    let tiles = Smem::<i32>::alloc([2, 128], plain());
    let full = Mbarrier::alloc(1); // expects too little: made
    full.expect(tiles.index(0).bytes());
    x.bulk(0).load(tiles.index(0), full); // expects too little: first
    x.bulk(0).load(tiles.index(1), full); // expects too little
    full.wait(0); // expects too little: waits
    out.at(arange(0..128, line()))
        .store(tiles.index(1).load(line()));
}

#[test]
fn waits_that_never_end() {
    check(
        waits_once_more,
        (1, &[words(256), words(128)]),
        &[FaultKind::Deadlock],
        (&["waits once more"], &["once more: made"]),
        &["1 of 1 arrivals and 0 bytes are missing"],
    );
    check(
        counts_too_many,
        (1, &[words(128)]),
        &[FaultKind::Deadlock],
        (&["counts too many"], &["counts too many: made"]),
        &["1 of 2 arrivals and 0 bytes are missing"],
    );
    check(
        expects_too_much,
        (1, &[words(256), words(128), Argument::Int(16)]),
        &[FaultKind::Deadlock],
        (&["expects too much"], &["expects too much: made"]),
        &["0 of 1 arrivals and 16 bytes are missing"],
    );
}

#[test]
fn phases_that_end_too_early() {
    check(
        waits_for_the_wrong_phase,
        (1, &[words(256), words(128), Argument::Int(1)]),
        &[FaultKind::Race],
        (
            &["wrong phase: loads", "wrong phase: copied"],
            &["wrong phase: copied"],
        ),
        &[
            "while a copy in flight writes them",
            "which a copy wrote that this warp has not waited for",
            "no barrier in between",
        ],
    );
    for_each_order_one_of(
        expects_too_little,
        &[words(256), words(128)],
        &[
            "expects too little",
            "expects too little: first",
            "expects too little: waits",
        ],
    );
}

/// The same mistake shows in one of two ways, as the copies come early or late.
#[track_caller]
fn for_each_order_one_of<Args>(
    kernel: impl KernelFn<Args>,
    arguments: &[Argument],
    marks: &[&str],
) {
    for fault in faults(kernel, [1; 3], arguments) {
        let at = fault.place.as_ref().expect("the place is known").line;
        assert!(marks.iter().any(|mark| line_of(mark) == at), "{fault}");
        let says = [
            "whose bytes it does not expect",
            "bytes more have been delivered than were expected",
        ];
        let text = fault.to_string();
        assert!(says.iter().any(|phrase| text.contains(phrase)), "{fault}");
        assert!(fault.help.is_some(), "{fault}");
    }
}

#[kernel(warps = 4)]
fn shares_without_a_barrier(out: Ptr<i32>) {
    let tile = Smem::alloc_with(arange(0..128, line()), plain());
    warp_specialize()
        .main(|| tile.store(tile.load(line()) * 2)) // shares: changes
        .worker(Warps(4), || {
            out.at(arange(0..128, line())).store(tile.load(line())); // shares: reads
        })
        .run();
}

#[kernel(warps = 4)]
fn refills_what_is_read(x: Ptr<i32>, out: Ptr<i32>, rounds: i32) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1); // refills: made
    warp_specialize()
        .main(|| {
            for round in range(0, rounds) {
                full.wait(round & 1); // refills: waits
                out.at(arange(0..128, line())).store(tile.load(line())); // refills: reads
            }
        })
        .worker(Warps(1), || {
            for _ in range(0, rounds) {
                full.expect(tile.bytes()); // refills: expects
                x.bulk(0).load(tile, full); // refills
            }
        })
        .run();
}

#[kernel(warps = 4)]
fn frees_for_one_of_two(x: Ptr<i32>, out: Ptr<i32>, rounds: i32) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1);
    // Two partitions read and arrive.
    let empty = Mbarrier::alloc(1); // frees: made
    let read = move |place: i32| {
        for round in range(0, rounds) {
            full.wait(round & 1);
            let from = out + place * 128;
            from.at(arange(0..128, line())).store(tile.load(line())); // frees: reads
            empty.arrive(); // frees
        }
    };
    warp_specialize()
        .main(|| read(0))
        .worker(Warps(4), || read(1))
        .worker(Warps(1), || {
            for round in range(0, rounds) {
                empty.wait_when(round > 0, (round & 1) ^ 1);
                full.expect(tile.bytes()); // frees: expects
                x.bulk(0).load(tile, full); // frees: refills
            }
        })
        .run();
}

#[kernel(warps = 4)]
fn writes_what_is_stored(out: Ptr<i32>) {
    let tile = Smem::alloc_with(arange(0..128, line()), plain());
    out.bulk(0).store(tile); // stored
    tile.store(arange(0..128, line()) + 1); // stored: writes
    tma_store_wait(0);
}

#[kernel(warps = 4)]
fn leaves_before_the_store_is_read(out: Ptr<i32>) {
    let tile = Smem::alloc_with(arange(0..128, line()), plain());
    out.bulk(0).store(tile); // leaves: stores
}

#[test]
fn tiles_that_are_shared_without_order() {
    check(
        shares_without_a_barrier,
        (1, &[words(128)]),
        &[FaultKind::Race],
        (
            &["shares: changes", "shares: reads"],
            &["shares: changes", "shares: reads"],
        ),
        &["with no barrier in between"],
    );
    check(
        refills_what_is_read,
        (1, &[words(128), words(128), Argument::Int(3)]),
        &[FaultKind::Mbarrier],
        (&["refills: expects"], &["refills: made"]),
        &[
            "still waits for 512 bytes of copies",
            "nothing orders it after the end of phase 0",
        ],
    );
    check(
        frees_for_one_of_two,
        (1, &[words(128), words(256), Argument::Int(3)]),
        &[FaultKind::Mbarrier, FaultKind::Race],
        (
            &["frees", "frees: reads", "frees: refills", "frees: expects"],
            &[],
        ),
        &[
            "while a copy in flight writes them",
            "in another schedule it is one arrival too many for that phase",
            "read, with no barrier in between",
            "has observed that: the parity is the same again",
        ],
    );
    check(
        writes_what_is_stored,
        (1, &[words(128)]),
        &[FaultKind::Race],
        (&["stored: writes", "stored"], &["stored: writes", "stored"]),
        &[
            "while a bulk store in flight may read them",
            "wrote, with no barrier in between",
        ],
    );
    check(
        leaves_before_the_store_is_read,
        (1, &[words(128)]),
        &[FaultKind::Race],
        (&["leaves: stores"], &["leaves: stores"]),
        &["exit while bulk stores may still read shared memory"],
    );
}

#[kernel(warps = 4)]
fn two_wait_for_each_other(out: Ptr<i32>) {
    let (first, second) = (NamedBarrier::new(256), NamedBarrier::new(256));
    warp_specialize()
        .main(|| {
            first.sync(); // crossed: first
            second.sync();
        })
        .worker(Warps(4), || {
            second.sync(); // crossed: second
            first.sync();
            out.at(arange(0..128, line())).store(1);
        })
        .run();
}

#[kernel(warps = 4)]
fn one_thread_arrives_twice(out: Ptr<i32>, rounds: i32) {
    let met = NamedBarrier::new(256);
    warp_specialize()
        .main(|| {
            for _ in range(0, rounds + 1) {
                met.sync(); // once more
            }
        })
        .worker(Warps(4), || {
            for _ in range(0, rounds) {
                met.arrive(); // arrives again
            }
            out.at(arange(0..128, line())).store(1);
        })
        .run();
}

#[test]
fn partitions_that_miss_each_other() {
    check(
        two_wait_for_each_other,
        (1, &[words(128)]),
        &[FaultKind::Deadlock],
        (
            &["crossed: first", "crossed: second"],
            &["crossed: first", "crossed: second"],
        ),
        &["of 256 threads have arrived"],
    );
    check(
        one_thread_arrives_twice,
        (1, &[words(128), Argument::Int(2)]),
        &[FaultKind::IllegalOperand],
        (&["arrives again"], &["arrives again"]),
        &["a second time in the same phase"],
    );
}

#[kernel(warps = 4, cluster = 2)]
fn sends_and_leaves(out: Ptr<i32>, waits: i32) {
    let sent = Smem::alloc_with(arange(0..128, line()), plain());
    let got = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1);
    full.expect(got.bytes());
    cluster_barrier();
    got.in_cta(cluster_rank() ^ 1).bulk().store(sent, full); // sends
    full.wait_when(waits > 0, 0);
    out.at(arange(0..128, line())).store(1);
    cluster_barrier_relaxed();
}

#[kernel(warps = 4, cluster = 2)]
fn sends_to_one_that_expects_nothing(x: Ptr<i32>, out: Ptr<i32>) {
    let got = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1); // unasked: made
    full.expect_when(cluster_rank() == 0, got.bytes());
    cluster_barrier();
    let copy = x.bulk(0).multicast(0b11).when(cluster_rank() == 0);
    copy.load(got, full); // unasked
    full.wait_when(cluster_rank() == 0, 0);
    out.at(arange(0..128, line())).store(1);
    cluster_barrier();
}

#[test]
fn clusters_that_do_not_agree() {
    check(
        sends_and_leaves,
        (2, &[words(128), Argument::Int(0)]),
        &[FaultKind::Race],
        (&["sends"], &["sends"]),
        &["may exit while this copy reads or writes its shared memory"],
    );
    check(
        sends_to_one_that_expects_nothing,
        (2, &[words(128), words(128)]),
        &[FaultKind::Race],
        (&["unasked"], &["unasked"]),
        &["may exit while this copy reads or writes its shared memory"],
    );
}

#[kernel(warps = 4)]
fn uses_what_is_over(out: Ptr<i32>) {
    let met = Mbarrier::alloc(1);
    met.arrive();
    met.wait(0);
    met.invalidate();
    met.arrive(); // over
    out.at(arange(0..128, line())).store(1);
}

#[test]
fn barriers_that_are_no_more() {
    check(
        uses_what_is_over,
        (1, &[words(128)]),
        &[FaultKind::Mbarrier],
        (&["over"], &[]),
        &["there is no initialised mbarrier"],
    );
}
