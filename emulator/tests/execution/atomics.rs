//! Atomics in global and shared memory, across threads and CTAs.

use crate::kernel::Kernel;

#[test]
fn atomics_of_all_ctas_sum_up() {
    let body = "mov.u32 %r1, %tid.x;
        atom.global.add.u32 %r2, [%in0], 1;
        red.global.add.u64 [%in0+8], 1;
        red.global.add.f32 [%in0+16], 0f3F800000;
        red.global.max.u32 [%in0+20], %r1;
        atom.global.inc.u32 %r3, [%in0+24], 99;
        atom.global.add.noftz.f16 %h1, [%in0+28], 0x1400;
        mul.wide.u32 %rd1, %r2, 4;
        add.u64 %rd2, %in1, %rd1;
        st.global.u32 [%rd2], %r1;";
    let outcome = Kernel::new(body)
        .threads(128)
        .ctas(16)
        .words([0; 8])
        .out(2048 * 4)
        .run();
    let words = outcome.words(0);
    assert_eq!(words[0], 2048);
    assert_eq!(outcome.doubles(0)[1], 2048);
    assert_eq!(f32::from_bits(words[4]), 2048.0);
    assert_eq!(words[5], 127);
    assert_eq!(words[6], 2048 % 100);
    // 0x1400 is 2^-10; from one on its f16 neighbours are 2^-10 apart, from two on 2^-9, where ties go to even.
    assert_eq!(words[7], 0x4000);
    // Every ticket was given once.
    let mut owners = outcome.words(1);
    owners.sort_unstable();
    assert_eq!(owners, (0..2048).map(|i| i / 16).collect::<Vec<_>>());
}

#[test]
fn compare_and_swap_builds_a_lock() {
    // One lane of each warp takes the lock, counts, and gives it back.
    let body = "mov.u32 %r1, %tid.x;
        and.b32 %r2, %r1, 31;
        setp.ne.u32 %p1, %r2, 0;
        @%p1 bra $done;
        $spin:
        atom.acquire.gpu.global.cas.b32 %r3, [%in0], 0, 1;
        setp.ne.u32 %p2, %r3, 0;
        @%p2 bra $spin;
        ld.global.u32 %r4, [%in0+4];
        add.u32 %r4, %r4, 1;
        st.global.u32 [%in0+4], %r4;
        fence.acq_rel.gpu;
        atom.global.exch.b32 %r5, [%in0], 0;
        $done:";
    for seed in 0..3 {
        let outcome = Kernel::new(body)
            .threads(128)
            .ctas(8)
            .seed(seed)
            .words([0, 0])
            .run();
        assert_eq!(outcome.words(0), [0, 32]);
    }
}

#[test]
fn a_cta_that_polls_a_flag_of_another_one_makes_progress() {
    // More CTAs than cores: each waits until all have arrived.
    let body = "mov.u32 %r1, %nctaid.x;
        mov.u32 %r4, %tid.x;
        setp.ne.u32 %p1, %r4, 0;
        @%p1 bra $done;
        red.global.add.u32 [%in0], 1;
        $wait:
        ld.relaxed.gpu.global.u32 %r2, [%in0];
        nanosleep.u32 20;
        setp.lt.u32 %p2, %r2, %r1;
        @%p2 bra $wait;
        $done:";
    let outcome = Kernel::new(body).ctas(20).words([0]).run();
    assert_eq!(outcome.words(0), [20]);
}

#[test]
fn atomics_on_shared_memory_count_every_lane() {
    let body = ".shared .b32 cell[2];
        mov.u32 %r1, %tid.x;
        setp.eq.u32 %p1, %r1, 0;
        @%p1 st.shared.u32 [cell], 0;
        @%p1 st.shared.u32 [cell+4], 1000;
        bar.sync 0;
        atom.shared.add.u32 %r2, [cell], %r1;
        red.shared.min.s32 [cell+4], %r1;
        bar.sync 0;
        ld.shared.u32 %r3, [cell];
        ld.shared.u32 %r4, [cell+4];
        @%p1 st.global.v2.u32 [%in0], {%r3, %r4};";
    let outcome = Kernel::new(body).threads(64).out(8).run();
    assert_eq!(outcome.words(0), [63 * 32, 0]);
}
