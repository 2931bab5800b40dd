//! Devices with other limits than `sm_90a`: faults and their messages follow the target.

use crate::kernel::Kernel;
use target::Target;

/// The body runs on `sm_90a`, and faults with this message once the limit is changed.
#[track_caller]
fn check(body: &str, change: impl FnOnce(&mut Target), expected: &str) {
    let kernel = Kernel::new(body).out(128);
    kernel.run();
    assert_eq!(kernel.on(change).fault().message, expected);
}

#[test]
fn a_barrier_beyond_the_targets_is_a_fault() {
    check(
        "bar.sync 4;",
        |target| target.cta.barriers = 4,
        "barrier 4 does not exist; a CTA has barriers 0 to 3",
    );
}

const MBARRIER: &str =
    ".shared .align 8 .b8 bar[8]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, bar;
    @%p1 mbarrier.init.shared::cta.b64 [%r2], 2; bar.sync 0;
    @%p1 mbarrier.expect_tx.shared::cta.b64 [%r2], 64; @%p1 mbarrier.inval.shared::cta.b64 [%r2];";

#[test]
fn arrivals_and_bytes_beyond_the_targets_are_faults() {
    let body = MBARRIER.replace(
        "expect_tx.shared::cta.b64 [%r2], 64",
        "expect_tx.shared::cta.b64 [%r2], 0",
    );
    check(
        &body,
        |target| target.mbarrier.arrivals = 1,
        "an mbarrier of 2 arrivals; the count must be between 1 and 1",
    );
    let bytes = |target: &mut Target| target.mbarrier.transaction_bytes = 63;
    let fault = Kernel::new(MBARRIER).on(bytes).fault();
    assert_eq!(
        fault.message,
        "the transaction count of the mbarrier at 0x400 leaves its range: 64 bytes"
    );
}

#[test]
fn a_bulk_copy_off_the_targets_unit_is_a_fault() {
    let unit = |target: &mut Target| target.tensor_map.unit_bytes = 64;
    let prefetch = |at: &str, bytes: u32| {
        format!(
            "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
            @%p1 cp.async.bulk.prefetch.L2.global [%in0+{at}], {bytes};"
        )
    };
    check(
        &prefetch("0", 32),
        unit,
        "a bulk copy of 32 bytes; the size must be a multiple of 64 above zero",
    );
    check(
        &prefetch("16", 64),
        unit,
        "bulk prefetch of 64 bytes in global memory at 0x700000000010 is misaligned: the address must be a multiple of 64",
    );
}
