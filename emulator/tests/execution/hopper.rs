//! mbarriers, asynchronous copies, clusters and register budgets, one at a time.

use crate::kernel::Kernel;
use emulator::FaultKind;

/// A body between the set-up of an mbarrier at `bar` and nothing; `%p1` is true in thread zero.
fn with_mbarrier(count: u32, body: &str) -> String {
    format!(
        ".shared .align 8 .b8 bar[8];
        .shared .align 128 .b8 tile[4096];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, bar;
        mov.u32 %r3, tile;
        setp.eq.u32 %p1, %r1, 0;
        @%p1 mbarrier.init.shared::cta.b64 [%r2], {count}; @%p1 fence.mbarrier_init.release.cluster;
        bar.sync 0;
        {body}"
    )
}

const WAIT: &str = "
    $wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra $wait;
";

fn check_fault(kernel: &Kernel, kind: FaultKind, expected: &str) {
    let fault = kernel.fault();
    assert_eq!((fault.kind, fault.message.as_str()), (kind, expected));
}

#[test]
fn arrivals_complete_phases() {
    // Every thread arrives in each of five phases and waits for it.
    let body = with_mbarrier(
        64,
        "mov.u32 %r5, 0;
        shl.b32 %r6, %r1, 2;
        add.u32 %r6, %r6, %r3;
        $loop:
        st.shared.u32 [%r6], %r5;
        mbarrier.arrive.shared::cta.b64 %rd1, [%r2];
        $wait:
        mbarrier.test_wait.shared::cta.b64 %p2, [%r2], %rd1;
        @!%p2 bra $wait;
        shl.b32 %r7, %r1, 2;
        xor.b32 %r7, %r7, 128;
        add.u32 %r7, %r7, %r3;
        ld.shared.u32 %r8, [%r7];
        setp.ne.u32 %p3, %r8, %r5;
        @%p3 trap;
        bar.sync 0;
        add.u32 %r5, %r5, 1;
        setp.lt.u32 %p4, %r5, 5;
        @%p4 bra $loop;
        @%p1 st.global.u32 [%in0], %r5;",
    );
    for seed in 0..5 {
        assert_eq!(
            Kernel::new(&body)
                .threads(64)
                .seed(seed)
                .out(4)
                .run()
                .words(0),
            [5]
        );
    }
}

#[test]
fn misused_mbarriers_are_faults() {
    let check = |body: &str, expected: &str| {
        check_fault(
            &Kernel::new(&with_mbarrier(1, body)),
            FaultKind::Mbarrier,
            expected,
        );
    };
    check(
        "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r2], 2;",
        "2 arrivals at the mbarrier at 0x400, whose phase 0 misses 1 of 1",
    );
    check(
        "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 64; @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;",
        "one arrival too many at the mbarrier at 0x400: phase 0 has had all 1 and still waits for 64 bytes of copies",
    );
    check(
        "@%p1 mbarrier.init.shared::cta.b64 [%r2], 3;",
        "the mbarrier at 0x400 is initialised again without mbarrier.inval",
    );
    check(
        "@%p1 mbarrier.inval.shared::cta.b64 [%r2]; @%p1 mbarrier.arrive.shared::cta.b64 _, [%r2];",
        "there is no initialised mbarrier at 0x400; it must follow mbarrier.init and precede mbarrier.inval",
    );
    check(
        "@%p1 mbarrier.expect_tx.shared::cta.b64 [%r2], 1048576;",
        "the transaction count of the mbarrier at 0x400 leaves its range: 1048576 bytes",
    );
}

#[test]
fn a_wait_for_a_phase_that_cannot_complete_is_a_deadlock() {
    let expects = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 64;";
    let fault = Kernel::new(&with_mbarrier(2, &format!("{expects}{WAIT}"))).fault();
    assert_eq!(
        (fault.kind, fault.to_string().as_str()),
        (
            FaultKind::Deadlock,
            "deadlock: every thread that has not exited waits for something that cannot happen
  kernel k, CTA (0,0,0), warp 0
  PTX line 25: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
  warp 0 waits here for phase 0 of the mbarrier at 0x400: 1 of 2 arrivals and 64 bytes are missing: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
  the mbarrier at 0x400 is initialised here, with a count of 2: @%p1 mbarrier.init.shared::cta.b64 [%r2], 2;
  help: a thread that is counted does not arrive, or the mbarrier is initialised with too high a count"
        )
    );
}

