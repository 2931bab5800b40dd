//! Branches: lanes diverge and reconverge.

use crate::kernel::Kernel;

const STORE: &str =
    "mul.wide.u32 %rd1, %r1, 4;\nadd.u64 %rd2, %in0, %rd1;\nst.global.u32 [%rd2], %r0;\n";

fn check(body: &str, expected: impl Fn(u32) -> u32) {
    for seed in 0..4 {
        let text = format!("mov.u32 %r1, %tid.x;\n{body}\n{STORE}");
        let outcome = Kernel::new(&text).threads(64).seed(seed).out(256).run();
        assert_eq!(
            outcome.words(0),
            (0..64).map(&expected).collect::<Vec<_>>(),
            "{body}"
        );
    }
}

#[test]
fn paths_of_nested_ifs_reconverge() {
    check(
        "mov.u32 %r0, 0;
        and.b32 %r2, %r1, 1;
        setp.eq.u32 %p1, %r2, 0;
        @%p1 bra $even;
        add.u32 %r0, %r0, 100;
        and.b32 %r3, %r1, 2;
        setp.ne.u32 %p2, %r3, 0;
        @!%p2 bra $join1;
        add.u32 %r0, %r0, 1000;
        $join1:
        activemask.b32 %r4;
        popc.b32 %r4, %r4;
        add.u32 %r0, %r0, %r4;
        bra $join;
        $even:
        add.u32 %r0, %r0, 7;
        $join:
        vote.sync.ballot.b32 %r5, %p1, -1;
        popc.b32 %r5, %r5;
        mad.lo.u32 %r0, %r5, 10000, %r0;",
        |t| {
            160_000
                + if t % 2 == 0 {
                    7
                } else {
                    116 + if t & 2 != 0 { 1000 } else { 0 }
                }
        },
    );
}

#[test]
fn lanes_of_a_loop_with_differing_trip_counts_reconverge() {
    check(
        "mov.u32 %r0, 0;
        mov.u32 %r2, 0;
        $loop:
        setp.ge.u32 %p1, %r2, %r1;
        @%p1 bra $done;
        add.u32 %r0, %r0, %r2;
        add.u32 %r2, %r2, 1;
        bra $loop;
        $done:
        activemask.b32 %r3;
        setp.ne.u32 %p2, %r3, -1;
        @%p2 add.u32 %r0, %r0, 1000000;",
        |t| t * t.saturating_sub(1) / 2,
    );
}

#[test]
fn a_break_out_of_two_loops_reconverges_after_both() {
    check(
        "mov.u32 %r0, 0;
        mov.u32 %r2, 0;
        $outer:
        mov.u32 %r3, 0;
        $inner:
        add.u32 %r0, %r0, 1;
        setp.eq.u32 %p1, %r0, %r1;
        @%p1 bra $out;
        add.u32 %r3, %r3, 1;
        setp.lt.u32 %p2, %r3, 5;
        @%p2 bra $inner;
        add.u32 %r2, %r2, 1;
        setp.lt.u32 %p3, %r2, 6;
        @%p3 bra $outer;
        $out:",
        |t| if (1..=30).contains(&t) { t } else { 30 },
    );
}

#[test]
fn lanes_that_exit_early_do_not_affect_the_others() {
    let body = "mov.u32 %r1, %tid.x;
        and.b32 %r2, %r1, 3;
        setp.eq.u32 %p1, %r2, 1;
        mul.wide.u32 %rd1, %r1, 4;
        add.u64 %rd2, %in0, %rd1;
        mov.u32 %r0, 5;
        st.global.u32 [%rd2], %r0;
        @%p1 ret;
        setp.eq.u32 %p2, %r2, 2;
        @%p2 bra $skip;
        mov.u32 %r0, 6;
        $skip:
        activemask.b32 %r3;
        popc.b32 %r3, %r3;
        add.u32 %r0, %r0, %r3;
        st.global.u32 [%rd2], %r0;";
    let outcome = Kernel::new(body).out(128).run();
    let expected = |t: u32| match t % 4 {
        1 => 5,
        2 => 29,
        _ => 30,
    };
    assert_eq!(outcome.words(0), (0..32).map(expected).collect::<Vec<_>>());
}

