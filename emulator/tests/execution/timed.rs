//! When asynchronous work is over in a launch whose time is modelled: what each wait adds, and what each copy moves.

use crate::kernel::Kernel;
use crate::reports;

/// CTAs of a warp that draw numbers below 600 from the first word, and count theirs in the word of their own behind it.
fn drawing(ctas: u32, representatives: Option<Vec<u64>>) -> crate::kernel::Outcome {
    let body = "mov.u32 %r1, %tid.x;
        mov.u32 %r2, %ctaid.x;
        mad.wide.u32 %rd1, %r2, 4, %in0;
        mov.u32 %r3, 0;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra $end;
        $next: atom.global.add.u32 %r4, [%in0], 1;
        setp.ge.u32 %p2, %r4, 600;
        @%p2 bra $store;
        add.u32 %r3, %r3, 1;
        bra $next;
        $store: st.global.u32 [%rd1+4], %r3;
        $end:";
    let mut kernel = Kernel::new(body)
        .ctas(ctas)
        .words(vec![0; 1 + ctas as usize]);
    kernel.launch.is_timed = true;
    kernel.launch.representatives = representatives;
    kernel.run()
}

#[test]
fn clusters_that_run_draw_their_share_of_what_all_draw() {
    let ran = drawing(100, Some(vec![0, 99]));
    // 12 of 600, and one more each that is none; which of the two is earlier depends on what a turn has room for.
    let draws: Vec<u64> = ran.stats.times.iter().map(|time| time.draws).collect();
    let words = ran.words(0);
    assert_eq!(words[1] + words[100], 12);
    assert!((5..8).contains(&words[1]), "{words:?}");
    assert_eq!(
        draws,
        [words[1], words[100]].map(|drew| u64::from(drew) + 1)
    );
    assert!(words[0] >= 600, "others have drawn the rest: {}", words[0]);
}

#[test]
fn clusters_draw_in_order_of_time_where_all_run() {
    let words = drawing(4, None).words(0);
    // A turn of a warp has room for three draws.
    assert!(
        words[1..].iter().all(|&drew| drew.abs_diff(150) <= 3),
        "{words:?}"
    );
    assert_eq!(words[1..].iter().sum::<u32>(), 600);
    assert_eq!(words[0], 604);
}

/// A CTA of 128 threads whose time is modelled, `%r2` an mbarrier of one arrival, `%r3` a tile; `%p1` in its first thread. Each CTA's times
/// are accepted.
fn check(text: &str, ctas: u32) {
    let body = format!(
        ".shared .align 8 .b8 bar[8];
        .shared .align 128 .b8 tile[4096];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, bar;
        mov.u32 %r3, tile;
        mov.u32 %r4, %cluster_ctarank;
        xor.b32 %r5, %r4, 1;
        shl.b32 %r6, %r1, 4;
        add.u32 %r7, %r3, %r6;
        cvt.u64.u32 %rd1, %r6;
        add.u64 %rd1, %rd1, %in0;
        setp.eq.u32 %p1, %r1, 0;
        setp.eq.u32 %p4, %r4, 0;
        @%p1 mbarrier.init.shared::cta.b64 [%r2], 1;
        @%p1 fence.mbarrier_init.release.cluster;
        st.shared.v4.u32 [%r7], {{%r1, %r1, %r1, %r1}};
        fence.proxy.async;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        {text}"
    );
    let mut kernel = Kernel::new(&body).threads(128).ctas(ctas).words([0; 1024]);
    kernel.launch.cluster = [ctas, 1, 1];
    kernel.launch.is_timed = true;
    let stats = kernel.run().stats;
    reports::accept(
        text,
        format!(
            "{:?}\nloaded {:?}\nstored {:?}",
            stats.times, stats.loaded_bytes, stats.stored_bytes
        ),
    );
}

const WAIT: &str =
    "$wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra $wait;";

#[test]
fn a_wait_for_an_mbarrier_ends_with_the_last_of_its_arrivals_and_copies() {
    for bytes in [16, 512, 4096] {
        check(
            &format!(
                "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {bytes};
                @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in0], {bytes}, [%r2]; {WAIT}"
            ),
            1,
        );
    }
    // A thread that arrives late.
    let late = "mov.u32 %r9, 0; $more: add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, 40; @%p3 bra $more; @%p1 mbarrier.arrive.shared::cta.b64 _, [%r2];";
    check(
        &format!("setp.lt.u32 %p5, %r1, 32; @!%p5 bra $wait; {late} {WAIT}"),
        1,
    );
}

#[test]
fn a_wait_for_thread_copies_ends_with_those_of_its_groups() {
    let copy = |at: u32| {
        format!("cp.async.cg.shared.global [%r7+{at}], [%rd1+{at}], 16; cp.async.commit_group;")
    };
    for wait in [
        "cp.async.wait_group 0;",
        "cp.async.wait_group 1;",
        "cp.async.wait_all;",
    ] {
        let work =
            "mov.u32 %r9, 0; $more: add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, 20; @%p3 bra $more;";
        check(
            &format!(
                "{} {work} {} {wait} cp.async.wait_all;",
                copy(0),
                copy(2048)
            ),
            1,
        );
    }
    check(
        &format!(
            "{} cp.async.mbarrier.arrive.shared::cta.b64 [%r2]; cp.async.wait_all;",
            copy(0)
        )
        .replace("cp.async.mbarrier", "@%p1 cp.async.mbarrier"),
        1,
    );
}

#[test]
fn a_wait_for_bulk_stores_ends_with_their_reads_or_writes() {
    for (bytes, wait) in [
        (16, "wait_group 0"),
        (2048, "wait_group 0"),
        (2048, "wait_group.read 0"),
        (2048, "wait_group 1"),
    ] {
        check(
            &format!(
                "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%in0], [%r3], {bytes}; @%p1 cp.async.bulk.commit_group;
                @%p1 cp.async.bulk.{wait}; @%p1 cp.async.bulk.wait_group 0;"
            ),
            1,
        );
    }
    check(
        "@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%in0], [%r3], 512; @%p1 cp.async.bulk.commit_group;
        @%p1 cp.async.bulk.wait_group 0;",
        1,
    );
}

#[test]
fn copies_between_ctas_take_the_time_of_their_bytes() {
    let meet = "barrier.cluster.arrive; barrier.cluster.wait;";
    let remote = "mapa.shared::cluster.u32 %r8, %r3, %r5; mapa.shared::cluster.u32 %r9, %r2, %r5;";
    for bytes in [64, 1024] {
        let expect = format!("@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {bytes};");
        check(
            &format!(
                "{remote} {expect} {meet}
                @%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r8+2048], [%r3], {bytes}, [%r9]; {WAIT} {meet}"
            ),
            2,
        );
        check(
            &format!(
                "{expect} {meet} mov.u16 %h1, 3; and.pred %p5, %p1, %p4;
                @%p5 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r3], [%in0], {bytes}, [%r2], %h1; {WAIT} {meet}"
            ),
            2,
        );
    }
    check(
        &format!(
            "{remote} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16; {meet}
            @%p1 st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%r8], {{%r1, %r1, %r1, %r1}}, [%r9]; {WAIT} {meet}"
        ),
        2,
    );
}