#[test]
fn the_help_of_a_deadlock_is_about_the_mbarrier_that_lacks_some_of_its_arrivals() {
    // Warp 0 waits for warp 1, which waits for a second arrival at an mbarrier of its own.
    let body = "add.u32 %r4, %r2, 8;
        @%p1 mbarrier.init.shared::cta.b64 [%r4], 2; bar.sync 0;
        setp.eq.u32 %p3, %r1, 32;
        @%p3 mbarrier.arrive.shared::cta.b64 _, [%r4];
        setp.ge.u32 %p3, %r1, 32;
        @%p3 bra $later;";
    let later = WAIT.replace("$wait", "$own").replace("%r2", "%r4");
    let arrive = "mbarrier.arrive.shared::cta.b64 _, [%r2];";
    let body = format!("{body} {WAIT} ret; $later: {later} {arrive}");
    let body = with_mbarrier(32, &body).replace("bar[8]", "bar[16]");
    let fault = Kernel::new(&body).threads(64).fault();
    assert_eq!(fault.kind, FaultKind::Deadlock);
    let help = "a thread that is counted does not arrive, or the mbarrier is initialised with too high a count";
    assert_eq!(fault.help, Some(help.into()));
}

const BULK: &str = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in0], 128, [%r2];";

const SEE: &str = "shl.b32 %r6, %r1, 2; add.u32 %r7, %r3, %r6; ld.shared.u32 %r8, [%r7];
    mul.wide.u32 %rd1, %r1, 4; add.u64 %rd2, %in1, %rd1; st.global.u32 [%rd2], %r8;";

#[test]
fn try_wait_accepts_a_time_limit() {
    // The wait returns without the phase, and the kernel arrives itself.
    let body = with_mbarrier(
        1,
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0, 1000;
        @%p2 trap;
        @%p1 mbarrier.arrive.shared::cta.b64 _, [%r2];
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0, %r1;
        @!%p2 trap;",
    );
    Kernel::new(&body).run();
}

#[test]
fn bulk_loads_have_completed_after_the_wait() {
    for seed in 0..5 {
        let kernel = Kernel::new(&with_mbarrier(1, &format!("{BULK}{WAIT}{SEE}")))
            .words(100..132)
            .out(128);
        assert_eq!(
            kernel.seed(seed).run().words(1),
            (100..132).collect::<Vec<_>>()
        );
    }
}

#[test]
fn reads_of_a_bulk_load_in_flight_are_reported() {
    let kernel = Kernel::new(&with_mbarrier(1, &format!("{BULK}{SEE}")))
        .words(100..132)
        .out(128);
    // The copy is to blame, and not that nothing is there yet.
    let late = "load of 4 bytes in shared memory at 0x480, while a copy in flight writes them";
    let fault = kernel.fault();
    assert!(fault.message.starts_with(late), "{}", fault.message);
    let written = "@%p1 st.shared.u32 [%r3], %r1; fence.proxy.async.shared::cta; bar.sync 0;";
    let kernel = Kernel::new(&with_mbarrier(1, &format!("{written}{BULK}{SEE}")))
        .words(100..132)
        .out(128);
    let fault = kernel.fault();
    assert!(fault.message.starts_with(late), "{}", fault.message);
}

const FILL: &str =
    "shl.b32 %r6, %r1, 2; add.u32 %r7, %r3, %r6; mul.lo.u32 %r8, %r1, 3; st.shared.u32 [%r7], %r8;";
const STORE: &str = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%in0], [%r3], 128;
    @%p1 cp.async.bulk.commit_group;
    @%p1 cp.async.bulk.wait_group 0;";

