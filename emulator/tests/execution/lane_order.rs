//! Lanes of a warp, which run in no order unless something that they execute together orders them.

use crate::kernel::Kernel;
use emulator::{Fault, FaultKind};

/// `%r1` the thread, `%r3` a tile, `%r2` the thread's word in it and `%r4` that of its neighbour, `%r10` an mbarrier with a count of 1,
/// `%in0` words; `%p1` in the first thread, `%p2` in the first warp, `%p4` in the first lane of each warp.
fn body(text: &str) -> String {
    format!(
        ".shared .align 8 .b8 met[8];
        .shared .align 128 .b8 tile[4096];
        mov.u32 %r1, %tid.x;
        mov.u32 %r3, tile;
        shl.b32 %r5, %r1, 2;
        add.u32 %r2, %r3, %r5;
        xor.b32 %r5, %r5, 4;
        add.u32 %r4, %r3, %r5;
        mov.u32 %r10, met;
        and.b32 %r11, %r1, 31;
        setp.eq.u32 %p1, %r1, 0;
        setp.lt.u32 %p2, %r1, 32;
        setp.eq.u32 %p4, %r11, 0;
        @%p1 mbarrier.init.shared::cta.b64 [%r10], 1;
        @%p1 fence.mbarrier_init.release.cluster;
        st.shared.u32 [%r2], %r1;
        fence.proxy.async.shared::cta;
        bar.sync 0;
        {text}"
    )
}

fn of_one_warp(text: &str) -> Kernel {
    Kernel::new(&body(text)).words(0..64)
}

fn of_two_warps(text: &str) -> Kernel {
    Kernel::new(&body(text)).threads(64).words(0..64)
}

fn races(kernel: &Kernel, expected: &[&str]) {
    for seed in 0..4 {
        let fault: Box<Fault> = kernel.clone().seed(seed).fault();
        let found = expected.iter().any(|part| fault.message.contains(part));
        assert!(fault.kind == FaultKind::Race && found, "{seed}: {fault}");
        assert!(fault.help.is_some() && !fault.related.is_empty(), "{fault}");
    }
}

fn ordered(kernel: &Kernel) {
    for seed in 0..4 {
        kernel.clone().seed(seed).run();
    }
}

const OTHER_LANE: &str = "another lane of the same warp";

#[test]
fn an_exchange_between_lanes_needs_bar_warp_sync() {
    let text = |between: &str| {
        of_one_warp(&format!(
            "st.shared.u32 [%r2], 7; {between} ld.shared.u32 %r6, [%r4];"
        ))
    };
    for between in [
        "bar.warp.sync 0xffffffff;",
        "shfl.sync.idx.b32 %r7, %r1, 0, 0x1f, 0xffffffff;",
        "vote.sync.ballot.b32 %r7, %p1, 0xffffffff;",
        "bar.sync 0;",
    ] {
        ordered(&text(between));
    }
    races(&text(""), &[OTHER_LANE]);
    // A fence orders the accesses of a thread, and says nothing of other threads.
    races(&text("fence.acq_rel.cta;"), &[OTHER_LANE]);
    // Neighbours alone meet, which is enough for them.
    let pairs = "setp.lt.u32 %p5, %r11, 2; @!%p5 bra $end; st.shared.u32 [%r2], 7; bar.warp.sync 3; ld.shared.u32 %r6, [%r4]; $end:";
    ordered(&of_one_warp(pairs));
    races(
        &of_one_warp(&pairs.replace("bar.warp.sync 3;", "")),
        &[OTHER_LANE],
    );
}

#[test]
fn a_write_after_the_read_of_another_lane_needs_bar_warp_sync() {
    let text = |between: &str| {
        of_one_warp(&format!(
            "ld.shared.u32 %r6, [%r4]; {between} st.shared.u32 [%r2], 7;"
        ))
    };
    ordered(&text("bar.warp.sync 0xffffffff;"));
    races(&text(""), &[OTHER_LANE]);
    // All lanes read one word, which one of them then writes.
    let text = |between: &str| {
        of_one_warp(&format!(
            "ld.shared.u32 %r6, [%r3]; {between} @%p1 st.shared.u32 [%r3], 7;"
        ))
    };
    ordered(&text("bar.warp.sync 0xffffffff;"));
    races(&text(""), &[OTHER_LANE]);
}

