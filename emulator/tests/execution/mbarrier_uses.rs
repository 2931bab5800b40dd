//! Single instructions on mbarriers: which counts and bytes are right, and which lane a report names.

use crate::kernel::Kernel;
use emulator::{Fault, FaultKind};

/// `%r2` an mbarrier of 2 arrivals that is not initialised, `%r3` a tile; `%p3` in lane 3, `%p5` in lane 5 and `%p6` in lane 1 of the second
/// warp.
fn kernel(text: &str) -> Kernel {
    Kernel::new(&format!(
        ".shared .align 8 .b8 bar[16];
        .shared .align 128 .b8 tile[256];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, bar;
        mov.u32 %r3, tile;
        setp.eq.u32 %p3, %r1, 3;
        setp.eq.u32 %p5, %r1, 5;
        setp.eq.u32 %p6, %r1, 33;
        {text}"
    ))
    .threads(64)
    .words([0; 64])
}

const INIT: &str =
    "@%p3 mbarrier.init.shared::cta.b64 [%r2], 2; fence.proxy.async.shared::cta; bar.sync 0;";
const EXPECT: &str = "@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;";
const WAIT: &str =
    "$wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra $wait;";

#[track_caller]
fn fault(text: &str, expected: &str) -> Box<Fault> {
    let fault = kernel(text).fault();
    let is_expected = fault.kind == FaultKind::Mbarrier && fault.message.contains(expected);
    assert!(is_expected, "{fault}");
    fault
}

fn silent(text: &str) {
    for seed in 0..4 {
        kernel(text).seed(seed).run();
    }
}

/// The same where lane 5 is at fault.
#[track_caller]
fn of_lane_5(text: &str, expected: &str) {
    assert_eq!(fault(text, expected).lanes, 1 << 5);
}

#[test]
fn a_misuse_names_the_lane_that_does_it() {
    let none = "there is no initialised mbarrier at 0x400";
    for text in [
        "@%p5 mbarrier.arrive.shared::cta.b64 _, [%r2];",
        "@%p5 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r2], 16;",
        "@%p5 mbarrier.inval.shared::cta.b64 [%r2];",
        "@%p5 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;",
        "@%p5 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r2];",
        "@%p5 cp.async.mbarrier.arrive.shared::cta.b64 [%r2];",
        "@%p5 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in0], 16, [%r2];",
    ] {
        of_lane_5(text, none);
    }
    of_lane_5(
        "@%p5 mbarrier.init.shared::cta.b64 [%r2], 0;",
        "an mbarrier of 0 arrivals; the count must be between 1 and 1048575",
    );
    of_lane_5(
        "@%p5 mbarrier.init.shared::cta.b64 [%r2], 1048576;",
        "an mbarrier of 1048576 arrivals",
    );
    of_lane_5(
        &format!("{INIT} @%p5 mbarrier.init.shared::cta.b64 [%r2], 2;"),
        "is initialised again without mbarrier.inval",
    );
    of_lane_5(
        &format!(
            "{INIT} {EXPECT} mov.u32 %r4, 3; @%p5 mbarrier.arrive.shared::cta.b64 %rd1, [%r2], %r4;"
        ),
        "3 arrivals at the mbarrier at 0x400, whose phase 0 misses 1 of 2",
    );
    of_lane_5(
        &format!("{INIT} mov.u32 %r4, 3; @%p5 mbarrier.arrive.shared::cta.b64 %rd1, [%r2], %r4;"),
        "3 arrivals at the mbarrier at 0x400, whose phase 0 misses 2 of 2",
    );
    fault(
        &format!("{INIT} {EXPECT} bar.sync 0; @%p5 mbarrier.inval.shared::cta.b64 [%r2];"),
        "this ends an mbarrier while phase 0 of the mbarrier at 0x400 expects 16 bytes",
    );
    silent("@%p5 mbarrier.init.shared::cta.b64 [%r2], 1048575;");
}

#[test]
fn a_lane_uses_what_another_initialised_behind_a_barrier_of_the_warp() {
    let text = |between: &str| {
        format!(
            "@%p3 mbarrier.init.shared::cta.b64 [%r2], 2; {between} @%p5 mbarrier.arrive.shared::cta.b64 _, [%r2];"
        )
    };
    silent(&text("bar.warp.sync -1;"));
    of_lane_5(
        &text(""),
        "is used, and nothing orders that after its initialisation by warp 0",
    );
}

