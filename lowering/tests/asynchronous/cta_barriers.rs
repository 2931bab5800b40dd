//! CTA barriers that the author writes, for exchanges through global memory.

use gluon_lang::lang::prelude::*;

use crate::machine::{Argument, buffer, numbers, ptx, run};

/// Reverses a row in place, `rounds` times, and adds 1 each time.
#[kernel(warps = 4)]
fn reversed(x: Ptr<i32>, rounds: i32) {
    let at = arange(0..128, Blocked::new([1], [32], [4], [0]));
    for _ in range(0, rounds) {
        let other = x.at(127 - at).load();
        cta_barrier();
        x.at(at).store(other + 1);
        cta_barrier();
    }
}

/// The same by the threads of a partition, while those of another reverse a row of theirs.
#[kernel(warps = 4)]
fn reversed_by_partitions(x: Ptr<i32>, rounds: i32) {
    let halves = |start: i32, warps: u32, rounds: Scalar<i32>| {
        let at = arange(0..128, Blocked::new([4 / warps], [32], [warps], [0]));
        for _ in range(0, rounds) {
            let other = x.at(start + 127 - at).load();
            cta_barrier();
            x.at(start + at).store(other + 1);
            cta_barrier();
        }
    };
    warp_specialize()
        .main(|| halves(0, 4, rounds))
        .worker(Warps(2), || halves(128, 2, rounds + 1))
        .worker(Warps(1), || halves(256, 1, rounds + 2))
        .run();
}

/// Loads that only a barrier tells apart.
#[kernel(warps = 1)]
fn loaded_again(x: Ptr<i32>) {
    let at = arange(0..32, Blocked::new([1], [32], [1], [0]));
    let before = x.at(at).load();
    cta_barrier();
    x.at(at).store(before + x.at(at).load());
}

#[test]
fn threads_exchange_through_global_memory() {
    let row: Vec<i32> = (0..384).map(|i| i * i).collect();
    let after = |start: usize, rounds: i32| -> Vec<i32> {
        let of = |i: usize| if rounds % 2 == 0 { i } else { 127 - i };
        (0..128).map(|i| row[start + of(i)] + rounds).collect()
    };
    for rounds in [0, 1, 4, 5] {
        let given = [buffer(&row), Argument::Int(rounds)];
        let found = numbers::<i32>(&run(reversed, [1; 3], &given)[0]);
        assert_eq!(found[..128], after(0, rounds));
        let found = numbers::<i32>(&run(reversed_by_partitions, [1; 3], &given)[0]);
        let parts = [
            after(0, rounds),
            after(128, rounds + 1),
            after(256, rounds + 2),
        ];
        assert_eq!(found, parts.concat());
    }
}

#[test]
fn a_load_is_not_merged_with_one_behind_a_barrier() {
    let ptx = ptx(loaded_again);
    assert_eq!(ptx.matches("ld.global").count(), 2, "{ptx}");
    assert_eq!(ptx.matches("bar.warp.sync").count(), 1, "{ptx}");
}
