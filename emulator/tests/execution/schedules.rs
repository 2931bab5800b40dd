//! What the seed of a launch chooses: the order of warps and CTAs, and when copies complete.

use crate::kernel::Kernel;
use crate::reports;

/// Lane 0 of each warp takes a ticket and stores it at the warp's number in the grid.
const TICKETS: &str = "mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra $done;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mad.lo.u32 %r5, %r3, %r4, %r1;
    shr.u32 %r5, %r5, 5;
    atom.relaxed.gpu.global.add.u32 %r6, [%in0], 1;
    mul.wide.u32 %rd1, %r5, 4;
    add.u64 %rd2, %in1, %rd1;
    st.relaxed.gpu.global.u32 [%rd2], %r6;
    $done:";

/// The ticket of each warp, of `ctas` CTAs of 8 warps.
fn tickets(seed: u64, ctas: u32) -> Vec<u32> {
    let kernel = Kernel::new(TICKETS).threads(256).ctas(ctas).seed(seed);
    kernel.words([0]).out(ctas as usize * 8 * 4).run().words(1)
}

#[test]
fn a_seed_gives_the_same_order_each_time_and_seeds_differ() {
    for seed in 1..8 {
        assert_eq!(tickets(seed, 4), tickets(seed, 4), "seed {seed}");
    }
    assert_ne!(tickets(1, 4), tickets(6, 4));
}

#[test]
fn warps_and_ctas_run_in_reverse() {
    assert_eq!(tickets(5, 3), (0..24).rev().collect::<Vec<u32>>());
}

#[test]
fn a_starved_warpgroup_runs_last_in_its_cta() {
    for (seed, starved) in [(3, 0..4), (8, 4..8)] {
        let order = tickets(seed, 1);
        for (warp, ticket) in order.iter().enumerate() {
            assert_eq!(
                *ticket >= 4,
                starved.contains(&warp),
                "seed {seed}: {order:?}"
            );
        }
    }
}

#[test]
fn a_starved_cta_runs_last_in_its_cluster() {
    let mut kernel = Kernel::new(TICKETS).threads(256).ctas(2).seed(4);
    kernel.launch.cluster = [2, 1, 1];
    let order = kernel.words([0]).out(64).run().words(1);
    assert!(order[..8].iter().all(|ticket| *ticket >= 8), "{order:?}");
    assert_eq!(tickets(4, 1)[0], 7, "warp 0 is the last");
}

#[test]
fn a_warp_that_is_polled_for_is_not_starved_forever() {
    // Warp 0 sets the flag, and all others poll it.
    let kernel = Kernel::new(
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; setp.eq.u32 %p2, %r1, 0; @%p1 bra $set;
        $poll: ld.acquire.gpu.global.u32 %r2, [%in0]; setp.eq.u32 %p3, %r2, 0; @%p3 bra $poll; bra $end;
        $set: @%p2 st.release.gpu.global.u32 [%in0], 1; $end:",
    )
    .threads(256)
    .words([0]);
    for seed in 0..16 {
        kernel.clone().seed(seed).run();
    }
}

/// Starts a bulk copy, computes for a while, and says whether it has completed.
const COPY: &str = ".extern .shared .align 16 .b8 smem[];
    ---
    .shared .align 8 .b64 barrier;
    mov.u32 %r2, barrier;
    mov.u32 %r3, smem;
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared.b64 [%r2], 1;
    bar.sync 0;
    fence.proxy.async.shared::cta;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 128;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in0], 128, [%r2];
    mov.u32 %r4, 0;
    $more:
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p2, %r4, 3000;
    @%p2 bra $more;
    mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 0;
    selp.u32 %r5, 1, 0, %p3;
    @%p1 st.global.u32 [%in1], %r5;
    $wait:
    mbarrier.try_wait.parity.shared.b64 %p4, [%r2], 0;
    @!%p4 bra $wait;";