#[test]
fn guarded_instructions_change_only_their_lanes() {
    check(
        "mov.u32 %r0, 1;
        setp.gt.u32 %p1, %r1, 10;
        @%p1 mov.u32 %r0, 2;
        @!%p1 add.u32 %r0, %r0, 40;
        setp.gt.u32 %p1, %r1, 20;
        @%p1 mul.lo.u32 %r0, %r0, %r1;",
        |t| match t {
            0..=10 => 41,
            11..=20 => 2,
            _ => 2 * t,
        },
    );
}

#[test]
fn uniform_branches_do_not_diverge() {
    check(
        "mov.u32 %r0, 3; bra.uni $over; mov.u32 %r0, 4; $over:",
        |_| 3,
    );
}

#[test]
fn calls_of_functions_are_inlined() {
    let body = ".func (.param .u32 r) square (.param .u32 x)
        {
        .reg .b32 %r<4>;
        .reg .pred %p<2>;
        ld.param.u32 %r1, [x];
        setp.gt.u32 %p1, %r1, 5;
        @%p1 bra $big;
        mul.lo.u32 %r2, %r1, %r1;
        st.param.u32 [r], %r2;
        ret;
        $big:
        st.param.u32 [r], %r1;
        ret;
        }
        ---
        .param .b32 arg;
        .param .b32 res;
        mov.u32 %r1, %tid.x;
        st.param.b32 [arg], %r1;
        call (res), square, (arg);
        ld.param.b32 %r0, [res];
        add.u32 %r2, %r0, 1;
        st.param.b32 [arg], %r2;
        call (res), square, (arg);
        ld.param.b32 %r3, [res];
        add.u32 %r0, %r0, %r3;
        mul.wide.u32 %rd1, %r1, 4;
        add.u64 %rd2, %in0, %rd1;
        st.global.u32 [%rd2], %r0;"
        .replace("        ---", "---");
    let square = |x: u32| if x > 5 { x } else { x * x };
    let outcome = Kernel::new(&body).out(128).run();
    assert_eq!(
        outcome.words(0),
        (0..32)
            .map(|t| square(t) + square(square(t) + 1))
            .collect::<Vec<_>>()
    );
}

#[test]
fn special_registers_have_the_values_of_the_launch() {
    let body = "mov.u32 %r1, %ctaid.x;
        mov.u32 %r2, %ntid.x;
        mov.u32 %r3, %tid.x;
        mad.lo.u32 %r4, %r1, %r2, %r3;
        mov.u32 %r5, %laneid;
        mov.u32 %r6, %warpid;
        mov.u32 %r7, %nctaid.x;
        mov.u32 %r8, %lanemask_lt;
        popc.b32 %r8, %r8;
        sub.u32 %r8, %r8, %r5;
        shl.b32 %r0, %r6, 8;
        or.b32 %r0, %r0, %r5;
        shl.b32 %r7, %r7, 16;
        or.b32 %r0, %r0, %r7;
        add.u32 %r0, %r0, %r8;
        mov.u32 %r9, %clock;
        mov.u32 %r10, %clock;
        setp.le.u32 %p1, %r10, %r9;
        @%p1 trap;
        mul.wide.u32 %rd1, %r4, 4;
        add.u64 %rd2, %in0, %rd1;
        st.global.u32 [%rd2], %r0;";
    let outcome = Kernel::new(body).threads(96).ctas(3).out(96 * 12).run();
    let expected = |i: u32| 3 << 16 | (i % 96 / 32) << 8 | (i % 32);
    assert_eq!(outcome.words(0), (0..288).map(expected).collect::<Vec<_>>());
    assert_eq!(outcome.stats.ctas, 3);
    assert_eq!(outcome.stats.by_opcode["mov.u32"], 9 * 9);
}