#[test]
fn a_lane_needs_nothing_between_its_own_accesses() {
    ordered(&of_one_warp(
        "st.shared.u32 [%r2], 7; ld.shared.u32 %r6, [%r2]; st.shared.u32 [%r2], 8; ld.shared.u32 %r6, [%r2];",
    ));
    ordered(&of_one_warp(
        "atom.shared.add.u32 %r6, [%r3], 1; bar.warp.sync 0xffffffff; ld.shared.u32 %r6, [%r3];",
    ));
}

#[test]
fn lanes_that_store_different_values_to_one_place_race() {
    ordered(&of_one_warp("mov.u32 %r6, 9; st.shared.u32 [%r3], %r6;"));
    races(&of_one_warp("st.shared.u32 [%r3], %r1;"), &[OTHER_LANE]);
}

fn wait(guard: &str) -> String {
    format!(
        "{guard} bra $over; $wait: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], 0; @!%p3 bra $wait; $over:"
    )
}

#[test]
fn the_arrival_of_one_lane_does_not_speak_for_the_others() {
    let wait = wait("@%p2");
    let text = |between: &str| {
        of_two_warps(&format!(
            "@%p2 ld.shared.u32 %r6, [%r2]; {between} @%p1 mbarrier.arrive.shared::cta.b64 _, [%r10]; {wait}
            and.b32 %r7, %r5, 127; add.u32 %r7, %r7, %r3; @!%p2 st.shared.u32 [%r7], 7;"
        ))
    };
    ordered(&text("bar.warp.sync 0xffffffff;"));
    races(&text(""), &["which warp 0 read", "which warp 1 wrote"]);
    // The lanes wait for each other, and no memory is ordered.
    for together in [
        "wgmma.fence.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
    ] {
        races(
            &text(together),
            &["which warp 0 read", "which warp 1 wrote"],
        );
    }
    // What the lane did itself, its arrival releases.
    ordered(&of_two_warps(&format!(
        "@%p1 st.shared.u32 [%r3], 5; @%p1 mbarrier.arrive.shared::cta.b64 _, [%r10]; {wait} @!%p2 ld.shared.u32 %r6, [%r3];"
    )));
}

#[test]
fn the_wait_of_one_lane_does_not_speak_for_the_others() {
    let wait = wait("@!%p4");
    let text = |between: &str| {
        of_two_warps(&format!(
            "@%p1 st.shared.u32 [%r3], 5; @%p1 mbarrier.arrive.shared::cta.b64 _, [%r10]; {wait} {between} @!%p2 ld.shared.u32 %r6, [%r3];"
        ))
    };
    ordered(&text("bar.warp.sync 0xffffffff;"));
    races(&text(""), &["which warp 0 wrote", "which warp 1 read"]);
}

#[test]
fn a_bulk_store_reads_what_other_lanes_wrote() {
    let text = |between: &str| {
        of_one_warp(&format!(
            "st.shared.u32 [%r2], 7; fence.proxy.async.shared::cta; {between}
            @%p1 cp.async.bulk.global.shared::cta.bulk_group [%in0], [%r3], 128; @%p1 cp.async.bulk.commit_group;
            @%p1 cp.async.bulk.wait_group 0;"
        ))
    };
    ordered(&text("bar.warp.sync 0xffffffff;"));
    races(&text(""), &["another lane of the same warp wrote"]);
}

#[test]
fn a_wait_for_a_bulk_store_is_that_of_its_lane() {
    let text = |between: &str| {
        of_one_warp(&format!(
            "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%in0], [%r3], 128; @%p1 cp.async.bulk.commit_group;
            @%p1 cp.async.bulk.wait_group.read 0; {between} st.shared.u32 [%r2], 7; @%p1 cp.async.bulk.wait_group 0;"
        ))
    };
    ordered(&text("bar.warp.sync 0xffffffff;"));
    races(&text(""), &["bulk store in flight may read"]);
}

#[test]
fn a_flag_that_one_lane_publishes_or_polls_speaks_for_its_warp_after_bar_warp_sync() {
    let text = |publish: &str, poll: &str| {
        let mut kernel = Kernel::new(&format!(
            "mov.u32 %r1, %tid.x; mov.u32 %r8, %ctaid.x; setp.eq.u32 %p1, %r1, 0; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd2, %in1, %rd1;
            setp.ne.u32 %p2, %r8, 0; @%p2 bra $second;
            st.global.u32 [%rd2], %r1; {publish} @%p1 st.release.gpu.global.u32 [%in0], 1; bra $end;
            $second: @!%p1 bra $over; $poll: ld.acquire.gpu.global.u32 %r9, [%in0]; setp.eq.u32 %p3, %r9, 0; @%p3 bra $poll; $over:
            {poll} ld.global.u32 %r9, [%rd2]; $end:"
        ))
        .ctas(2)
        .words([0])
        .words(0..32);
        kernel.launch.is_cooperative = true;
        kernel
    };
    let sync = "bar.warp.sync 0xffffffff;";
    ordered(&text(sync, sync));
    races(&text("", sync), &["which warp 0 of CTA"]);
    races(&text(sync, ""), &["which warp 0 of CTA"]);
}

