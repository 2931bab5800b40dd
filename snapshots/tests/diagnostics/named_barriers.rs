//! Barriers that partitions share, used wrongly.

use tilekit::prelude::*;

use crate::check;

#[kernel]
fn named_barrier_of_half_a_warp() {
    let meeting = NamedBarrier::new(144);
    warp_specialize()
        .main(|| meeting.sync())
        .worker(Warps(1), || meeting.sync())
        .run();
}

#[test]
fn a_named_barrier_of_half_a_warp_is_refused() {
    check(
        "named_barrier_of_half_a_warp",
        named_barrier_of_half_a_warp.trace(),
    );
}

#[kernel]
fn named_barrier_that_never_completes() {
    let meeting = NamedBarrier::new(256);
    warp_specialize()
        .main(|| meeting.sync())
        .worker(Warps(1), || meeting.arrive())
        .worker(Warps(4), || {})
        .run();
}

#[test]
fn a_named_barrier_that_never_completes_is_refused() {
    let traced = named_barrier_that_never_completes.trace();
    check("named_barrier_that_never_completes", traced);
}

#[kernel]
fn named_barrier_of_fewer_threads_than_arrive() {
    let meeting = NamedBarrier::new(64);
    warp_specialize()
        .main(|| meeting.sync())
        .worker(Warps(1), || meeting.arrive())
        .run();
}

#[test]
fn a_named_barrier_of_fewer_threads_than_arrive_is_refused() {
    let traced = named_barrier_of_fewer_threads_than_arrive.trace();
    check("named_barrier_of_fewer_threads_than_arrive", traced);
}

#[kernel]
fn named_barrier_outside_of_partitions() {
    let meeting = NamedBarrier::new(160);
    meeting.sync();
    warp_specialize()
        .main(|| meeting.sync())
        .worker(Warps(1), || meeting.arrive())
        .run();
}

#[test]
fn a_named_barrier_outside_of_partitions_is_refused() {
    check(
        "named_barrier_outside_of_partitions",
        named_barrier_outside_of_partitions.trace(),
    );
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
fn a_14th_named_barrier_beside_two_partitions_is_refused() {
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
fn a_16th_named_barrier_is_refused() {
    let traced = more_barriers_than_there_are.trace();
    check("more_barriers_than_there_are", traced);
}

#[kernel]
fn unfenced_store_before_a_named_barrier() {
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
fn a_named_barrier_after_unfenced_stores_is_refused() {
    check(
        "unfenced_store_before_a_named_barrier",
        unfenced_store_before_a_named_barrier.trace(),
    );
}
