//! Barriers in shared memory.

use gluon_lang::lang::prelude::*;

use crate::machine::{Argument, buffer, numbers, ptx, run};

fn square() -> Blocked {
    Blocked::new([1, 1], [2, 16], [4, 1], [1, 0])
}

/// Adds the numbers in another order, which other threads wrote, `rounds` times; a barrier orders each round.
#[kernel(warps = 4)]
fn rounds(out: Ptr<i32>, rounds: i32) {
    let row = arange(0..8, Slice::new(1, square())).expand_dims(1);
    let at = row * 16 + arange(0..16, Slice::new(0, square())).expand_dims(0);
    let met = Mbarrier::alloc(1);
    let tile = Smem::<i32>::alloc([2, 128], Swizzled::plain([0]));
    let mut sum = at;
    let mut phase = scalar(0);
    for i in range(0, rounds) {
        let buffer = tile.index(i % 2);
        buffer.reshape([8, 16]).store(sum);
        met.arrive();
        met.wait(phase);
        sum += buffer.reshape([16, 8]).transpose().load(square());
        phase ^= 1;
    }
    met.invalidate();
    out.at(at).store(sum);
}

#[test]
fn each_phase_orders_what_was_written_before() {
    for count in [0, 1, 2, 5] {
        let out = run(
            rounds,
            [1; 3],
            &[buffer(&[0_i32; 128]), Argument::Int(count)],
        );
        let mut wanted: Vec<i32> = (0..128).collect();
        for _ in 0..count {
            wanted = (0..128)
                .map(|i| wanted[i] + wanted[i % 16 * 8 + i / 16])
                .collect();
        }
        assert_eq!(numbers::<i32>(&out[0]), wanted, "{count} rounds");
    }
}

/// Everybody's arrivals, one of each kind; the phase completes only if all of them come.
#[kernel(warps = 8)]
fn arrivals(out: Ptr<i32>, n: i32) {
    let at = arange(0..256, Blocked::new([1], [32], [8], [0]));
    let bars = Mbarriers::alloc(4, Arrivals(1));
    let [all, warps, groups, threads] = [0, 1, 2, 3].map(|i| bars.index(i));
    warps.invalidate();
    warps.init(8 * 3);
    groups.invalidate();
    groups.init(2);
    threads.invalidate();
    threads.init(256);
    // The phase before the first counts as complete.
    all.wait(1);
    let tried = all.try_wait(0);
    let longer = all.try_wait_for(0, n * 100);
    all.arrival().when(n > 0).arrive();
    all.arrival().when(n < 0).arrive();
    tried.wait();
    longer.wait();
    warps.arrival().by(Arrivers::Warp).count(3).arrive();
    groups.arrival().by(Arrivers::Warpgroup).arrive();
    threads.arrival().by(Arrivers::Thread).arrive();
    warps.wait(0);
    groups.wait(0);
    threads.wait(0);
    threads.wait_when(n < 0, 1);
    out.at(at).store(at);
}

#[test]
fn a_wait_that_is_tried_says_how_long_it_may_take() {
    let ptx = ptx(arrivals);
    let tries = ptx
        .lines()
        .filter(|line| line.contains("mbarrier.try_wait"));
    let operands = |line: &str| line.matches(',').count();
    let timed = tries.filter(|line| operands(line) == 3).count();
    assert_eq!(timed, 1, "{ptx}");
}

#[test]
fn a_phase_completes_when_all_have_arrived() {
    let out = run(arrivals, [1; 3], &[buffer(&[0_i32; 256]), Argument::Int(7)]);
    assert_eq!(numbers::<i32>(&out[0]), (0..256).collect::<Vec<_>>());
}
