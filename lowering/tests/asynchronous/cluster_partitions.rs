//! Shared memory of other CTAs, accessed by warp-specialized partitions: what keeps its owner alive until the access ends.

use gluon_lang::lang::prelude::*;
use ir::text::print;
use lowering::{Options, compile};

use crate::machine::{buffer, fault, numbers, run};

fn line() -> Blocked {
    Blocked::new([1], [32], [4], [0])
}

fn plain() -> Swizzled {
    Swizzled::plain([0])
}

/// Both CTAs store into the first, which waits on the mbarrier that counts the bytes. The second exits at once.
#[kernel(warps = 4, cluster = 2)]
fn sum_in_first(out: Ptr<i32>) {
    let parts = Smem::<i32>::alloc([2, 128], Swizzled::plain([1, 0]));
    let received = Mbarrier::alloc(1);
    let rank = cluster_rank();
    received.expect_when(rank == 0, 2 * 128 * 4);
    cluster_barrier_relaxed();
    warp_specialize()
        .main(|| {
            let at = arange(0..128, line());
            let own = at + rank * 1000;
            parts.index(rank).in_cta(0).store_async(own, received);
            received.wait_when(rank == 0, 0);
            if rank == 0 {
                let sum = parts.index(0).load(line()) + parts.index(1).load(line());
                out.at(at).store(sum);
            }
        })
        .worker(Warps(4), || {})
        .run();
}

#[test]
fn receiver_waits_on_the_mbarrier_of_an_asynchronous_store() {
    let after = run(sum_in_first, [2, 1, 1], &[buffer(&[0_i32; 128])]);
    let wanted: Vec<i32> = (0..128).map(|i| 2 * i + 1000).collect();
    assert_eq!(numbers::<i32>(&after[0]), wanted);
}

/// A worker stores into the other CTA; both partitions arrive at the cluster barrier and wait there.
#[kernel(warps = 4, cluster = 2)]
fn pair_in_each_partition(out: Ptr<i32>) {
    let got = Smem::<i32>::alloc([128], plain());
    let rank = cluster_rank();
    cluster_barrier_relaxed();
    warp_specialize()
        .main(|| {
            cluster_arrive();
            cluster_wait();
            let at = arange(0..128, line());
            out.at(rank * 128 + at).store(got.load(line()));
        })
        .worker(Warps(4), || {
            let at = arange(0..128, line());
            got.in_cta(rank ^ 1).store(at + rank * 1000);
            cluster_arrive();
            cluster_wait();
        })
        .run();
}

/// One partition reads the other CTA's memory. The other partition waits at a cluster barrier; threads that have exited count as arrived.
#[kernel(warps = 4, cluster = 2)]
fn barrier_in_one_partition(out: Ptr<i32>) {
    let rank = cluster_rank();
    let own = Smem::alloc_with(arange(0..128, line()) + rank * 1000, plain());
    cluster_barrier();
    warp_specialize()
        .main(|| cluster_barrier_relaxed())
        .worker(Warps(4), || {
            let at = arange(0..128, line());
            let read = own.in_cta(rank ^ 1).load(line());
            out.at((rank ^ 1) * 128 + at).store(read);
        })
        .run();
}

/// The partitions join, one of them on one thread, and all threads of the cluster synchronize after that.
#[kernel(warps = 4, cluster = 2)]
fn barrier_after_the_join(out: Ptr<i32>) {
    let rank = cluster_rank();
    let own = Smem::alloc_with(arange(0..128, line()) + rank * 1000, plain());
    let ready = Mbarrier::alloc(1);
    cluster_barrier();
    warp_specialize()
        .main(|| {
            ready.wait(0);
            let at = arange(0..128, line());
            let read = own.in_cta(rank ^ 1).load(line());
            out.at((rank ^ 1) * 128 + at).store(read);
        })
        .worker(Warps(1), || ready.arrive())
        .run();
    cluster_barrier_relaxed();
}