#[test]
fn an_arrival_that_does_not_complete_a_phase_is_not_the_last() {
    let arrive = |count: u32| {
        format!(
            "{INIT} mov.u32 %r4, {count}; @%p5 mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %rd1, [%r2], %r4;"
        )
    };
    silent(&arrive(1));
    let fault = fault(
        &arrive(2),
        "2 arrivals at the mbarrier at 0x400, whose phase 0 misses 2 of 2",
    );
    assert_eq!(fault.lanes, 1 << 5);
}

#[test]
fn bytes_that_a_thread_completes_are_those_that_it_expects() {
    let arrivals = "@%p6 mbarrier.arrive.shared::cta.b64 _, [%r2];";
    let complete = |bytes: u32| {
        format!(
            "{INIT} {EXPECT} @%p5 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], {bytes}; {arrivals} {WAIT}"
        )
    };
    silent(&complete(16));
    // Before they are expected, too.
    silent(&format!(
        "{INIT} @%p5 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 16; {EXPECT} {arrivals} {WAIT}"
    ));
    let missing = kernel(&complete(8)).fault();
    assert!(
        missing.kind == FaultKind::Deadlock && missing.to_string().contains("8 bytes are missing"),
        "{missing}"
    );
}

#[test]
fn bytes_that_never_come_are_those_of_the_warp_that_expected_them() {
    // The second warp arrives last, and expects none.
    let text =
        format!("{INIT} {EXPECT} bar.sync 0; @%p6 mbarrier.arrive.shared::cta.b64 _, [%r2];");
    let fault = fault(&text, "expects 16 bytes that no copy has delivered");
    assert!(
        fault.warp == 0 && fault.ptx.contains("expect_tx"),
        "{fault}"
    );
}

#[test]
fn what_an_arrival_returns_names_its_phase_and_the_arrivals_that_missed() {
    let arrive = |at: u32| {
        format!("mbarrier.arrive.shared::cta.b64 %rd1, [%r2]; st.global.u64 [%in0+{at}], %rd1;")
    };
    let two = format!("{} {}", arrive(0), arrive(8));
    let next = format!("{} {}", arrive(16), arrive(24));
    let text = format!("{INIT} @!%p5 bra $end; {two} {next} $end:");
    let found = kernel(&text).run().doubles(0);
    let phase = 1 << 21;
    assert_eq!(found[..4], [2, 1, phase + 2, phase + 1]);
}

#[test]
fn the_number_of_transactions_stays_within_20_bits() {
    let expect = "@%p5 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r2], 1048575;";
    let complete = "@%p5 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 1048575;";
    silent(&format!("{INIT} {expect} {complete}"));
    silent(&format!("{INIT} {complete} {expect}"));
    let one = "@%p5 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r2], 1;";
    fault(
        &format!("{INIT} {expect} {one}"),
        "the transaction count of the mbarrier at 0x400 leaves its range: 1048576 bytes",
    );
    let one = one.replace("expect_tx", "complete_tx");
    fault(
        &format!("{INIT} {complete} {one}"),
        "leaves its range: -1048576 bytes",
    );
}

#[test]
fn lanes_of_one_instruction_wait_for_mbarriers_of_their_own() {
    // Lanes 3 and 5 wait for two mbarriers at once; the second one completes later.
    let text = "setp.lt.u32 %p4, %r1, 32; add.u32 %r4, %r2, 8; selp.u32 %r5, %r2, %r4, %p3; or.pred %p7, %p3, %p5;
        @%p7 mbarrier.init.shared::cta.b64 [%r5], 1; bar.sync 0;
        @%p4 bra $waits;
        @!%p6 bra $end;
        st.shared.u32 [%r3], 7;
        mbarrier.arrive.shared::cta.b64 _, [%r2];
        st.shared.u32 [%r3+4], 9;
        mbarrier.arrive.shared::cta.b64 _, [%r4];
        bra $end;
        $waits:
        @!%p7 bra $end;
        $wait: mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r5], 0; @!%p2 bra $wait;
        READ
        $end:";
    silent(&text.replace(
        "READ",
        "ld.shared.u32 %r6, [%r3]; @%p5 ld.shared.u32 %r6, [%r3+4];",
    ));
    for seed in 0..4 {
        let early = text.replace("READ", "@%p3 ld.shared.u32 %r6, [%r3+4];");
        let fault = kernel(&early).seed(seed).fault();
        assert_eq!(fault.kind, FaultKind::Race, "{fault}");
    }
}