#[test]
fn bulk_stores_need_a_proxy_fence() {
    for seed in 0..4 {
        let body = with_mbarrier(
            1,
            &format!("{FILL} fence.proxy.async.shared::cta; bar.sync 0; {STORE}"),
        );
        assert_eq!(
            Kernel::new(&body).seed(seed).out(128).run().words(0),
            (0..32).map(|t| t * 3).collect::<Vec<_>>()
        );
        // The fence may also stand after the barrier, in the thread that issues the copy.
        let body = with_mbarrier(
            1,
            &format!("{FILL} bar.sync 0; fence.proxy.async.shared::cta; {STORE}"),
        );
        Kernel::new(&body).seed(seed).out(128).run();
    }
    check_fault(
        &Kernel::new(&with_mbarrier(1, &format!("{FILL} bar.sync 0; {STORE}"))).out(128),
        FaultKind::Race,
        "read by a bulk store of 128 bytes in shared memory at 0x480, which warp 0 wrote through the generic proxy, with no fence.proxy.async in between",
    );
}

#[test]
fn a_store_to_the_source_of_a_bulk_store_in_flight_is_reported() {
    let early = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%in0], [%r3], 128; @%p1 cp.async.bulk.commit_group;";
    // A wait that leaves the group in flight does not order it, whatever is in between.
    let loose = format!(
        "{FILL} fence.proxy.async.shared::cta; bar.sync 0; {early} @%p1 cp.async.bulk.wait_group.read 1; bar.sync 0; bar.sync 0; st.shared.u32 [%r7], 1;"
    );
    check_fault(
        &Kernel::new(&with_mbarrier(1, &loose)).out(128),
        FaultKind::Race,
        "store of 4 bytes in shared memory at 0x480, while a bulk store in flight may read them; a wait for it is missing",
    );
    let body = format!(
        "{FILL} fence.proxy.async.shared::cta; bar.sync 0; {early} st.shared.u32 [%r7], 1; @%p1 cp.async.bulk.wait_group.read 0;"
    );
    let fault = Kernel::new(&with_mbarrier(1, &body)).out(128).fault();
    assert!(
        fault
            .message
            .contains("may read them; a wait for it is missing"),
        "{}",
        fault.message
    );
    check_fault(
        &Kernel::new(&with_mbarrier(
            1,
            &format!("{FILL} fence.proxy.async.shared::cta; bar.sync 0; {early}"),
        ))
        .out(128),
        FaultKind::Race,
        "lanes 0 exit while bulk stores may still read shared memory; cp.async.bulk.wait_group is missing",
    );
}

#[test]
fn stores_of_one_instruction_end_each_its_own_reads() {
    // Lanes 0 and 1 ask for 16 bytes each; lane 1 alone waits, and writes its own source again.
    let body = format!(
        "{FILL} fence.proxy.async.shared::cta; bar.sync 0;
        setp.lt.u32 %p1, %r1, 2; shl.b32 %r5, %r1, 4; add.u32 %r6, %r3, %r5;
        cvt.u64.u32 %rd9, %r5; add.u64 %rd9, %rd9, %in0;
        @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd9], [%r6], 16;
        @%p1 cp.async.bulk.commit_group;
        setp.eq.u32 %p1, %r1, 1;
        @%p1 cp.async.bulk.wait_group.read 0;
        @%p1 st.shared.u32 [%r6], 1;
        setp.eq.u32 %p1, %r1, 0;
        @%p1 cp.async.bulk.wait_group.read 0;"
    );
    let outcome = Kernel::new(&with_mbarrier(1, &body)).out(32).run();
    assert_eq!(outcome.words(0), [0, 3, 6, 9, 12, 15, 18, 21]);
}

