//! What must be known of a barrier before it is used: its initialisation by other CTAs and by copies, the end of a phase by those who
//! arrive in the next one, the last use by who invalidates it.

use crate::kernel::Kernel;
use emulator::{Fault, FaultKind};

/// `%r1` the thread, `%r2` and `%r6` mbarriers, `%r3` a tile, `%r4` the CTA of the cluster and `%r5` the other one of a pair; `%p1` in
/// the first thread, `%p4` in the first CTA, `%p6` in the first warp.
fn body(text: &str) -> String {
    format!(
        ".shared .align 8 .b8 bar[8];
        .shared .align 8 .b8 other[8];
        .shared .align 128 .b8 tile[1024];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, bar;
        mov.u32 %r6, other;
        mov.u32 %r3, tile;
        mov.u32 %r4, %cluster_ctarank;
        xor.b32 %r5, %r4, 1;
        setp.eq.u32 %p1, %r1, 0;
        setp.lt.u32 %p6, %r1, 32;
        setp.eq.u32 %p4, %r4, 0;
        {text}"
    )
}

fn of_two_warps(text: &str) -> Kernel {
    Kernel::new(&body(text)).threads(64).words(0..64)
}

fn of_a_pair(text: &str) -> Kernel {
    let mut kernel = Kernel::new(&body(text)).ctas(2).words(0..64);
    kernel.launch.cluster = [2, 1, 1];
    kernel
}

/// Every order reports it, in one of these ways.
fn reported(kernel: &Kernel, kind: FaultKind, expected: &[&str]) {
    for seed in 0..4 {
        let fault: Box<Fault> = kernel.clone().seed(seed).fault();
        let is_expected = expected.iter().any(|part| fault.message.contains(part));
        assert!(fault.kind == kind && is_expected, "seed {seed}: {fault}");
        assert!(fault.help.is_some() && !fault.related.is_empty(), "{fault}");
    }
}

/// The same where some orders do not get so far: threads wait forever, or find no mbarrier.
fn reported_or(kernel: &Kernel, other: (FaultKind, &str), expected: &str) {
    let mut found = 0;
    for seed in 0..4 {
        let fault: Box<Fault> = kernel.clone().seed(seed).fault();
        let is_expected = fault.kind == FaultKind::Mbarrier && fault.message.contains(expected);
        let is_other = fault.kind == other.0 && fault.message.contains(other.1);
        assert!(is_expected || is_other, "seed {seed}: {fault}");
        found += u32::from(is_expected);
    }
    assert!(found > 0, "no order reports: {expected}");
}

fn silent(kernel: &Kernel) {
    for seed in 0..4 {
        kernel.clone().seed(seed).run();
    }
}

const INIT: &str = "@%p1 mbarrier.init.shared::cta.b64 [%r2], 1;";
const FENCE: &str = "@%p1 fence.mbarrier_init.release.cluster;";
const WAIT: &str =
    "$wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra $wait;";
const EXPECT: &str = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;";
const COPY: &str = "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in0], 128, [%r2];";

#[test]
fn a_copy_must_know_of_the_initialisation_of_its_mbarrier() {
    let text = |first: &str, then: &str| {
        of_two_warps(&format!(
            "{INIT} {first} bar.sync 0; {then} {EXPECT} {COPY} {WAIT}"
        ))
    };
    silent(&text(FENCE, ""));
    silent(&text("fence.proxy.async.shared::cta;", ""));
    silent(&text("", "fence.proxy.async.shared::cta;"));
    let unpublished = [
        "a copy counts its bytes at the mbarrier at 0x400, whose initialisation by warp 0 is not visible to the async proxy",
    ];
    reported(&text("", ""), FaultKind::Mbarrier, &unpublished);
    // The fence of another thread publishes nothing, nor does one before the initialisation.
    let of_another = FENCE.replace("%p1", "!%p6");
    reported(&text(&of_another, ""), FaultKind::Mbarrier, &unpublished);
    let early = of_two_warps(&format!(
        "{FENCE} {INIT} bar.sync 0; {EXPECT} {COPY} {WAIT}"
    ));
    reported(&early, FaultKind::Mbarrier, &unpublished);
}

#[test]
fn threads_of_a_cta_need_a_barrier_and_no_fence() {
    silent(&of_two_warps(&format!(
        "{INIT} bar.sync 0; @%p1 mbarrier.arrive.shared::cta.b64 _, [%r2]; {WAIT}"
    )));
}