#[test]
fn late_copies_complete_when_nothing_else_can_run() {
    for (seed, has_completed) in [(0, 1), (2, 0), (3, 1), (7, 0)] {
        let mut kernel = Kernel::new(COPY).seed(seed);
        kernel.launch.dynamic_shared_bytes = 128;
        let outcome = kernel.words(0..32).out(4).run();
        assert_eq!(outcome.words(1), [has_completed], "seed {seed}");
    }
}

#[test]
fn a_late_copy_completes_although_a_warp_polls_for_what_waits_for_it() {
    // Warp 1 polls a flag in global memory, which warp 0 sets when its copy has completed.
    let text = COPY.replace(
        "mov.u32 %r4, 0;",
        "setp.lt.u32 %p1, %r1, 32;
        @%p1 bra $wait;
        $poll: ld.acquire.gpu.global.u32 %r2, [%in1]; setp.eq.u32 %p3, %r2, 0; @%p3 bra $poll;
        bra $end;",
    );
    let text = text.replace(
        "@!%p4 bra $wait;",
        "@!%p4 bra $wait; setp.eq.u32 %p2, %r1, 0; mov.u32 %r6, 1; @%p2 st.release.gpu.global.u32 [%in1], %r6; $end:",
    );
    for seed in 0..11 {
        let mut kernel = Kernel::new(&text).threads(64).seed(seed);
        kernel.launch.dynamic_shared_bytes = 128;
        kernel.words(0..32).words([0]).run();
    }
}

/// Eight warps each start a copy that completes on an mbarrier of their own, and take a ticket when it has.
const COPIES: &str = ".shared .align 8 .b8 bars[64];
    .shared .align 128 .b8 tile[1024];
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    and.b32 %r3, %r1, 31;
    setp.ne.u32 %p1, %r3, 0;
    @%p1 bra $done;
    mov.u32 %r4, bars;
    mov.u32 %r5, tile;
    shl.b32 %r6, %r2, 3;
    add.u32 %r4, %r4, %r6;
    shl.b32 %r6, %r2, 7;
    add.u32 %r5, %r5, %r6;
    mbarrier.init.shared::cta.b64 [%r4], 1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%in2], 128, [%r4];
    $wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0;
    @!%p2 bra $wait;
    atom.relaxed.gpu.global.add.u32 %r6, [%in0], 1;
    mul.wide.u32 %rd1, %r2, 4;
    add.u64 %rd2, %in1, %rd1;
    st.global.u32 [%rd2], %r6;
    $done:";

#[test]
fn a_seed_chooses_the_order_in_which_copies_complete() {
    let order = |seed: u64| {
        let kernel = Kernel::new(COPIES).threads(256).seed(seed);
        kernel.words([0]).out(32).words(0..32).run().words(1)
    };
    assert_eq!(order(0), [0, 1, 2, 3, 4, 5, 6, 7], "as they were started");
    for seed in 1..12 {
        reports::accept(
            &format!("{seed}"),
            format!("seed {seed}: {:?}", order(seed)),
        );
    }
}

/// Each CTA but the last waits for a flag, which the last one sets.
const FLAG: &str = "mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %nctaid.x;
    sub.u32 %r2, %r2, 1;
    setp.eq.u32 %p1, %r1, %r2;
    mov.u32 %r3, 1;
    @%p1 st.release.gpu.global.u32 [%in0], %r3;
    $wait:
    READ
    setp.ne.u32 %p2, %r4, 1;
    @%p2 bra $wait;";

/// A CTA that polls does not keep one that follows it from running for long: each may take 100000 steps.
#[test]
fn ctas_that_poll_take_short_turns() {
    for read in [
        "ld.acquire.gpu.global.u32 %r4, [%in0];",
        "ld.volatile.global.u32 %r4, [%in0];",
        "atom.relaxed.gpu.global.cas.b32 %r4, [%in0], 1, 1;",
    ] {
        for seed in 0..6 {
            let mut kernel = Kernel::new(FLAG).with("READ", read).threads(32).ctas(64);
            kernel = kernel.words([0]).seed(seed);
            kernel.launch.max_steps = 100_000;
            kernel.run();
        }
    }
}
