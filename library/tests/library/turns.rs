//! Turns of any number of groups.

use tilekit::prelude::*;

use crate::launch;

/// Each group in its turn makes `3 x + group` of a number, `rounds` times.
#[device]
fn take_turns<const GROUPS: usize>(out: Ptr<i32>, rounds: Scalar<i32>) {
    let layout = Blocked::new([1], [32], [4], [0]);
    let number = Smem::alloc_with(zeros::<i32>([128], layout.clone()), Swizzled::plain([0]));
    let turns = NamedTurns::<GROUPS>::new(128);
    let group = |group: usize| {
        turns.begin(group);
        for round in range(0, rounds) {
            turns.wait(group);
            number.store(number.load(layout.clone()) * 3 + group);
            let is_last = group + 1 == GROUPS;
            if is_last & (round == rounds - 1) {
                out.at(arange(0..128, layout.clone()))
                    .store(number.load(layout.clone()));
            } else {
                turns.pass(group);
            }
        }
    };
    warp_specialize()
        .main(|| group(0))
        .workers(1..GROUPS, Warps(4), group)
        .run();
}

#[kernel(warps = 4)]
fn two(out: Ptr<i32>, rounds: i32) {
    take_turns::<2>(out, rounds);
}

#[kernel(warps = 4)]
fn three(out: Ptr<i32>, rounds: i32) {
    take_turns::<3>(out, rounds);
}

#[kernel(warps = 4)]
fn five(out: Ptr<i32>, rounds: i32) {
    take_turns::<5>(out, rounds);
}

#[test]
fn named_turns_pass_round_robin_through_all_groups() {
    let device = Device::emulator();
    for rounds in [1, 2, 3] {
        for groups in [2, 3, 5] {
            let out = Buffer::<i32>::zeros(&device, 128).expect("memory of the host");
            let arguments = (&out, rounds);
            match groups {
                2 => launch(&device, two, grid(1u32), arguments),
                3 => launch(&device, three, grid(1u32), arguments),
                _ => launch(&device, five, grid(1u32), arguments),
            }
            .expect("it runs");
            let turns = (0..rounds).flat_map(|_| 0..groups);
            let expected = turns.fold(0, |x: i32, group| x * 3 + group);
            assert_eq!(out.to_vec().expect("it has run"), [expected; 128]);
        }
    }
}
