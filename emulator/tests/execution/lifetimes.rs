//! mbarriers that are counted wrongly, and shared memory that is used before or after its CTA runs.

use crate::kernel::Kernel;
use emulator::{Fault, FaultKind};

/// `%r1` the thread, `%r2` an mbarrier with a count of `count`, `%r3` a tile; `%p1` in the first thread.
fn body(count: u32, text: &str) -> String {
    format!(
        ".shared .align 8 .b8 bar[8];
        .shared .align 128 .b8 tile[1024];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, bar;
        mov.u32 %r3, tile;
        mov.u32 %r4, %cluster_ctarank;
        xor.b32 %r5, %r4, 1;
        setp.eq.u32 %p1, %r1, 0;
        setp.eq.u32 %p4, %r4, 0;
        and.pred %p5, %p1, %p4;
        @%p1 mbarrier.init.shared::cta.b64 [%r2], {count}; @%p1 fence.mbarrier_init.release.cluster;
        bar.sync 0;
        {text}"
    )
}

fn check(kernel: &Kernel, kind: FaultKind, expected: &str) -> Box<Fault> {
    let mut last = None;
    for seed in 0..4 {
        let mut kernel = kernel.clone();
        kernel.launch.seed = seed;
        let fault = kernel.fault();
        assert_eq!(
            (fault.kind, fault.message.as_str()),
            (kind, expected),
            "seed {seed}"
        );
        assert!(fault.help.is_some());
        last = Some(fault);
    }
    last.unwrap()
}

fn of_one(count: u32, text: &str) -> Kernel {
    Kernel::new(&body(count, text)).threads(64).words(0..64)
}

fn of_a_pair(count: u32, text: &str) -> Kernel {
    let mut kernel = Kernel::new(&body(count, text)).ctas(2).words(0..64);
    kernel.launch.cluster = [2, 1, 1];
    kernel
}

const WAIT: &str =
    "$wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra $wait;";
const MEET: &str = "barrier.cluster.arrive.relaxed; barrier.cluster.wait;";
const COPY: &str = "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in0], 128, [%r2];";

#[test]
fn more_arrivals_than_a_phase_counts_are_reported() {
    // One arrival of each warp, at an mbarrier that counts one: the second ends a phase of its own.
    let arrive = "and.b32 %r6, %r1, 31; setp.eq.u32 %p3, %r6, 0; @%p3 mbarrier.arrive.shared::cta.b64 _, [%r2];";
    let fault = check(
        &of_one(1, arrive),
        FaultKind::Mbarrier,
        "this arrival counts in phase 1 of the mbarrier at 0x400, and nothing orders it after the completion of phase 0: in another schedule it is one arrival too many for that phase, which counts 1",
    );
    let seen: Vec<&str> = fault
        .related
        .iter()
        .map(|related| related.text.as_str())
        .collect();
    assert_eq!(
        seen,
        [
            "warp 1 arrives in phase 0",
            "the mbarrier is initialised here, with a count of 1"
        ]
    );
    for seed in 0..4 {
        of_one(2, arrive).seed(seed).run();
        // After a barrier, or by one thread, the same is ordered.
        of_one(
            1,
            &arrive.replace(
                "@%p3",
                "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r2]; bar.sync 0; @%p1",
            ),
        )
        .seed(seed)
        .run();
    }
}

#[test]
fn an_arrival_before_the_copies_of_the_last_phase_is_reported() {
    let text = format!(
        "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128; {COPY}
        @%p1 mbarrier.arrive.shared::cta.b64 _, [%r2]; {WAIT}"
    );
    for seed in 0..4 {
        let fault = of_one(1, &text).seed(seed).fault();
        let early = [
            "phase 0 has had all 1",
            "nothing orders it after the end of phase 0",
        ];
        let found = early.iter().any(|part| fault.message.contains(part));
        assert!(
            fault.kind == FaultKind::Mbarrier && found,
            "{seed}: {fault}"
        );
    }
}

#[test]
fn expected_bytes_that_no_copy_delivers_are_reported() {
    check(
        &of_one(
            1,
            "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 64;",
        ),
        FaultKind::Mbarrier,
        "the kernel exits while phase 0 of the mbarrier at 0x400 expects 64 bytes that no copy has delivered",
    );
    check(
        &of_one(
            1,
            "@%p1 mbarrier.expect_tx.shared::cta.b64 [%r2], 64; @%p1 mbarrier.inval.shared::cta.b64 [%r2];",
        ),
        FaultKind::Mbarrier,
        "this ends an mbarrier while phase 0 of the mbarrier at 0x400 expects 64 bytes that no copy has delivered",
    );
}

#[test]
fn delivered_bytes_that_are_not_expected_are_reported() {
    // The phase cannot complete, and no thread waits for it; the copy is what is wrong.
    let late = format!("{COPY} {WAIT}");
    let fault = of_one(1, &late).fault();
    assert_eq!(fault.kind, FaultKind::Deadlock);
    assert!(
        fault
            .to_string()
            .contains("128 bytes more have been delivered than were expected"),
        "{fault}"
    );
    // An arrival without bytes ends the phase under the copy.
    let fault = of_one(
        1,
        &format!("{COPY} @%p1 mbarrier.arrive.shared::cta.b64 _, [%r2]; {WAIT}"),
    )
    .fault();
    assert_eq!(
        (fault.kind, fault.message.as_str()),
        (
            FaultKind::Mbarrier,
            "this ends a phase of the mbarrier at 0x400 while a copy that completes on it is in flight, whose bytes it does not expect"
        ),
    );
}

