//! Accesses to shared memory that nothing orders, and those that look alike and are ordered.

use crate::kernel::Kernel;
use emulator::FaultKind;

/// Registers: `%r1` the thread, `%r2` its word, `%r3` the tile, `%r4` the word of the thread 32 further on; `%p1` in the first
/// thread, `%p2` in the first warp. `met` is an initialised mbarrier with a count of `count`.
fn body(count: u32, text: &str) -> String {
    format!(
        ".shared .align 8 .b8 met[8];
        .shared .align 128 .b8 tile[4096];
        mov.u32 %r1, %tid.x;
        mov.u32 %r3, tile;
        shl.b32 %r5, %r1, 2;
        add.u32 %r2, %r3, %r5;
        xor.b32 %r5, %r5, 128;
        add.u32 %r4, %r3, %r5;
        mov.u32 %r10, met;
        setp.eq.u32 %p1, %r1, 0;
        setp.lt.u32 %p2, %r1, 32;
        @%p1 mbarrier.init.shared::cta.b64 [%r10], {count};
        st.shared.u32 [%r2], %r1;
        fence.proxy.async.shared::cta;
        bar.sync 0;
        {text}"
    )
}

fn of_two_warps(count: u32, text: &str) -> Kernel {
    Kernel::new(&body(count, text)).threads(64).words(0..64)
}

/// Every order finds the race, with this in its message.
fn races(count: u32, text: &str, expected: &str) {
    for seed in 0..4 {
        let fault = of_two_warps(count, text).seed(seed).fault();
        let (kind, message) = (fault.kind, fault.to_string());
        assert!(
            kind == FaultKind::Race && message.contains(expected),
            "{seed}: {message}"
        );
        assert!(
            fault.help.is_some() && !fault.related.is_empty(),
            "{message}"
        );
    }
}

fn ordered(count: u32, text: &str) {
    for seed in 0..4 {
        of_two_warps(count, text).seed(seed).run();
    }
}

fn waits(phase: u32) -> String {
    format!(
        "$wait{phase}: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], {phase}; @!%p3 bra $wait{phase};"
    )
}

#[test]
fn writes_and_reads_of_other_warps_need_a_barrier() {
    // Which of the two is first depends on the order; each is found from either side.
    races(
        1,
        "@%p2 st.shared.u32 [%r3], 7; @!%p2 ld.shared.u32 %r6, [%r3];",
        "with no barrier in between",
    );
    races(
        1,
        "st.shared.u32 [%r3], 7;",
        "wrote, with no barrier in between",
    );
    races(
        1,
        "@%p2 st.shared.u32 [%r3], 7; @!%p2 atom.shared.add.u32 %r6, [%r3], 1;",
        "with no barrier in between",
    );
    ordered(
        1,
        "@%p2 st.shared.u32 [%r3], 7; bar.sync 0; @!%p2 ld.shared.u32 %r6, [%r3];",
    );
    ordered(
        1,
        "@!%p2 ld.shared.u32 %r6, [%r3]; bar.sync 1, 64; @%p2 st.shared.u32 [%r3], 7;",
    );
}

#[test]
fn a_write_after_a_read_of_another_warp_needs_a_barrier() {
    let text = "ld.shared.u32 %r6, [%r4]; st.shared.u32 [%r2], 9;";
    races(1, text, "with no barrier in between");
    ordered(1, &text.replace("; st", "; bar.sync 0; st"));
    // A barrier that only one side executes does not order them.
    races(
        1,
        "@%p2 ld.shared.u32 %r6, [%r3+128]; @%p2 bar.sync 1, 32; @!%p2 st.shared.u32 [%r3+128], 7;",
        "with no barrier in between",
    );
}

#[test]
fn accesses_to_different_bytes_of_a_word_do_not_race() {
    let text = "mov.u16 %h1, 5; mov.u32 %r7, 0; selp.u32 %r7, 0, 2, %p2; add.u32 %r7, %r7, %r3; st.shared.u16 [%r7], %h1;";
    ordered(1, text);
    races(
        1,
        &text
            .replace("0, 2, %p2", "0, 1, %p2")
            .replace("u16 [%r7], %h1", "u16 [%r3], %h1"),
        "wrote",
    );
}

