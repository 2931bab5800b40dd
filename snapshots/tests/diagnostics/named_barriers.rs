//! Barriers that partitions share, used wrongly.

use tilekit::prelude::*;

use crate::check;

#[kernel]
fn barrier_of_half_a_warp() {
    let meeting = NamedBarrier::new(144);
    warp_specialize()
        .main(|| meeting.sync())
        .worker(Warps(1), || meeting.sync())
        .run();
}

#[test]
fn whole_warps_come() {
    check("barrier_of_half_a_warp", barrier_of_half_a_warp.trace());
}

#[kernel]
fn barrier_that_never_completes() {
    let meeting = NamedBarrier::new(256);
    warp_specialize()
        .main(|| meeting.sync())
        .worker(Warps(1), || meeting.arrive())
        .worker(Warps(4), || {})
        .run();
}

#[test]
fn fewer_threads_come_than_are_counted() {
    let traced = barrier_that_never_completes.trace();
    check("barrier_that_never_completes", traced);
}

#[kernel]
fn barrier_of_fewer_than_come() {
    let meeting = NamedBarrier::new(64);
    warp_specialize()
        .main(|| meeting.sync())
        .worker(Warps(1), || meeting.arrive())
        .run();
}

#[test]
fn more_threads_come_than_are_counted() {
    let traced = barrier_of_fewer_than_come.trace();
    check("barrier_of_fewer_than_come", traced);
}

#[kernel]
fn barrier_before_parting() {
    let meeting = NamedBarrier::new(160);
    meeting.sync();
    warp_specialize()
        .main(|| meeting.sync())
        .worker(Warps(1), || meeting.arrive())
        .run();
}

#[test]
fn the_warps_have_not_parted() {
    check("barrier_before_parting", barrier_before_parting.trace());
}

#[kernel]
fn fourteenth_barrier_of_two_partitions() {
    let all: Vec<_> = (0..14).map(|_| NamedBarrier::new(160)).collect();
    warp_specialize()
        .main(|| all.iter().for_each(|b| b.sync()))
        .worker(Warps(1), || all.iter().for_each(|b| b.arrive()))
        .run();
}

#[test]
fn partitions_have_barriers_too() {
    let traced = fourteenth_barrier_of_two_partitions.trace();
    check("fourteenth_barrier_of_two_partitions", traced);
}

#[kernel]
fn more_barriers_than_there_are() {
    let all: Vec<_> = (0..20).map(|_| NamedBarrier::new(160)).collect();
    warp_specialize()
        .main(|| all[0].sync())
        .worker(Warps(1), || all[0].arrive())
        .run();
}

#[test]
fn a_cta_has_sixteen() {
    let traced = more_barriers_than_there_are.trace();
    check("more_barriers_than_there_are", traced);
}

#[kernel]
fn unfenced_turn() {
    let layout = || Nvmma::B128.of(16);
    let a = Smem::<bf16>::alloc([64, 64], layout());
    let b = Smem::<bf16>::alloc([64, 64], layout());
    let turn = NamedBarrier::new(256);
    warp_specialize()
        .main(|| {
            turn.sync();
            let sums = Wgmma::new([4, 1], [64, 64, 16]);
            let acc = Accumulator::<f32>::zeros([64, 64], sums);
            device_print("sum", acc.mma(a, b.transpose()).wait_all());
        })
        .worker(Warps(4), || {
            let layout = Blocked::new([1, 8], [4, 8], [4, 1], [1, 0]);
            a.store(zeros([64, 64], layout));
            turn.arrive();
        })
        .run();
}

#[test]
fn a_turn_is_given_without_a_fence() {
    check("unfenced_turn", unfenced_turn.trace());
}
