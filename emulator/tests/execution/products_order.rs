//! Which mbarrier phases a `wgmma` is ordered after: it is issued by all four warps of a warpgroup, so each of them has completed the waits in front of it.

use crate::kernel::Kernel;
use emulator::FaultKind;

/// Thread 0 ends two phases of an mbarrier for which the third warpgroup waits, the second one when a thread of that has arrived at another
/// one: `before` and `after` stand around the wait.
fn kernel(before: &str, after: &str) -> Kernel {
    let wait = |bar: &str, label: &str| {
        format!(
            "{label}: mbarrier.try_wait.parity.shared::cta.b64 %p3, [{bar}], 0; @!%p3 bra {label};"
        )
    };
    Kernel::new(&format!(
        ".reg .f32 %d<4>;
        .shared .align 8 .b8 full[8];
        .shared .align 8 .b8 empty[8];
        .shared .align 1024 .b8 image[6144];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, full;
        mov.u32 %r3, empty;
        mov.u32 %r4, image;
        shl.b32 %r5, %r1, 4;
        add.u32 %r5, %r5, %r4;
        mov.u32 %r6, 0;
        st.shared.v4.u32 [%r5], {{%r6, %r6, %r6, %r6}};
        mov.b64 %rd1, {};
        setp.eq.u32 %p1, %r1, 0;
        setp.ne.u32 %p2, %r1, %r1;
        setp.ge.u32 %p6, %r1, 256;
        setp.eq.u32 %p7, %r1, 352;
        @%p1 mbarrier.init.shared::cta.b64 [%r2], 1;
        @%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
        fence.proxy.async.shared::cta;
        bar.sync 0;
        @%p6 bra $consumer;
        @!%p1 bra $end;
        mbarrier.arrive.shared::cta.b64 _, [%r2];
        {}
        mbarrier.arrive.shared::cta.b64 _, [%r2];
        bra $end;
        $consumer:
        {before}
        {}
        {after}
        @%p7 mbarrier.arrive.shared::cta.b64 _, [%r3];
        $end:",
        0x800_u64 >> 4 | 8 << 16 | 16 << 32,
        wait("%r3", "$freed"),
        wait("%r2", "$filled"),
    ))
    .threads(384)
}

const PRODUCT: &str = "wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, %rd1, %rd1, %p2, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;";
const DONE: &str = "wgmma.wait_group.sync.aligned 0;";

fn silent(before: &str, after: &str) {
    for seed in 0..4 {
        kernel(before, after).seed(seed).run();
    }
}

/// Some order reports it; in others warps have missed the phase, and wait for ever.
#[track_caller]
fn reported(kernel: &Kernel) {
    let mut found = 0;
    for seed in 0..4 {
        let fault = kernel.clone().seed(seed).fault();
        let expected = "and nothing orders it after warp";
        let is_expected = fault.kind == FaultKind::Mbarrier && fault.message.contains(expected);
        assert!(is_expected || fault.kind == FaultKind::Deadlock, "{fault}");
        found += u32::from(is_expected);
    }
    assert!(found > 0, "no order reports it");
}

#[test]
fn a_warp_that_waited_for_a_product_knows_that_the_others_issued_it() {
    silent("", &format!("{PRODUCT} {DONE}"));
    silent("", "bar.sync 1, 128;");
    // Issued, and not waited for.
    reported(&kernel("", ""));
    reported(&kernel(
        "",
        &format!(
            "@%p7 mbarrier.arrive.shared::cta.b64 _, [%r3]; {PRODUCT} {DONE} setp.ne.u32 %p7, %r1, %r1;"
        ),
    ));
    // Issued before the wait, it says nothing of that.
    reported(&kernel(&format!("{PRODUCT} {DONE}"), ""));
    reported(&kernel(PRODUCT, DONE));
    silent(&format!("{PRODUCT} {DONE}"), &format!("{PRODUCT} {DONE}"));
}