#[test]
fn prefetches_of_runs_have_whole_units() {
    let prefetch = |at: &str, bytes: u32| {
        let body = format!("@%p1 cp.async.bulk.prefetch.L2.global [{at}], {bytes};");
        Kernel::new(&with_mbarrier(1, &body)).out(128)
    };
    prefetch("%in0", 128).run();
    check_fault(
        &prefetch("%in0+4", 128),
        FaultKind::Misaligned,
        "bulk prefetch of 16 bytes in global memory at 0x700000000004 is misaligned: the address must be a multiple of 16",
    );
    check_fault(
        &prefetch("%in0", 100),
        FaultKind::Misaligned,
        "a bulk copy of 100 bytes; the size must be a multiple of 16 above zero",
    );
}

#[test]
fn bulk_reductions_add_to_memory() {
    let reduce = STORE
        .replace("cp.async.bulk.global", "cp.reduce.async.bulk.global")
        .replace("bulk_group [", "bulk_group.add.u32 [");
    let body = with_mbarrier(
        1,
        &format!("{FILL} fence.proxy.async.shared::cta; bar.sync 0; {reduce}"),
    );
    let outcome = Kernel::new(&body)
        .ctas(7)
        .words((0..32).map(|i| i * 1000))
        .run();
    assert_eq!(
        outcome.words(0),
        (0..32).map(|i| i * 1021).collect::<Vec<_>>()
    );
}

#[test]
fn thread_copies_in_groups() {
    let body = "
        .shared .align 16 .b8 tile[1024];
        mov.u32 %r1, %tid.x;
        mov.u32 %r3, tile;
        shl.b32 %r4, %r1, 4;
        add.u32 %r5, %r3, %r4;
        mul.wide.u32 %rd1, %r1, 16;
        add.u64 %rd2, %in0, %rd1;
        cp.async.cg.shared.global [%r5], [%rd2], 16;
        cp.async.commit_group;
        cp.async.ca.shared.global [%r5+512], [%rd2], 4, 2;
        cp.async.commit_group;
        cp.async.wait_group 1;
        ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r5];
        cp.async.wait_group 0;
        ld.shared.u32 %r9, [%r5+512];
        add.u64 %rd3, %in1, %rd1;
        st.global.v4.u32 [%rd3], {%r6, %r7, %r8, %r9};";
    let outcome = Kernel::new(body)
        .words((0..128).map(|i| i * 0x1_0001))
        .out(512)
        .run();
    for (lane, row) in outcome.words(1).chunks(4).enumerate() {
        let word = lane as u32 * 4;
        assert_eq!(
            row,
            [
                word * 0x1_0001,
                (word + 1) * 0x1_0001,
                (word + 2) * 0x1_0001,
                word
            ]
        );
    }
    let early = body.replace("cp.async.wait_group 1;", "cp.async.wait_group 2;");
    let fault = Kernel::new(&early).words(0..128).out(512).fault();
    assert_eq!(fault.kind, FaultKind::Race);
}

#[test]
fn thread_copies_without_a_source_fill_with_zeros() {
    let body = "
        .shared .align 16 .b32 tile[32];
        mov.u32 %r1, %tid.x;
        mov.u32 %r3, tile;
        shl.b32 %r4, %r1, 2;
        add.u32 %r5, %r3, %r4;
        mul.wide.u32 %rd1, %r1, 4;
        add.u64 %rd2, %in0, %rd1;
        setp.ge.u32 %p1, %r1, 20;
        cp.async.ca.shared.global [%r5], [%rd2], 4, %p1;
        cp.async.wait_all;
        ld.shared.u32 %r6, [%r5];
        add.u64 %rd3, %in1, %rd1;
        st.global.u32 [%rd3], %r6;";
    // The buffer ends where the source is not read.
    let outcome = Kernel::new(body).words(1..21).out(128).run();
    assert_eq!(
        outcome.words(1),
        (0..32)
            .map(|i| if i < 20 { i + 1 } else { 0 })
            .collect::<Vec<_>>()
    );
}

#[test]
fn thread_copies_arrive_at_an_mbarrier() {
    let body = with_mbarrier(
        32,
        &format!(
            "shl.b32 %r4, %r1, 2; add.u32 %r5, %r3, %r4; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd2, %in0, %rd1;
            cp.async.ca.shared.global [%r5], [%rd2], 4;
            cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r2];
            {WAIT}{SEE}"
        ),
    );
    assert_eq!(
        Kernel::new(&body).words(5..37).out(128).run().words(1),
        (5..37).collect::<Vec<_>>()
    );
}

