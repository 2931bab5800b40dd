//! Copies and stores into other CTAs of a cluster, which complete on their barriers.

use gluon_lang::lang::Element;
use gluon_lang::lang::prelude::*;

use crate::machine::{Argument, Number, buffer, bytes, fault, numbers, run};

fn line() -> Blocked {
    Blocked::new([4], [32], [4], [0])
}

fn plain() -> Swizzled {
    Swizzled::plain([0])
}

/// Each round, every CTA hands the next one of its cluster `count` elements, and says when it has read what it got.
#[kernel(warps = 4, cluster = 4)]
fn hand_on(out: Ptr<i32>, count: i32, rounds: i32) {
    let own = Smem::<i32>::alloc([512], plain());
    let got = Smem::alloc_with(full([512], -1, line()), plain());
    let (full, empty) = (Mbarrier::alloc(1), Mbarrier::alloc(1));
    fence_async_shared();
    cluster_barrier();
    let rank = cluster_rank();
    let (next, before) = ((rank + 1) % 4, (rank + 3) % 4);
    let at = arange(0..512, line());
    let mut phase = scalar(0);
    for round in range(0, rounds) {
        own.store(at + (rank + round * 10) * 1000);
        full.expect(count * 4);
        empty.wait(phase ^ 1);
        got.in_cta(next).bulk().count(count).store(own, full);
        full.wait(phase);
        let base = out + (program_id(0) * rounds + round) * 512;
        base.at(at).store(got.load(line()));
        empty.arrival().in_cta(before).arrive();
        phase ^= 1;
        // The other CTA has what was copied, so that it may be written over.
        empty.wait(phase ^ 1);
    }
    cluster_barrier();
}

#[test]
fn ctas_copy_into_each_other() {
    for count in [512, 128, 4] {
        let arguments = [
            buffer(&vec![0_i32; 8 * 3 * 512]),
            Argument::Int(count),
            Argument::Int(3),
        ];
        let after = run(hand_on, [8, 1, 1], &arguments);
        let wanted: Vec<i32> = (0..8 * 3 * 512)
            .map(|i| {
                let (cta, round, at) = (i / 1536, i / 512 % 3, i % 512);
                let from = (cta + 3) % 4;
                let is_copied = at < count;
                if is_copied {
                    at + (from + round * 10) * 1000
                } else {
                    -1
                }
            })
            .collect();
        assert_eq!(numbers::<i32>(&after[0]), wanted, "{count} elements");
    }
}

/// All CTAs add to, and take the larger of, what lies in the first.
#[kernel(warps = 4, cluster = 4)]
fn gather_up(out: Ptr<i32>) {
    let sums = Smem::alloc_with(full([128], 5, Blocked::new([1], [32], [4], [0])), plain());
    let most = Smem::alloc_with(full([128], 2, Blocked::new([1], [32], [4], [0])), plain());
    let full = Mbarrier::alloc(1);
    let rank = cluster_rank();
    let at = arange(0..128, Blocked::new([1], [32], [4], [0]));
    let own = Smem::alloc_with(at * (rank + 1), plain());
    full.expect_when(rank == 0, 8 * 128 * 4);
    fence_async_shared();
    cluster_barrier();
    sums.in_cta(0).bulk().reduce(TmaReduceOp::Add, own, full);
    most.in_cta(0).bulk().reduce(TmaReduceOp::Max, own, full);
    full.wait_when(rank == 0, 0);
    if rank == 0 {
        let line = Blocked::new([1], [32], [4], [0]);
        out.at(at).store(sums.load(line.clone()));
        out.at(at + 128).store(most.load(line));
    }
    cluster_barrier();
}

#[test]
fn ctas_combine_in_one_of_them() {
    let after = run(gather_up, [4, 1, 1], &[buffer(&[0_i32; 256])]);
    let sums = (0..128).map(|i| 5 + 10 * i);
    let most = (0..128).map(|i| 2.max(4 * i));
    assert_eq!(
        numbers::<i32>(&after[0]),
        sums.chain(most).collect::<Vec<_>>()
    );
}

/// Each CTA stores what it loaded into the other; a thread holds `PER_THREAD` neighbours, and each element lies in several
/// threads where there are more of those.
#[kernel(warps = 4, cluster = 2)]
fn exchange<T: Element, const N: usize, const PER_THREAD: u32>(x: Ptr<T>, out: Ptr<T>) {
    let got = Smem::<T>::alloc([N], plain());
    let full = Mbarrier::alloc(1);
    full.expect(got.bytes());
    cluster_barrier_relaxed();
    let rank = cluster_rank();
    let line = Blocked::new([PER_THREAD], [32], [4], [0]);
    let at = arange(0..N, line.clone());
    let own = x.at(rank * N + at).load();
    got.in_cta(rank ^ 1).store_async(own, full);
    full.wait(0);
    out.at(rank * N + at).store(got.load(line));
    cluster_barrier_relaxed();
}

#[track_caller]
fn check_exchange<T: Element + Number, const N: usize, const PER_THREAD: u32>(
    make: impl Fn(u32) -> T,
) {
    let from: Vec<T> = (0..2 * N as u32).map(&make).collect();
    let zeros = vec![make(0); 2 * N];
    let after = run(
        exchange::<T, N, PER_THREAD>,
        [2, 1, 1],
        &[buffer(&from), buffer(&zeros)],
    );
    let wanted: Vec<T> = from[N..].iter().chain(&from[..N]).copied().collect();
    assert!(after[1] == bytes(&wanted));
}

#[test]
fn stores_complete_on_the_barrier_of_the_other_cta() {
    check_exchange::<f32, 1024, 4>(|i| i as f32);
    check_exchange::<i32, 128, 1>(|i| i as i32 - 7);
    check_exchange::<f16, 512, 4>(|i| f16::from_bits(i as u16));
    check_exchange::<bf16, 2048, 8>(|i| bf16::from_bits(i as u16));
    check_exchange::<u8, 512, 4>(|i| i as u8);
    // Half of the threads hold what the others hold too.
    check_exchange::<f32, 64, 1>(|i| i as f32);
    check_exchange::<f32, 16, 4>(|i| i as f32);
}

/// The source of a copy is written over while the other CTA may not have it.
#[kernel(warps = 1, cluster = 2)]
fn too_early(out: Ptr<i32>) {
    let line = Blocked::new([1], [32], [1], [0]);
    let own = Smem::alloc_with(full([128], 1, line.clone()), plain());
    let got = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1);
    full.expect(got.bytes());
    cluster_barrier_relaxed();
    got.in_cta(cluster_rank() ^ 1).bulk().store(own, full);
    own.store(arange(0..128, line.clone()));
    full.wait(0);
    out.at(arange(0..128, line.clone())).store(got.load(line));
    cluster_barrier_relaxed();
}

#[test]
fn the_source_of_a_copy_stays_until_it_is_read() {
    let fault = fault(too_early, [2, 1, 1], &[buffer(&[0_i32; 128])]);
    assert!(fault.contains("may read them"), "{fault}");
}
