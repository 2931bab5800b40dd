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
