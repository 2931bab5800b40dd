//! Indices into shared memory that lead into another allocation, which no address tells.

use gluon_lang::lang::prelude::*;

use crate::machine::{Argument, buffer, fault, numbers, run, tensor};

fn row() -> Blocked {
    Blocked::new([1], [32], [1], [0])
}

/// Writes one of four buffers between two other allocations and reads it back; `other` is first in front.
#[kernel(warps = 1)]
fn ring(out: Ptr<i32>, stage: i32) {
    let before = Smem::<i32>::alloc([64], Swizzled::new(1, 1, 1, [0]));
    let ring = Smem::<i32>::alloc([4, 64], Swizzled::new(1, 1, 1, [0]));
    let after = Smem::<i32>::alloc([64], Swizzled::new(1, 1, 1, [0]));
    let at = arange(0..64, row());
    before.store(at);
    after.store(at);
    ring.index(stage + 1).store(at * 2);
    let sum = ring.index(stage + 1).load(row()) + before.load(row()) + after.load(row());
    out.at(at).store(sum);
}

/// A row of a tile, whose layout covers all of it.
#[kernel(warps = 1)]
fn row_of_tile(out: Ptr<i32>, row_at: i32) {
    let tile = Smem::<i32>::alloc_with(arange(0..512, row()).reshape([8, 64]), Nvmma::new(0, 32));
    out.at(arange(0..64, row()))
        .store(tile.index(row_at).load(row()));
}

/// Waits for one of two barriers, and loads a block into one of two buffers.
#[kernel(warps = 1)]
fn tma_load(#[block([8, 32], Nvmma::new(128, 32))] a: TensorMap<i32>, buffer: i32, barrier: i32) {
    let tiles = Smem::<i32>::alloc([2, 8, 32], a.layout());
    let full = Mbarriers::alloc(2, Arrivals(1));
    full.index(barrier).expect(a.block_bytes());
    a.load([0, 0], tiles.index(buffer), full.index(barrier));
    full.index(barrier).wait(0);
}

/// The index of a load that does not happen may be anything, and so may that of a loop without rounds.
#[kernel(warps = 1)]
fn unused(out: Ptr<i32>, stage: i32, rounds: i32) {
    let ring = Smem::<i32>::alloc([4, 64], Swizzled::new(1, 1, 1, [0]));
    let at = arange(0..64, row());
    ring.index(0).store(at);
    let mut sum = ring.index(0).load(row());
    for _ in range(0, rounds) {
        sum += ring.index(stage).load(row());
    }
    if stage < 4 {
        sum += ring.index(stage).load(row());
    }
    out.at(at).store(sum);
}

/// Known, but only once constants are folded.
#[kernel(warps = 1)]
fn folded(out: Ptr<i32>, comes: i32) {
    let ring = Smem::<i32>::alloc([4, 64], Swizzled::new(1, 1, 1, [0]));
    let at = arange(0..64, row());
    ring.index(scalar(1) * 3).store(at);
    if comes > 0 {
        ring.index(scalar(2) * 3).store(at);
    }
    out.at(at).store(ring.index(3).load(row()));
}

/// Elements of a tile between two others by computed places: a gather, a scatter, and an atomic of those that a mask leaves.
#[kernel(warps = 1)]
fn by_indices(out: Ptr<i32>, gathered: i32, scattered: i32, added: i32, count: i32) {
    let plain = || Swizzled::plain([0]);
    let at = arange(0..64, row());
    let before = Smem::alloc_with(at, plain());
    let tile = Smem::alloc_with(at, plain());
    let after = Smem::alloc_with(at, plain());
    let found = tile.gather(at + gathered, 0);
    tile.scatter(at, at + scattered, 0);
    tile.at_indices(at + added, 0)
        .mask(at < count)
        .atomic_add(1);
    out.at(at)
        .store(found + tile.load(row()) + before.load(row()) + after.load(row()));
}

/// Looks elements up in a vector that one warp holds, by shuffles.
#[kernel(warps = 1)]
fn looked_up(out: Ptr<i32>, shift: i32, rounds: i32) {
    let at = arange(0..32, row());
    let mut sum = at;
    for _ in range(0, rounds) {
        sum += (at * 5).gather((at & 15) + shift, 0);
    }
    out.at(at).store(sum);
}

/// The same in one that a CTA holds, through shared memory, by indices of 64 bits.
#[kernel(warps = 4)]
fn looked_up_in_cta(out: Ptr<i32>, shift: i64) {
    let at = arange(0..128, Blocked::new([1], [32], [4], [0]));
    let found = (at * 5).gather((127 - at).cast::<i64>() + shift, 0);
    out.at(at).store(found);
}

#[track_caller]
fn check(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "`{part}` is not in\n{said}");
    }
}

#[test]
fn an_index_inside_is_nothing_to_speak_of() {
    let out = buffer(&[0_i32; 64]);
    for stage in -1..3 {
        let after = run(ring, [1; 3], &[out.clone(), Argument::Int(stage)]);
        let expected: Vec<i32> = (0..64).map(|i| 4 * i).collect();
        assert_eq!(numbers::<i32>(&after[0]), expected);
    }
    let after = run(row_of_tile, [1; 3], &[out.clone(), Argument::Int(7)]);
    assert_eq!(numbers::<i32>(&after[0])[0], 7 * 64);
    let rounds = [out, Argument::Int(9), Argument::Int(0)];
    assert_eq!(numbers::<i32>(&run(unused, [1; 3], &rounds)[0])[63], 63);
}

