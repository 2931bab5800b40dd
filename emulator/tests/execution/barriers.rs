//! CTA barriers: all threads, some threads, arrivals, reductions.

use crate::kernel::Kernel;

#[test]
fn stores_before_a_barrier_are_visible_after_it() {
    let body = ".shared .b32 cell[256];
        mov.u32 %r1, %tid.x;
        shl.b32 %r2, %r1, 2;
        mov.u32 %r3, cell;
        add.u32 %r4, %r3, %r2;
        mov.u32 %r0, %r1;
        mov.u32 %r5, 0;
        $loop:
        st.shared.u32 [%r4], %r0;
        bar.sync 0;
        xor.b32 %r6, %r2, 516;
        add.u32 %r7, %r3, %r6;
        ld.shared.u32 %r8, [%r7];
        add.u32 %r0, %r8, 1;
        bar.sync 0;
        add.u32 %r5, %r5, 1;
        setp.lt.u32 %p1, %r5, 4;
        @%p1 bra $loop;
        mul.wide.u32 %rd1, %r1, 4;
        add.u64 %rd2, %in0, %rd1;
        st.global.u32 [%rd2], %r0;";
    for seed in 0..6 {
        let outcome = Kernel::new(body).threads(256).seed(seed).out(1024).run();
        assert_eq!(outcome.words(0), (4..260).collect::<Vec<_>>());
        assert_eq!(outcome.stats.barriers, 8);
    }
}

#[test]
fn producers_arrive_and_consumers_wait() {
    // Warps 0 and 1 fill, warps 2 and 3 read; the fillers do not wait.
    let body = ".shared .b32 cell[64];
        mov.u32 %r1, %tid.x;
        mov.u32 %r3, cell;
        and.b32 %r9, %r1, 63;
        shl.b32 %r2, %r9, 2;
        add.u32 %r4, %r3, %r2;
        setp.ge.u32 %p1, %r1, 64;
        @%p1 bra $read;
        mul.lo.u32 %r5, %r1, 3;
        st.shared.u32 [%r4], %r5;
        bar.arrive 5, 128;
        bra $done;
        $read:
        bar.sync 5, 128;
        ld.shared.u32 %r0, [%r4];
        mul.wide.u32 %rd1, %r9, 4;
        add.u64 %rd2, %in0, %rd1;
        st.global.u32 [%rd2], %r0;
        $done:";
    for seed in 0..6 {
        let outcome = Kernel::new(body).threads(128).seed(seed).out(256).run();
        assert_eq!(outcome.words(0), (0..64).map(|i| i * 3).collect::<Vec<_>>());
    }
}

#[test]
fn halves_of_a_cta_have_their_own_barriers() {
    let body = "mov.u32 %r1, %tid.x;
        shr.u32 %r2, %r1, 6;
        add.u32 %r3, %r2, 1;
        mov.u32 %r4, 0;
        $loop:
        bar.sync %r3, 64;
        add.u32 %r4, %r4, 1;
        setp.le.u32 %p1, %r4, %r3;
        @%p1 bra $loop;
        setp.eq.u32 %p2, %r1, 0;
        @%p2 st.global.u32 [%in0], %r4;";
    for seed in 0..4 {
        assert_eq!(
            Kernel::new(body)
                .threads(128)
                .seed(seed)
                .out(4)
                .run()
                .stats
                .barriers,
            5
        );
    }
}

#[test]
fn bar_red_combines_all_threads_of_a_cta() {
    let body = "mov.u32 %r1, %tid.x;
        setp.lt.u32 %p1, %r1, 70;
        bar.red.popc.u32 %r2, 0, %p1;
        bar.red.and.pred %p2, 0, %p1;
        bar.red.or.pred %p3, 0, !%p1;
        selp.u32 %r3, 1, 0, %p2;
        selp.u32 %r4, 1, 0, %p3;
        setp.eq.u32 %p4, %r1, 0;
        @%p4 st.global.v4.u32 [%in0], {%r2, %r3, %r4, %r1};";
    assert_eq!(
        Kernel::new(body).threads(96).out(16).run().words(0)[..3],
        [70, 0, 1]
    );
}