#[test]
fn atomics_race_with_other_accesses_and_not_among_themselves() {
    ordered(
        1,
        "atom.shared.add.u32 %r6, [%r3], 1; bar.sync 0; ld.shared.u32 %r6, [%r3];",
    );
    races(
        1,
        "atom.shared.add.u32 %r6, [%r3], 1; @%p2 ld.shared.u32 %r6, [%r3];",
        "in between",
    );
    // Zeros that are not there yet when the counting begins.
    races(
        1,
        "@%p1 st.shared.u32 [%r3], 0; atom.shared.add.u32 %r6, [%r3], 1;",
        "in between",
    );
    ordered(
        1,
        "st.volatile.shared.u32 [%r3], 1; ld.volatile.shared.u32 %r6, [%r3];",
    );
}

#[test]
fn a_wait_for_an_mbarrier_is_ordered_after_its_arrivals() {
    let wait = waits(0);
    let text = format!(
        "@!%p2 bra $second; st.shared.u32 [%r3+4], 7; bar.warp.sync 0xffffffff; @%p1 mbarrier.arrive.shared::cta.b64 _, [%r10]; bra $end;
        $second: {wait} ld.shared.u32 %r6, [%r3+4]; $end:"
    );
    ordered(1, &text);
    races(1, &text.replace(&wait, ""), "shared memory at 0x484");
    let relaxed = text.replace(
        "mbarrier.arrive.shared",
        "mbarrier.arrive.relaxed.cta.shared",
    );
    races(
        1,
        &relaxed,
        "which warp 0 wrote, with no barrier in between",
    );
    // Written after the arrival, which does not order it.
    let late = text.replace("bra $end;", "st.shared.u32 [%r3+4], 8; bra $end;");
    races(1, &late, "with no barrier in between");
}

/// The first thread expects and copies the tile's first 128 bytes.
const COPY: &str = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 128;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in0], 128, [%r10];";

#[test]
fn a_copy_over_data_that_is_still_read_is_a_race() {
    let wait = waits(0);
    ordered(1, &format!("{COPY} {wait} ld.shared.u32 %r6, [%r3];"));
    races(
        1,
        &format!("@!%p2 ld.shared.u32 %r6, [%r3]; {COPY} {wait}"),
        "shared memory at 0x480",
    );
    ordered(
        1,
        &format!("@!%p2 ld.shared.u32 %r6, [%r3]; bar.sync 0; {COPY} {wait}"),
    );
}

#[test]
fn a_ring_of_one_stage_needs_an_empty_barrier() {
    // The second copy starts when the first warp has waited, whether or not the second one has, or has read.
    let text = format!(
        "{COPY} {} @!%p2 ld.shared.u32 %r6, [%r3]; {COPY} {}",
        waits(0),
        waits(1)
    );
    for seed in 0..4 {
        let fault = of_two_warps(1, &text).seed(seed).fault();
        let message = fault.to_string();
        assert!(
            message.contains("which warp 1 read, with no barrier in between")
                || message.contains("before warp 1, which waits for phase 0, has observed that")
                || message.contains("that this warp has not waited for")
                || message.contains("while a copy in flight writes them"),
            "{message}"
        );
    }
    ordered(
        1,
        &text
            .replacen(COPY, "", 0)
            .replace("[%r3]; @%p1", "[%r3]; bar.sync 0; @%p1"),
    );
}

#[test]
fn a_wait_for_one_copy_does_not_order_another() {
    // Two copies, each with its mbarrier; only the second is waited for, and it came later.
    let text = format!(
        ".shared .align 8 .b8 other[8]; mov.u32 %r11, other; @%p1 mbarrier.init.shared::cta.b64 [%r11], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;
        {COPY} {} {} ld.shared.u32 %r6, [%r3]; {}",
        COPY.replace("%r10", "%r11").replace("[%r3]", "[%r3+1024]"),
        waits(0).replace("%r10", "%r11").replace("wait0", "other"),
        waits(0),
    );
    races(1, &text, "copy");
}

#[test]
fn a_write_to_the_source_of_a_bulk_store_in_flight_is_a_race() {
    let store = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%in0], [%r3], 128; @%p1 cp.async.bulk.commit_group;";
    let wait = "@%p1 cp.async.bulk.wait_group.read 0;";
    ordered(
        1,
        &format!("{store} {wait} bar.sync 0; st.shared.u32 [%r2], 1;"),
    );
    // Warps that did not wait need a barrier after the one that did.
    races(
        1,
        &format!("{store} {wait} @!%p2 st.shared.u32 [%r3], 1;"),
        "bulk store",
    );
    races(
        1,
        &format!("{store} bar.sync 0; @!%p2 st.shared.u32 [%r3], 1; bar.sync 0; {wait}"),
        "bulk store in flight may read",
    );
}