#[test]
fn another_cta_must_know_of_the_initialisation() {
    let text = |fence: &str, relaxed: &str| {
        of_a_pair(&format!(
            "{INIT} {fence} barrier.cluster.arrive{relaxed}; barrier.cluster.wait;
            mapa.shared::cluster.u32 %r7, %r2, %r5; @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r7]; {WAIT}"
        ))
    };
    silent(&text(FENCE, ".relaxed"));
    // A cluster barrier that releases makes it visible as it does other writes.
    silent(&text("", ""));
    reported(
        &text("", ".relaxed"),
        FaultKind::Mbarrier,
        &["is not visible to this thread: no fence.mbarrier_init is in between"],
    );
}

#[test]
fn copies_to_another_cta_must_know_of_the_initialisation() {
    let meets = "barrier.cluster.arrive.relaxed; barrier.cluster.wait;";
    let remote = "mapa.shared::cluster.u32 %r7, %r3, %r5; mapa.shared::cluster.u32 %r8, %r2, %r5;";
    let bulk = "st.shared.u32 [%r3], 7; fence.proxy.async.shared::cta; bar.warp.sync 0xffffffff;
        @%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r7], [%r3+512], 16, [%r8];";
    let bulk = bulk.replace("[%r3], 7", "[%r9], 7");
    let fill = "shl.b32 %r9, %r1, 2; add.u32 %r9, %r9, %r3; add.u32 %r9, %r9, 512;";
    let store = "@%p1 st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%r7], {%r1, %r1, %r1, %r1}, [%r8];";
    let mut mask = "mov.u16 %h1, 3;
        @%p5 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r3], [%in0], 16, [%r2], %h1;"
        .to_owned();
    mask.insert_str(0, "and.pred %p5, %p1, %p4; ");
    let expect = EXPECT.replace("128", "16");
    for (copy, whom) in [
        (format!("{fill} {bulk}"), "the async proxy"),
        (store.to_owned(), "this thread"),
        (mask, "the async proxy"),
    ] {
        let text = |fence: &str| {
            of_a_pair(&format!(
                "{INIT} {fence} {meets} {remote} {expect} {meets} {copy} {WAIT} {meets}"
            ))
        };
        silent(&text(FENCE));
        reported(
            &text(""),
            FaultKind::Mbarrier,
            &[&format!("is not visible to {whom}: no fence.mbarrier_init")],
        );
    }
}

/// Two phases of the mbarrier; `between` stands between the wait for the first and the arrival in the second.
fn two_phases(between: &str) -> Kernel {
    let next = WAIT
        .replace("wait:", "next:")
        .replace("$wait", "$next")
        .replace(", 0;", ", 1;");
    of_two_warps(&format!(
        "{INIT} {FENCE} bar.sync 0;
        @%p1 mbarrier.arrive.shared::cta.b64 _, [%r2]; {WAIT} {between}
        @%p1 mbarrier.arrive.shared::cta.b64 _, [%r2]; {next}"
    ))
}

#[test]
fn a_phase_ends_after_all_waiters_have_observed_the_one_before() {
    silent(&two_phases("bar.sync 0;"));
    let aliased = "the parity is the same again, and the warp";
    let hangs = (FaultKind::Deadlock, "deadlock");
    reported_or(&two_phases(""), hangs, aliased);
    // A barrier that only the other warp passes says nothing of when it waits.
    reported_or(&two_phases("@!%p6 bar.sync 1, 32;"), hangs, aliased);
}

#[test]
fn an_mbarrier_is_invalidated_after_its_last_use() {
    let text = |between: &str| {
        of_two_warps(&format!(
            "{INIT} {FENCE} bar.sync 0; @%p1 mbarrier.arrive.shared::cta.b64 _, [%r2]; {WAIT} {between}
            setp.eq.u32 %p7, %r1, 32; @%p7 mbarrier.inval.shared::cta.b64 [%r2];"
        ))
    };
    silent(&text("bar.sync 0;"));
    let ended = (FaultKind::Mbarrier, "there is no initialised mbarrier");
    reported_or(
        &text(""),
        ended,
        "which waits for it: in another order that comes later",
    );
}

#[test]
fn arrivals_at_a_barrier_count_in_their_own_phase() {
    let twice = "@%p6 bar.arrive 1, 64; @%p6 bar.arrive 1, 64; @!%p6 bar.sync 2, 32;";
    reported(
        &of_two_warps(twice),
        FaultKind::IllegalOperand,
        &["a second time in the same phase"],
    );
    // The first warp arrives for two phases; the second waits for each.
    let text = |between: &str| {
        of_two_warps(&format!(
            "@!%p6 bra $second; bar.arrive 1, 64; {between} bar.arrive 1, 64; bra $end;
            $second: bar.sync 1, 64; {} bar.sync 1, 64; $end:",
            between.replace("sync", "arrive")
        ))
    };
    silent(&text("bar.sync 2, 64;"));
    reported(
        &text(""),
        FaultKind::IllegalOperand,
        &[
            "a second time in the same phase",
            "in another order it counts there",
        ],
    );
}