#[test]
fn lanes_that_multiply_together_share_what_one_of_them_has_observed() {
    // The first lane waits for the second warp, and the others read what that warp has written.
    let text = |between: &str| {
        of_two_warps(&format!(
            "setp.eq.u32 %p5, %r1, 32; @!%p2 st.shared.u32 [%r2], 7; @!%p2 bar.warp.sync 0xffffffff; @%p5 mbarrier.arrive.shared::cta.b64 _, [%r10];
            {} {between} @%p2 ld.shared.u32 %r6, [%r2+128];",
            wait("@!%p1")
        ))
    };
    ordered(&text("wgmma.fence.sync.aligned;"));
    races(&text(""), &["which warp 1 wrote", "which warp 0 read"]);
}

/// `%rd2` the word of the thread in `%in0`, `%rd3` that of its neighbour, `%p1` in the first thread.
fn in_global_memory(text: &str) -> Kernel {
    Kernel::new(&format!(
        "mov.u32 %r1, %tid.x; xor.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r1, 0;
        mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd2, %in0; mul.wide.u32 %rd3, %r2, 4; add.u64 %rd3, %rd3, %in0;
        {text}"
    ))
    .words(0..64)
}

#[test]
fn an_exchange_between_lanes_through_global_memory_needs_bar_warp_sync() {
    let text = |between: &str| {
        in_global_memory(&format!(
            "st.global.u32 [%rd2], 7; {between} ld.global.u32 %r6, [%rd3];"
        ))
    };
    for between in [
        "bar.warp.sync 0xffffffff;",
        "vote.sync.ballot.b32 %r7, %p1, 0xffffffff;",
        "bar.sync 0;",
    ] {
        ordered(&text(between));
    }
    races(&text(""), &[OTHER_LANE]);
    races(&text("fence.acq_rel.gpu;"), &[OTHER_LANE]);
    // Two lanes meet, and exchange what they have.
    let pairs = "setp.gt.u32 %p5, %r1, 1; @%p5 bra $end; st.global.u32 [%rd2], 7; bar.warp.sync 3; ld.global.u32 %r6, [%rd3]; $end:";
    ordered(&in_global_memory(pairs));
    races(
        &in_global_memory(&pairs.replace("bar.warp.sync 3;", "")),
        &[OTHER_LANE],
    );
}

#[test]
fn a_write_to_global_memory_after_the_access_of_another_lane_needs_bar_warp_sync() {
    for (before, after) in [
        ("ld.global.u32 %r6, [%rd3];", "st.global.u32 [%rd2], 7;"),
        ("st.global.u32 [%rd3], 8;", "st.global.u32 [%rd2], 7;"),
        (
            "ld.global.u32 %r6, [%in0];",
            "@%p1 st.global.u32 [%in0], 7;",
        ),
        (
            "red.relaxed.gpu.global.add.u32 [%rd3], 1;",
            "st.global.u32 [%rd2], 7;",
        ),
        (
            "red.relaxed.gpu.global.add.u32 [%in0], 1;",
            "@%p1 ld.global.u32 %r6, [%in0];",
        ),
        (
            "@%p1 st.global.u32 [%in0], 7;",
            "ld.global.u32 %r6, [%in0];",
        ),
    ] {
        let text = |between: &str| in_global_memory(&format!("{before} {between} {after}"));
        ordered(&text("bar.warp.sync 0xffffffff;"));
        races(&text(""), &[OTHER_LANE]);
    }
}

