//! Addresses that are computed from signed integers of 32 bits: which of those that wrapped are reported, and where.

use crate::kernel::Kernel;
use emulator::FaultKind;

/// Element `%r9` of the buffer is loaded and stored again.
const ACCESS: &str = "mul.wide.s32 %rd1, %r9, 4; add.s64 %rd2, %in0, %rd1; ld.global.b32 %r8, [%rd2]; st.global.b32 [%rd2], %r8;";

/// `%r1` is the lane, `%r2` is `0x7fffffff` and `%r3` is 3.
fn kernel(text: &str) -> Kernel {
    Kernel::new(&format!(
        "mov.u32 %r1, %tid.x; mov.b32 %r2, 2147483647; mov.b32 %r3, 3;\n{text}\n{ACCESS}"
    ))
    .words(0..64)
}

/// The report stands at the operation that wrapped, and names the access.
fn reported(text: &str, operation: &str, exact: &str) {
    let fault = kernel(text).fault();
    assert_eq!(fault.kind, FaultKind::IntegerOverflow, "{fault}");
    assert!(fault.ptx.contains(operation), "{fault}");
    assert!(fault.message.contains(exact), "{fault}");
    assert!(fault.related[0].ptx.contains("ld.global"), "{fault}");
}

/// The sum of both numbers wraps in the lanes whose number is not zero, and is brought back below 64.
const SUM: &str = "add.s32 %r4, %r1, %r2;";

#[test]
fn an_address_from_an_integer_that_wrapped_is_reported() {
    // Wrapped products and sums that lie in the buffer all the same.
    reported(
        "mul.lo.s32 %r9, %r3, -1431655765;",
        "mul.lo.s32",
        "in lane 0 the result is -4294967295, of which 1 is left",
    );
    reported(
        "shl.b32 %r4, %r3, 31; shl.b32 %r5, %r3, 30; sub.s32 %r6, %r4, %r5; add.s32 %r9, %r6, -1073741824;",
        "shl.b32",
        "in lane 0 the result is 6442450944",
    );
    reported("shl.b32 %r9, %r3, 32;", "shl.b32", "of which 0 is left");
    reported(
        "mad.lo.s32 %r9, %r2, 2, %r3;",
        "mad.lo.s32",
        "the result is 4294967297, of which 1 is left",
    );
    reported(
        "mov.b32 %r4, -2147483648; mov.b32 %r5, -1; div.s32 %r6, %r4, %r5; sub.s32 %r9, %r6, %r4;",
        "div.s32",
        "the result is 2147483648",
    );
    // Through a selection, a loop's register and a conversion; the lanes that did not wrap are not named.
    reported(
        &format!(
            "{SUM} setp.eq.s32 %p1, %r1, 5; selp.b32 %r5, %r4, %r1, %p1; add.s32 %r6, %r5, %r5; mov.b32 %r9, %r6;"
        ),
        "add.s32 %r4",
        "lanes 5 access memory",
    );
}

#[test]
fn a_coordinate_of_tma_from_an_integer_that_wrapped_is_reported() {
    let text = "mul.lo.s32 %r9, %r2, %r1; add.s32 %r9, %r9, 0; cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%in0, {%r9}];";
    let kernel = Kernel::new(&format!(
        "mov.u32 %r1, %tid.x; mov.b32 %r2, 2147483647; setp.eq.u32 %p1, %r1, 3; @!%p1 ret; {text}"
    ))
    .words(0..64);
    let fault = kernel.fault();
    assert_eq!(fault.kind, FaultKind::IntegerOverflow, "{fault}");
    assert!(fault.message.contains("6442450941"), "{fault}");
}

#[test]
fn what_is_right_or_meant_is_not_reported() {
    for text in [
        // What left 32 bits has come back.
        &format!("{SUM} sub.s32 %r9, %r4, %r2;"),
        &format!("{SUM} sub.s32 %r5, %r1, %r2; add.s32 %r6, %r4, %r5; sub.s32 %r9, %r6, %r1;"),
        // Arithmetic without a sign wraps as it should, and so do bits that are masked, shifted down or divided.
        "mul.lo.u32 %r9, %r3, 2863311531;",
        "shl.b32 %r4, %r3, 31; mov.u32 %r9, %r4; sub.s32 %r9, %r9, -2147483648;",
        "mul.lo.s32 %r4, %r2, -1640531527; and.b32 %r9, %r4, 63;",
        "mul.lo.s32 %r4, %r2, -1640531527; shr.u32 %r9, %r4, 26;",
        "mul.lo.s32 %r4, %r2, -1640531527; rem.u32 %r9, %r4, 64;",
        // A register that is written again.
        &format!("{SUM} mov.b32 %r9, %r4; mov.u32 %r9, %laneid;"),
        &format!("{SUM} mov.b32 %r9, %r4; ld.global.b32 %r9, [%in0+8];"),
        // Lanes that do not access.
        &format!("{SUM} mov.b32 %r9, %r4; setp.ne.s32 %p1, %r1, 0; @%p1 ret; mov.b32 %r9, 0;"),
        // No address.
        &format!("{SUM} st.global.b32 [%in0], %r2; mov.b32 %r9, %r1;"),
        // A large number without a sign.
        "mov.b32 %r4, -4; cvt.u64.u32 %rd3, %r4; sub.s64 %rd4, %in0, %rd3; add.s64 %rd4, %rd4, 4294967292; ld.global.b32 %r9, [%rd4];",
    ] {
        let outcome = kernel(text).try_run();
        assert!(outcome.is_ok(), "{text}: {}", outcome.err().unwrap());
    }
}

#[test]
fn the_check_can_be_left_out() {
    let mut kernel = kernel("mul.lo.s32 %r9, %r3, -1431655765;");
    kernel.launch.checks.wraps = false;
    kernel.run();
}