#[test]
fn a_read_before_the_first_write_names_the_write() {
    let write = "@%p6 st.shared.u32 [%r3], 7;";
    let read = "@!%p6 ld.shared.u32 %r9, [%r3];";
    silent(&of_two_warps(&format!("{write} bar.sync 0; {read}")));
    reported(
        &of_two_warps(&format!("{read} {write}")),
        FaultKind::Race,
        &[
            "which warp 1 read, with no barrier in between",
            "which warp 0 wrote, with no barrier in between",
        ],
    );
    // The write comes later in every order, or never: what is wrong is the read.
    for text in [format!("{read} bar.sync 0; {write}"), read.to_owned()] {
        let fault = of_two_warps(&text).fault();
        assert_eq!(fault.kind, FaultKind::Uninitialised, "{fault}");
        assert!(fault.ptx.contains("ld.shared"), "{fault}");
    }
}

#[test]
fn a_copy_into_memory_that_was_read_too_early_is_named() {
    let text = format!(
        "{INIT} {FENCE} bar.sync 0; @!%p6 ld.shared.u32 %r9, [%r3]; {EXPECT} {COPY} {WAIT}"
    );
    reported(
        &of_two_warps(&text),
        FaultKind::Race,
        &[
            "which warp 1 read, with no barrier in between",
            "while a copy in flight writes them",
            "that this warp has not waited for",
        ],
    );
}

/// `%p3` in lane 3 of the first warp, `%p5` in its lane 5; the mbarrier counts `count`.
fn of_lanes(count: u32, text: &str) -> Kernel {
    let init = INIT.replace(", 1;", &format!(", {count};"));
    of_two_warps(&format!(
        "setp.eq.u32 %p3, %r1, 3; setp.eq.u32 %p5, %r1, 5; setp.eq.u32 %p7, %r1, 32; {init} {FENCE} bar.sync 0; {text}"
    ))
}

#[test]
fn each_lane_that_arrived_in_a_phase_comes_before_the_next_one() {
    let arrive = |lane: u32| format!("@%p{lane} mbarrier.arrive.shared::cta.b64 _, [%r2];");
    let early = "this arrival counts in phase 1 of the mbarrier at 0x400, and nothing orders it after the completion of phase 0";
    for (first, second) in [(3, 5), (5, 3)] {
        let text = |between: &str| {
            let (first, second) = (arrive(first), arrive(second));
            of_lanes(2, &format!("{first} {second} {between} {second}"))
        };
        silent(&text("bar.warp.sync -1;"));
        reported(&text(""), FaultKind::Mbarrier, &[early]);
    }
    // Of another warp too, and whichever comes first.
    let text = |between: &str| {
        of_lanes(
            2,
            &format!("{} {} {between} {}", arrive(3), arrive(7), arrive(7)),
        )
    };
    silent(&text("bar.sync 0;"));
    reported(&text(""), FaultKind::Mbarrier, &[early]);
}

#[test]
fn each_lane_that_waited_for_a_phase_comes_before_the_end_of_the_next_one() {
    let wait = |lane: u32| {
        let wait = WAIT.replace("$wait", &format!("$wait{lane}"));
        format!("@!%p{lane} bra $past{lane}; {wait} $past{lane}:")
    };
    for (first, second) in [(3, 5), (5, 3)] {
        let text = |between: &str| {
            of_lanes(
                1,
                &format!(
                    "@%p7 mbarrier.arrive.shared::cta.b64 _, [%r2]; {} {} {between} @%p{second} mbarrier.arrive.shared::cta.b64 _, [%r2];",
                    wait(first),
                    wait(second)
                ),
            )
        };
        silent(&text("bar.warp.sync -1;"));
        reported(
            &text(""),
            FaultKind::Mbarrier,
            &[
                "this ends phase 1 of the mbarrier at 0x400, and nothing orders it after warp 0, which waits for phase 0",
            ],
        );
    }
}

#[test]
fn a_fence_behind_what_orders_the_use_publishes_nothing() {
    let text = |arrive: &str| {
        of_a_pair(&format!(
            "{INIT} {arrive} barrier.cluster.wait;
            mapa.shared::cluster.u32 %r7, %r2, %r5; @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r7]; {WAIT}"
        ))
    };
    silent(&text(&format!("{FENCE} barrier.cluster.arrive.relaxed;")));
    reported(
        &text(&format!("barrier.cluster.arrive.relaxed; {FENCE}")),
        FaultKind::Mbarrier,
        &["is not visible to this thread: no fence.mbarrier_init is in between"],
    );
}