fn cluster(body: &str, ctas: u32) -> Kernel {
    let mut kernel = Kernel::new(body).ctas(ctas);
    kernel.launch.cluster = [2, 1, 1];
    kernel
}

#[test]
fn a_rank_that_the_cluster_lacks_has_no_shared_memory() {
    for rank in ["2", "254", "255", "-1"] {
        let body = format!(
            ".shared .align 16 .b32 cell[32];
            mov.u32 %r4, cell;
            mapa.shared::cluster.u32 %r9, %r4, {rank};
            ld.shared::cluster.u32 %r10, [%r9];
            barrier.cluster.arrive;
            barrier.cluster.wait;"
        );
        let message = cluster(&body, 4).out(4).fault().message;
        assert!(
            message.contains("is not an address of shared memory in this cluster of 2"),
            "rank {rank}: {message}"
        );
    }
}

#[test]
fn ctas_of_a_cluster_read_each_other() {
    let body = "
        .shared .align 16 .b32 cell[32];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, %cluster_ctarank;
        mov.u32 %r3, %ctaid.x;
        mov.u32 %r4, cell;
        shl.b32 %r5, %r1, 2;
        add.u32 %r6, %r4, %r5;
        mad.lo.u32 %r7, %r3, 100, %r1;
        st.shared.u32 [%r6], %r7;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        xor.b32 %r8, %r2, 1;
        mapa.shared::cluster.u32 %r9, %r6, %r8;
        ld.shared::cluster.u32 %r10, [%r9];
        getctarank.shared::cluster.u32 %r11, %r9;
        setp.ne.u32 %p1, %r11, %r8;
        @%p1 trap;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        mad.lo.u32 %r12, %r3, 32, %r1;
        mul.wide.u32 %rd1, %r12, 4;
        add.u64 %rd2, %in0, %rd1;
        st.global.u32 [%rd2], %r10;";
    for seed in 0..4 {
        let outcome = cluster(body, 4).seed(seed).out(512).run();
        assert_eq!(
            outcome.words(0),
            (0..128)
                .map(|i| (i / 32 ^ 1) * 100 + i % 32)
                .collect::<Vec<_>>()
        );
    }
    let fault = cluster(
        &body
            .replacen("barrier.cluster.wait;", "", 1)
            .replacen("barrier.cluster.arrive;", "", 1),
        4,
    )
    .out(512)
    .fault();
    assert!(
        matches!(fault.kind, FaultKind::Race | FaultKind::Uninitialised),
        "{}",
        fault.message
    );
}

#[test]
fn stores_to_another_cta_count_on_its_mbarrier() {
    let body = with_mbarrier(
        1,
        &format!(
            "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
            barrier.cluster.arrive;
            barrier.cluster.wait;
            mov.u32 %r10, %cluster_ctarank;
            xor.b32 %r11, %r10, 1;
            shl.b32 %r6, %r1, 2;
            add.u32 %r7, %r3, %r6;
            mapa.shared::cluster.u32 %r12, %r7, %r11;
            mapa.shared::cluster.u32 %r13, %r2, %r11;
            mad.lo.u32 %r14, %r10, 1000, %r1;
            st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r12], %r14, [%r13];
            {WAIT}
            ld.shared.u32 %r8, [%r7];
            mad.lo.u32 %r9, %r10, 32, %r1;
            mul.wide.u32 %rd1, %r9, 4;
            add.u64 %rd2, %in0, %rd1;
            st.global.u32 [%rd2], %r8;
            barrier.cluster.arrive;
            barrier.cluster.wait;"
        ),
    );
    for seed in 0..4 {
        let outcome = cluster(&body, 2).seed(seed).out(256).run();
        assert_eq!(
            outcome.words(0),
            (0..64)
                .map(|i| (1 - i / 32) * 1000 + i % 32)
                .collect::<Vec<_>>()
        );
    }
}

