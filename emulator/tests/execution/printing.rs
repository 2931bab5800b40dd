//! `vprintf` and device assertions.

use crate::kernel::Kernel;
use emulator::FaultKind;

#[test]
fn text_of_every_lane_is_captured() {
    let body = ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
        .global .align 1 .b8 format[20] = {108, 97, 110, 101, 32, 37, 100, 58, 32, 37, 46, 50, 102, 10, 0};
        ---
        .local .align 8 .b8 args[16];
        .param .b64 pf;
        .param .b64 pa;
        .param .b32 pr;
        mov.u32 %r1, %tid.x;
        setp.gt.u32 %p1, %r1, 1;
        @%p1 bra $end;
        cvt.rn.f64.u32 %fd1, %r1;
        mul.f64 %fd1, %fd1, 0d3FE0000000000000;
        st.local.u32 [args], %r1;
        st.local.f64 [args+8], %fd1;
        mov.u64 %rd1, args;
        cvta.local.u64 %rd2, %rd1;
        mov.u64 %rd3, format;
        cvta.global.u64 %rd4, %rd3;
        st.param.b64 [pf], %rd4;
        st.param.b64 [pa], %rd2;
        call (pr), vprintf, (pf, pa);
        $end:"
        .replace("        ---", "---");
    assert_eq!(
        Kernel::new(&body).run().output,
        "lane 0: 0.00\nlane 1: 0.50\n"
    );
}

#[test]
fn failed_assertions_stop_the_kernel() {
    let body = ".extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 c);
        .global .align 1 .b8 text[6] = {120, 32, 60, 32, 110, 0};
        .global .align 1 .b8 file[5] = {97, 46, 114, 115, 0};
        .global .align 1 .b8 name[2] = {107, 0};
        ---
        .param .b64 pm;
        .param .b64 pf;
        .param .b32 pl;
        .param .b64 pn;
        .param .b64 pc;
        mov.u64 %rd1, text;
        st.param.b64 [pm], %rd1;
        mov.u64 %rd1, file;
        st.param.b64 [pf], %rd1;
        st.param.b32 [pl], 12;
        mov.u64 %rd1, name;
        st.param.b64 [pn], %rd1;
        st.param.b64 [pc], 1;
        call __assertfail, (pm, pf, pl, pn, pc);"
        .replace("        ---", "---");
    let fault = Kernel::new(&body).fault();
    assert_eq!(
        (fault.kind, fault.message.as_str()),
        (
            FaultKind::Trap,
            "a.rs:12: k: device assertion failed: x < n"
        )
    );
}
