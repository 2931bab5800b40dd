//! What a product says of the four warps that issue it: that they have come so far.

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