#[test]
fn a_lane_needs_nothing_between_its_own_accesses_to_global_memory() {
    ordered(&in_global_memory(
        "st.global.u32 [%rd2], 7; ld.global.u32 %r6, [%rd2]; st.global.u32 [%rd2], 8; ld.global.u32 %r6, [%rd2];
        red.relaxed.gpu.global.add.u32 [%rd2], 1; ld.global.u32 %r6, [%rd2]; st.global.u32 [%rd2], %r6;",
    ));
    // Wider accesses of the same lanes.
    ordered(&in_global_memory(
        "mul.wide.u32 %rd4, %r1, 8; add.u64 %rd4, %rd4, %in0; st.global.v2.u32 [%rd4], {%r1, %r2}; ld.global.u32 %r6, [%rd4+4]; st.global.u32 [%rd4+4], %r6;",
    ));
    races(
        &in_global_memory(
            "mul.wide.u32 %rd4, %r1, 8; add.u64 %rd4, %rd4, %in0; st.global.v2.u32 [%rd4], {%r1, %r2}; ld.global.u32 %r6, [%rd2];",
        ),
        &[OTHER_LANE],
    );
    // Lanes that hold copies of an element store it, and read it again: of one element neighbours, three of them, or lanes that are far apart.
    for place in [
        "div.u32 %r3, %r1, 3;",
        "and.b32 %r3, %r1, 15;",
        "and.b32 %r3, %r1, 7;",
    ] {
        ordered(&in_global_memory(&format!(
            "{place} mul.wide.u32 %rd4, %r3, 4; add.u64 %rd4, %rd4, %in0; st.global.u32 [%rd4], %r3; ld.global.u32 %r6, [%rd4];"
        )));
    }
    ordered(&in_global_memory(
        "shr.u32 %r3, %r1, 2; mul.wide.u32 %rd4, %r3, 4; add.u64 %rd4, %rd4, %in0; st.global.u32 [%rd4], %r3; ld.global.u32 %r6, [%rd4];",
    ));
}

#[test]
fn lanes_that_store_different_values_to_one_place_of_global_memory_race() {
    let different = "which store different values";
    ordered(&in_global_memory(
        "mov.u32 %r6, 9; st.global.u32 [%in0], %r6;",
    ));
    races(
        &in_global_memory("st.global.u32 [%in0], %r1;"),
        &[different],
    );
    // Of two words the second differs.
    races(
        &in_global_memory("mov.u32 %r6, 9; st.global.v2.u32 [%in0], {%r6, %r1};"),
        &[different],
    );
    // Two lanes of many, which are not neighbours.
    let two = "setp.eq.u32 %p5, %r1, 21; @%p5 mov.u64 %rd2, %in0; st.global.u32 [%rd2], %r1;";
    races(&in_global_memory(two), &["by lanes 0 and 21 of a warp"]);
    assert_eq!(in_global_memory(two).fault().lanes, 1 | 1 << 21);
    let behind = in_global_memory("st.global.u32 [%in0+64], %r1;").fault();
    assert_eq!(behind.address, Some(0x7000_0000_0040));
    ordered(&in_global_memory(&two.replace("[%rd2], %r1", "[%rd2], 5")));
    // Of bytes the register's other bits are not stored.
    ordered(&in_global_memory(
        "shl.b32 %r6, %r1, 8; st.global.u8 [%in0], %r6;",
    ));
    // Atomics have an order.
    ordered(&in_global_memory("st.relaxed.gpu.global.u32 [%in0], %r1;"));
    ordered(&in_global_memory(
        "red.relaxed.gpu.global.max.u32 [%in0], %r1;",
    ));
}

#[test]
fn a_bulk_load_of_any_lane_reads_what_that_lane_stored() {
    let text = |writer: u32| {
        of_one_warp(&format!(
            "setp.eq.u32 %p5, %r1, {writer}; @%p5 st.global.u32 [%in0+64], 7; @%p5 fence.proxy.async.global;
            setp.ne.u32 %p6, %r1, 5; @%p6 bra $over; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 128;
            cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+1024], [%in0], 128, [%r10];
            $wait: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], 0; @!%p3 bra $wait; $over:"
        ))
    };
    ordered(&text(5));
    // The fence of the other lane is as unknown as its store.
    races(
        &text(4),
        &[OTHER_LANE, "with no fence.proxy.async in between"],
    );
}

#[test]
fn a_bulk_load_reads_what_other_lanes_stored_to_global_memory() {
    let text = |between: &str| {
        of_one_warp(&format!(
            "mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd2, %in0; st.global.u32 [%rd2], 7; fence.proxy.async.global; {between}
            @!%p1 bra $over; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 128;
            cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+1024], [%in0], 128, [%r10];
            $wait: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], 0; @!%p3 bra $wait; $over:"
        ))
    };
    ordered(&text("bar.warp.sync 0xffffffff;"));
    races(&text(""), &[OTHER_LANE]);
}