#[test]
fn stores_to_another_cta_complete_asynchronously() {
    let body = with_mbarrier(
        1,
        "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 256;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        mov.u32 %r10, %cluster_ctarank;
        xor.b32 %r11, %r10, 1;
        shl.b32 %r6, %r1, 2;
        add.u32 %r7, %r3, %r6;
        mapa.shared::cluster.u32 %r12, %r7, %r11;
        mapa.shared::cluster.u32 %r13, %r2, %r11;
        st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r12], %r1, [%r13];
        st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r12], %r10, [%r13];
        barrier.cluster.arrive;
        barrier.cluster.wait;",
    );
    let fault = cluster(&body, 2).seed(1).fault();
    assert_eq!(fault.kind, FaultKind::Race, "{}", fault.message);
    let what = "while a copy in flight writes them; a wait for it is missing";
    assert!(fault.message.contains(what), "{}", fault.message);
}

#[test]
fn an_asynchronous_store_outside_of_clusters_is_an_illegal_instruction() {
    let body = with_mbarrier(
        1,
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r3], %r1, [%r2];",
    );
    let fault = Kernel::new(&body).fault();
    assert_eq!(fault.kind, FaultKind::IllegalOperand, "{}", fault.message);
    let what = "st.async in a launch without clusters";
    assert!(fault.message.contains(what), "{}", fault.message);
}

#[test]
fn barriers_of_warps_order_shared_memory() {
    let body = "
        .shared .b32 cell[64];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, cell;
        shl.b32 %r3, %r1, 2;
        add.u32 %r4, %r2, %r3;
        st.shared.u32 [%r4], %r1;
        bar.sync 0;
        xor.b32 %r5, %r3, 128;
        add.u32 %r6, %r2, %r5;
        ld.shared.u32 %r7, [%r6];";
    Kernel::new(body).threads(64).run();
    let fault = Kernel::new(&body.replace("bar.sync 0;", ""))
        .threads(64)
        .seed(1)
        .fault();
    assert!(
        matches!(fault.kind, FaultKind::Race | FaultKind::Uninitialised),
        "{}",
        fault.message
    );
    // Written before, so that only the missing barrier is wrong.
    let racy = body.replace("bar.sync 0;", "bar.sync 0; st.shared.u32 [%r4], 7;");
    check_fault(
        &Kernel::new(&racy).threads(64),
        FaultKind::Race,
        "store of 4 bytes in shared memory at 0x400, which warp 1 read, with no barrier in between",
    );
}

#[test]
fn setmaxnreg_moves_registers_between_warps() {
    // Four warpgroups start with 128 registers; one gives back what the others take.
    let body = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 128; @%p1 bra $small;
        setmaxnreg.inc.sync.aligned.u32 160; bra $end; $small: setmaxnreg.dec.sync.aligned.u32 24; $end:";
    for seed in 0..3 {
        Kernel::new(body).threads(512).seed(seed).run();
    }
    let greedy = body.replace("160", "168");
    let fault = Kernel::new(&greedy).threads(512).fault();
    assert_eq!(fault.kind, FaultKind::Deadlock);
    // 384 threads are launched with 168 each; registers that the launch left free cannot be requested.
    let thirds = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 128; @%p1 bra $small; setp.lt.u32 %p1, %r1, 256;
        @%p1 bra $middle; setmaxnreg.inc.sync.aligned.u32 240; bra $end; $middle: setmaxnreg.inc.sync.aligned.u32 232;
        bra $end; $small: setmaxnreg.dec.sync.aligned.u32 40; $end:";
    let fault = Kernel::new(thirds).threads(384).fault();
    assert_eq!(fault.kind, FaultKind::Deadlock);
    let modest = thirds.replace("240", "232");
    Kernel::new(&modest).threads(384).run();
    check_fault(
        &Kernel::new("setmaxnreg.dec.sync.aligned.u32 136;").threads(512),
        FaultKind::RegisterBudget,
        "setmaxnreg.dec to 136, but the warp has 128 registers a thread",
    );
}