#[test]
fn cluster_barriers_keep_the_owner_alive() {
    let wanted: Vec<i32> = (0..256).map(|i| i % 128 + i / 128 * 1000).collect();
    let swapped: Vec<i32> = (0..256).map(|i| i % 128 + (1 - i / 128) * 1000).collect();
    let out = || [buffer(&[0_i32; 256])];
    let after = run(pair_in_each_partition, [2, 1, 1], &out());
    assert_eq!(numbers::<i32>(&after[0]), swapped);
    let after = run(barrier_in_one_partition, [2, 1, 1], &out());
    assert_eq!(numbers::<i32>(&after[0]), wanted);
    let after = run(barrier_after_the_join, [2, 1, 1], &out());
    assert_eq!(numbers::<i32>(&after[0]), wanted);
}

/// What the compiler says of a kernel.
#[track_caller]
fn refused<Args>(kernel: impl KernelFn<Args>, expected: &[&str]) {
    let traced = kernel.trace().unwrap_or_else(|e| panic!("{e}"));
    let text = print(&traced.func);
    let Err(found) = compile(traced.func, &Options::default()) else {
        panic!("{text}");
    };
    let texts: Vec<String> = found.0.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), expected.len(), "{texts:?}");
    for (text, expected) in texts.iter().zip(expected) {
        assert!(text.contains(expected), "{text}");
    }
}

const LATE: &str = "nothing proves that this access ends before the CTA that owns the memory exits";

/// The owner may exit: no partition synchronizes the cluster.
#[kernel(warps = 4, cluster = 2)]
fn no_barrier_at_all(out: Ptr<i32>) {
    let own = Smem::alloc_with(arange(0..128, line()), plain());
    cluster_barrier();
    warp_specialize()
        .main(|| {})
        .worker(Warps(4), || {
            let read = own.in_cta(cluster_rank() ^ 1).load(line());
            out.at(arange(0..128, line())).store(read);
        })
        .run();
}

/// The partition arrives, and accesses the other CTA after that.
#[kernel(warps = 4, cluster = 2)]
fn access_after_the_arrival(out: Ptr<i32>) {
    let own = Smem::alloc_with(arange(0..128, line()), plain());
    cluster_barrier();
    warp_specialize()
        .main(|| cluster_barrier())
        .worker(Warps(4), || {
            cluster_arrive();
            let read = own.in_cta(cluster_rank() ^ 1).load(line());
            out.at(arange(0..128, line())).store(read);
            cluster_wait();
        })
        .run();
}

/// A barrier that some CTAs pass by proves nothing.
#[kernel(warps = 4, cluster = 2)]
fn barrier_in_a_branch(out: Ptr<i32>, n: i32) {
    let own = Smem::alloc_with(arange(0..128, line()), plain());
    if n > 3 {
        cluster_barrier();
    }
    let read = own.in_cta(cluster_rank() ^ 1).load(line());
    out.at(arange(0..128, line())).store(read);
    for _ in range(0, n) {
        cluster_barrier();
    }
}

/// The bytes are counted by an mbarrier on which nobody waits.
#[kernel(warps = 4, cluster = 2)]
fn no_thread_waits() {
    let got = Smem::<i32>::alloc([128], plain());
    let received = Mbarrier::alloc(1);
    received.expect(got.bytes());
    cluster_barrier_relaxed();
    let own = arange(0..128, line());
    got.in_cta(cluster_rank() ^ 1).store_async(own, received);
}

#[test]
fn accesses_that_nothing_ends_in_time_are_refused() {
    refused(no_barrier_at_all, &[LATE]);
    refused(access_after_the_arrival, &[LATE]);
    refused(barrier_in_a_branch, &["before a cluster barrier", LATE]);
    refused(
        no_thread_waits,
        &["no thread waits for the mbarrier on which this copy completes"],
    );
}

/// The receiver waits for a phase that is complete before the bytes arrive: no text shows that.
#[kernel(warps = 4, cluster = 2)]
fn wrong_phase() {
    let got = Smem::<i32>::alloc([128], plain());
    let received = Mbarrier::alloc(1);
    received.expect(got.bytes());
    cluster_barrier_relaxed();
    warp_specialize()
        .main(|| {
            let own = arange(0..128, line());
            got.in_cta(cluster_rank() ^ 1).store_async(own, received);
            received.wait(1);
        })
        .worker(Warps(1), || {})
        .run();
}

#[test]
fn waits_for_another_phase_are_found_by_the_emulator() {
    let text = fault(wrong_phase, [2, 1, 1], &[]);
    assert!(text.contains("CTA 0 of the cluster has exited"), "{text}");
}