#[test]
fn a_multicast_to_a_cta_that_expects_no_bytes_is_reported() {
    let text = format!(
        "{MEET} @%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
        mov.u16 %h1, 3;
        @%p5 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r3], [%in0], 128, [%r2], %h1;
        @!%p4 bra $end; {WAIT} $end: {MEET}"
    );
    let fault = check(
        &of_a_pair(1, &text),
        FaultKind::Race,
        "CTA 1 of the cluster may exit while this copy reads or writes its shared memory: none of its threads waits until that is over",
    );
    assert!(fault.ptx.contains("multicast"), "{}", fault.ptx);
    let mut lenient = of_a_pair(1, &text);
    lenient.launch.checks.races = false;
    check(
        &lenient,
        FaultKind::Mbarrier,
        "the kernel exits after 128 bytes more have been delivered to phase 0 of the mbarrier at 0x400 than it expects",
    );
}

#[test]
fn a_copy_without_a_wait_before_the_cta_exits_is_reported() {
    let text = format!("@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128; {COPY}");
    check(
        &of_one(1, &text),
        FaultKind::Race,
        "the CTA may exit while this copy reads or writes its shared memory: none of its threads waits until that is over",
    );
    of_one(1, &format!("{text} {WAIT}")).run();
}

/// Both CTAs exit at the end of the text, without a cluster barrier.
const ARRIVE: &str =
    "mapa.shared::cluster.u32 %r7, %r2, %r5; @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r7];";
const STORE: &str = "mapa.shared::cluster.u32 %r7, %r3, %r5; shl.b32 %r8, %r1, 2; add.u32 %r7, %r7, %r8; st.shared::cluster.u32 [%r7], %r1;";
const SEND: &str = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 4;
    barrier.cluster.arrive; barrier.cluster.wait;
    mapa.shared::cluster.u32 %r7, %r3, %r5; mapa.shared::cluster.u32 %r8, %r2, %r5;
    @%p1 st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], %r1, [%r8];";

#[test]
fn remote_accesses_to_a_cta_that_may_have_exited_are_reported() {
    let check_race = |text: &str| {
        for seed in 0..4 {
            let fault = of_a_pair(1, text).seed(seed).fault();
            let at_end = [
                "may exit while this",
                "has exited, and its shared memory with it",
            ];
            let found = at_end.iter().any(|part| fault.message.contains(part));
            assert!(fault.kind == FaultKind::Race && found, "{seed}: {fault}");
            assert!(
                fault
                    .help
                    .as_ref()
                    .is_some_and(|help| help.contains("must "))
            );
        }
    };
    let check_good = |text: &str| {
        for seed in 0..4 {
            of_a_pair(1, text).seed(seed).run();
        }
    };
    for text in [
        format!("{MEET}{ARRIVE}"),
        format!("{MEET}{STORE}"),
        SEND.to_owned(),
    ] {
        check_race(&text);
        let meets = format!("{text}{MEET}");
        // A cluster barrier does not order the delivery of what was sent.
        if text == SEND {
            check_race(&meets);
        } else {
            check_good(&meets);
        }
    }
    // Or each waits for what the other sends it.
    check_good(&format!("{MEET}{ARRIVE}{WAIT}"));
    check_good(&format!("{SEND}{WAIT}"));
    // A CTA that leaves at once, before the other arrives.
    check_race(&format!("{MEET} @%p4 ret; {ARRIVE}"));
    check_race(&format!("{MEET} @!%p4 ret; {STORE}"));
}

#[test]
fn remote_accesses_to_a_cta_that_may_not_have_started_are_reported() {
    for text in [ARRIVE, STORE] {
        for seed in 0..4 {
            let fault = of_a_pair(1, &format!("{text}{MEET}")).seed(seed).fault();
            let expected = "and nothing orders it after the start of that CTA";
            assert!(
                fault.kind == FaultKind::Race && fault.message.contains(expected),
                "{fault}"
            );
        }
    }
}

#[test]
fn uses_of_an_mbarrier_unordered_with_its_initialisation_are_reported() {
    let text =
        body(1, WAIT).replace("bar.sync 0;", "") + "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r2];";
    for seed in 0..4 {
        let fault = Kernel::new(&text).threads(64).seed(seed).fault();
        assert_eq!(fault.kind, FaultKind::Mbarrier, "{fault}");
    }
}

#[test]
fn the_lane_and_the_cta_of_a_remote_access_are_named() {
    let of_lane_5 = |text: &str| text.replace("%p1", "%p6");
    let lane = "setp.eq.u32 %p6, %r1, 5;";
    let multicast = "mov.u16 %h1, 3; and.pred %p6, %p6, %p4;
        @%p6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;
        @%p6 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r3], [%in0], 16, [%r2], %h1;";
    let load = "mapa.shared::cluster.u32 %r7, %r3, %r5; @%p6 ld.shared::cluster.u32 %r8, [%r7];";
    for text in [&of_lane_5(ARRIVE), multicast, load] {
        let fault = of_a_pair(1, &format!("{lane} {text} {MEET}")).fault();
        let expected = "and nothing orders it after the start of that CTA";
        assert!(fault.message.contains(expected), "{fault}");
        assert_eq!(fault.lanes, 1 << 5, "{fault}");
        // What the load reads is not written either.
        for seed in (1..4).filter(|_| text != load) {
            // Nothing keeps the other CTA from its end.
            let text = format!("{lane} {MEET} {text}");
            let fault = of_a_pair(1, &text).seed(seed).fault();
            assert!(
                fault.kind == FaultKind::Race || fault.kind == FaultKind::Mbarrier,
                "{fault}"
            );
        }
    }
}