#[test]
fn strictly_a_product_says_that_of_the_executing_warp_alone() {
    let strictly = |after: &str| {
        let mut kernel = kernel("", after);
        kernel.launch.checks.strict = true;
        kernel
    };
    reported(&strictly(&format!("{PRODUCT} {DONE}")));
    for seed in 0..4 {
        strictly("bar.sync 1, 128;").seed(seed).run();
    }
}

/// One warpgroup issues a product and then executes `after`; `%p7` in its thread 37.
fn one_warpgroup(after: &str) -> Kernel {
    Kernel::new(&format!(
        ".reg .f32 %d<4>;
        .shared .align 1024 .b8 image[2048];
        mov.u32 %r1, %tid.x;
        mov.u32 %r4, image;
        shl.b32 %r5, %r1, 4;
        add.u32 %r5, %r5, %r4;
        mov.u32 %r6, 0;
        st.shared.v4.u32 [%r5], {{%r6, %r6, %r6, %r6}};
        mov.b64 %rd1, {};
        mov.f32 %d0, 0f00000000; mov.f32 %d1, %d0; mov.f32 %d2, %d0; mov.f32 %d3, %d0;
        setp.ne.u32 %p2, %r1, %r1;
        setp.eq.u32 %p7, %r1, 37;
        fence.proxy.async.shared::cta;
        bar.sync 0;
        {after}",
        0x400_u64 >> 4 | 8 << 16 | 16 << 32,
    ))
    .threads(128)
    .words([0; 128])
}

#[track_caller]
fn misused(text: &str, expected: &str) {
    let fault = one_warpgroup(text).fault();
    let is_expected = fault.kind == FaultKind::Wgmma || fault.kind == FaultKind::IllegalOperand;
    assert!(is_expected && fault.message.contains(expected), "{fault}");
}

#[test]
fn registers_of_a_product_are_its_own_until_it_is_waited_for() {
    one_warpgroup(&format!("{PRODUCT} {DONE} add.f32 %f1, %d0, %d3;")).run();
    one_warpgroup(&format!("{PRODUCT} add.f32 %f1, %f2, %f2; {DONE}").replace("%f2", "0f00000000"))
        .run();
    for access in [
        "add.f32 %f1, %d3, %d3;",
        "mov.f32 %d1, 0f00000000;",
        "wgmma.wait_group.sync.aligned 1; add.f32 %f1, %d0, %d0;",
    ] {
        misused(
            &format!("{PRODUCT} {access} {DONE}"),
            "is accessed while that product is in flight",
        );
    }
    let in_registers = PRODUCT
        .replace("%rd1, %rd1", "{%r20, %r21, %r22, %r23}, %rd1")
        .replace("1, 1, 0, 0;", "1, 1, 0;");
    misused(
        &format!(
            "mov.u32 %r20, 0; mov.u32 %r21, 0; mov.u32 %r22, 0; mov.u32 %r23, 0; {in_registers} mov.u32 %r22, 1; {DONE}"
        ),
        "a register of operand A of the wgmma",
    );
    // Products of one shape on the same accumulators follow each other.
    let next = PRODUCT.replace("wgmma.fence.sync.aligned;", "");
    one_warpgroup(&format!("{PRODUCT} {next} {DONE}")).run();
}

#[test]
fn a_warp_ends_when_its_products_are_done() {
    let missing = "is in flight; wgmma.wait_group is missing";
    misused(PRODUCT, missing);
    misused(
        &PRODUCT.replace("wgmma.commit_group.sync.aligned;", DONE),
        missing,
    );
}

#[test]
fn all_lanes_of_a_product_keep_or_clear_its_accumulators() {
    misused(
        &format!("setp.eq.u32 %p2, %r1, 37; {PRODUCT} {DONE}"),
        "different values of scale-d",
    );
    one_warpgroup(&format!("setp.eq.u32 %p2, %r1, %r1; {PRODUCT} {DONE}")).run();
}