#[test]
fn a_lane_needs_no_barrier_for_what_it_did_itself() {
    let arrive = "@%p5 mbarrier.arrive.shared::cta.b64 _, [%r2];";
    let init = |count: u32| format!("@%p5 mbarrier.init.shared::cta.b64 [%r2], {count};");
    silent(&format!("{} {arrive}", init(2)));
    silent(&format!("{} {arrive} {arrive} {arrive}", init(1)));
    silent(&format!(
        "{} {arrive} @%p5 mbarrier.inval.shared::cta.b64 [%r2];",
        init(1)
    ));
}

#[test]
fn a_copy_by_a_lane_that_does_not_know_of_the_initialisation_names_it() {
    let copy = "@%p5 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in0], 16, [%r2];";
    of_lane_5(
        &format!("@%p3 mbarrier.init.shared::cta.b64 [%r2], 2; bar.sync 0; {EXPECT} {copy}"),
        "a copy counts its bytes at the mbarrier at 0x400",
    );
}

#[test]
fn an_mbarrier_ends_after_the_waits_of_other_warps() {
    let text = |between: &str| {
        format!(
            "{INIT} @%p3 mbarrier.arrive.shared::cta.b64 _, [%r2]; @%p3 mbarrier.arrive.shared::cta.b64 _, [%r2];
            {WAIT} {between} @%p6 mbarrier.inval.shared::cta.b64 [%r2];"
        )
    };
    silent(&text("bar.sync 0;"));
    // In some order the wait comes first; in others it finds no mbarrier.
    let mut found = 0;
    for seed in 0..8 {
        let fault = kernel(&text("")).seed(seed).fault();
        let expected = "this ends the mbarrier at 0x400, and nothing orders it after warp 0, which waits for it";
        if fault.message.starts_with(expected) {
            assert_eq!(fault.lanes, 1 << 1, "{fault}");
            found += 1;
        }
    }
    assert!(found > 0, "no order reports it");
}

#[test]
fn a_wait_by_a_state_names_one_phase_and_need_not_be_seen() {
    // Two phases of one arrival end, and nothing orders the second after the wait for the first.
    let text = |wait: &str| {
        format!(
            "@%p3 mbarrier.init.shared::cta.b64 [%r2], 1; fence.proxy.async.shared::cta; bar.sync 0;
            setp.ge.u32 %p7, %r1, 32; mov.u64 %rd1, 1; @!%p7 bra $arrive;
            $wait: {wait} @!%p2 bra $wait; bra $end;
            $arrive: @%p5 mbarrier.arrive.shared::cta.b64 _, [%r2]; @%p5 mbarrier.arrive.shared::cta.b64 _, [%r2]; $end:"
        )
    };
    silent(&text("mbarrier.try_wait.shared::cta.b64 %p2, [%r2], %rd1;"));
    let by_parity = text("mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;");
    for seed in 0..4 {
        let fault = kernel(&by_parity).seed(seed).fault();
        assert!(
            [FaultKind::Mbarrier, FaultKind::Deadlock].contains(&fault.kind),
            "{fault}"
        );
    }
}

/// Lanes 3 and 5 execute `%p7`, each with an mbarrier of its own in `%r5`; `%r4` is that of the other.
fn of_both_lanes(text: &str) -> String {
    format!(
        "add.u32 %r6, %r2, 8; selp.u32 %r5, %r2, %r6, %p3; selp.u32 %r4, %r6, %r2, %p3; or.pred %p7, %p3, %p5; {text}"
    )
}

#[test]
fn lanes_of_one_instruction_know_what_each_did_itself() {
    let init = "@%p7 mbarrier.init.shared::cta.b64 [%r5], 1;";
    let arrive = |register: u32| format!("@%p7 mbarrier.arrive.shared::cta.b64 _, [%r{register}];");
    silent(&of_both_lanes(&format!(
        "{init} {} {}",
        arrive(5),
        arrive(5)
    )));
    let other = of_both_lanes(&format!("{init} {}", arrive(4)));
    fault(
        &other,
        "is used, and nothing orders that after its initialisation by warp 0",
    );
    silent(&of_both_lanes(&format!(
        "{init} bar.warp.sync -1; {}",
        arrive(4)
    )));
    // One arrives where the other one did, in the next phase.
    let next = |between: &str| {
        of_both_lanes(&format!(
            "{init} bar.warp.sync -1; {} {between} {}",
            arrive(5),
            arrive(4)
        ))
    };
    silent(&next("bar.warp.sync -1;"));
    fault(
        &next(""),
        "this arrival counts in phase 1 of the mbarrier at",
    );
}