#[test]
fn an_index_outside_is_named_with_its_line_and_allocation() {
    let out = buffer(&[0_i32; 64]);
    for (stage, index) in [
        (3, "index 4 is"),
        (-2, "index -1 is"),
        (1000, "index 1001 is"),
    ] {
        let said = fault(ring, [1; 3], &[out.clone(), Argument::Int(stage)]);
        let line = include_str!("bounds.rs")
            .lines()
            .position(|line| line.contains("ring.index(stage + 1).store"));
        let line = format!(
            "at lowering/tests/asynchronous/bounds.rs:{}:",
            line.unwrap() + 1
        );
        let allocated = "allocated at lowering/tests/asynchronous/bounds.rs:15";
        check(
            &said,
            &[index, "outside 0..4", "[4, 64] of i32", allocated, &line],
        );
    }
    let said = fault(row_of_tile, [1; 3], &[out.clone(), Argument::Int(8)]);
    check(&said, &["index 8 is outside 0..8"]);
    let said = fault(unused, [1; 3], &[out, Argument::Int(4), Argument::Int(1)]);
    check(&said, &["index 4 is outside 0..4"]);
}

#[test]
fn a_computed_index_is_named_as_one_of_buffers_is() {
    let given = |gathered, scattered, added, count| {
        let numbers = [gathered, scattered, added, count].map(Argument::Int);
        [buffer(&[0_i32; 64])]
            .into_iter()
            .chain(numbers)
            .collect::<Vec<_>>()
    };
    // What the mask leaves out may be anywhere.
    let after = run(by_indices, [1; 3], &given(0, 0, 60, 4));
    assert_eq!(
        numbers::<i32>(&after[0])[59..62],
        [4 * 59, 4 * 60 + 1, 4 * 61 + 1]
    );
    for (given, index, line) in [
        (given(1, 0, 0, 64), "index 64", "tile.gather(at"),
        (given(0, -1, 0, 64), "index -1", "tile.scatter(at"),
        (given(0, 0, 60, 5), "index 64", ".atomic_add(1);"),
    ] {
        let said = fault(by_indices, [1; 3], &given);
        let lines = include_str!("bounds.rs").lines();
        let line = lines
            .clone()
            .position(|text| text.trim_start().contains(line));
        let line = format!("asynchronous/bounds.rs:{}:", line.unwrap() + 1);
        let what = "outside 0..64: dimension 0 of [64] of i32 in shared memory, allocated at";
        check(&said, &[index, what, &line]);
    }
}

#[test]
fn an_index_into_a_tensor_is_named_too() {
    let given = |shift, rounds| {
        [
            buffer(&[0_i32; 32]),
            Argument::Int(shift),
            Argument::Int(rounds),
        ]
    };
    let after = run(looked_up, [1; 3], &given(16, 1));
    assert_eq!(numbers::<i32>(&after[0])[5], 5 + 5 * 21);
    // A loop without iterations looks nothing up.
    run(looked_up, [1; 3], &given(17, 0));
    for (shift, index) in [(17, "index 32"), (-1, "index -1")] {
        let said = fault(looked_up, [1; 3], &given(shift, 1));
        let what = "outside 0..32: dimension 0 of a tensor of [32] of i32";
        check(&said, &[index, what, "asynchronous/bounds.rs:"]);
    }
}

#[test]
fn an_index_of_64_bits_counts_whole() {
    let given = |shift| [buffer(&[0_i32; 128]), Argument::Long(shift)];
    let after = run(looked_up_in_cta, [1; 3], &given(0));
    assert_eq!(numbers::<i32>(&after[0])[100], 5 * 27);
    for (shift, index) in [
        (1, "index 128"),
        (-1, "index -1"),
        (1 << 32, "index 4294967"),
    ] {
        let said = fault(looked_up_in_cta, [1; 3], &given(shift));
        check(
            &said,
            &[index, "outside 0..128: dimension 0 of a tensor of [128]"],
        );
    }
}

#[test]
fn a_folded_index_counts_where_it_is_used() {
    let given = |comes| [buffer(&[0_i32; 64]), Argument::Int(comes)];
    let after = run(folded, [1; 3], &given(0));
    assert_eq!(numbers::<i32>(&after[0])[63], 63);
    check(
        &fault(folded, [1; 3], &given(1)),
        &["index 6 is outside 0..4"],
    );
}

#[test]
fn indices_of_tma_copies_and_mbarriers_are_checked_too() {
    let a = tensor(&[0_i32; 256], &[8, 32]);
    let given = |buffer, barrier| [a.clone(), Argument::Int(buffer), Argument::Int(barrier)];
    run(tma_load, [1; 3], &given(1, 1));
    check(
        &fault(tma_load, [1; 3], &given(2, 0)),
        &["index 2", "[2, 8, 32] of i32"],
    );
    check(
        &fault(tma_load, [1; 3], &given(0, 2)),
        &["index 2 is outside 0..2"],
    );
}
