//! Accesses to global memory that nothing orders, and those that look alike and are ordered.

use crate::global_start::{kernel, ordered, races};
use crate::kernel::Kernel;

#[test]
fn ctas_that_store_to_one_address_race() {
    let text = "@%p1 st.global.u32 [%in0], %r2;";
    races(&kernel(text).ctas(2), "and nothing orders the two");
    ordered(&kernel(text));
    ordered(
        &kernel(
            "mul.wide.u32 %rd1, %r2, 4; add.u64 %rd1, %rd1, %in0; @%p1 st.global.u32 [%rd1], 1;",
        )
        .ctas(8),
    );
    // Neighbours in a word.
    ordered(&kernel("mul.wide.u32 %rd1, %r2, 2; add.u64 %rd1, %rd1, %in0; mov.u16 %h1, 1; @%p1 st.global.u16 [%rd1], %h1;").ctas(8));
}

#[test]
fn a_report_names_both_accesses_and_their_place() {
    let text = "@%p4 st.global.u32 [%in0+8], 7; @%p5 st.global.u32 [%in0+8], 8;";
    for (from, to, expected) in [
        (
            "7;",
            "7;",
            "store of 4 bytes in global memory at 0x700000000008, which warp 0 of CTA (",
        ),
        (
            "@%p5 st.global.u32 [%in0+8], 8;",
            "@%p5 ld.global.u32 %r3, [%in0+8];",
            " of 4 bytes in global memory at 0x700000000008, which warp 0 of CTA (",
        ),
        (
            "@%p5 st.global.u32 [%in0+8], 8;",
            "@%p5 red.global.add.u32 [%in0+8], 8;",
            " of 4 bytes in global memory at 0x700000000008, which warp 0 of CTA (",
        ),
    ] {
        races(&kernel(&text.replace(from, to)).ctas(2), expected);
    }
    let in_a_cta = |first: &str, second: &str| kernel(&format!("@%p2 {first} @!%p2 {second}"));
    let (store, load, add) = (
        "st.global.u32 [%in0+8], 7;",
        "ld.global.u32 %r3, [%in0+8];",
        "red.relaxed.gpu.global.add.u32 [%in0+8], 1;",
    );
    for (first, second, later, earlier) in [
        (store, load, ["load of", "store of"], ["wrote, ", "read, "]),
        (
            store,
            add,
            ["atomic access of", "store of"],
            ["wrote, ", "updated atomically, "],
        ),
        (
            load,
            add,
            ["atomic access of", "load of"],
            ["read, ", "updated atomically, "],
        ),
    ] {
        for seed in 0..4 {
            let message = in_a_cta(first, second).seed(seed).fault().to_string();
            let said = |at: usize| message.contains(later[at]) && message.contains(earlier[at]);
            assert!(said(0) || said(1), "{message}");
            assert!(message.contains("with no barrier in between"), "{message}");
        }
    }
}

#[test]
fn a_read_modify_write_of_many_ctas_must_be_atomic() {
    let text = "@!%p1 bra $end; ld.global.u32 %r3, [%in0]; add.u32 %r3, %r3, 1; st.global.u32 [%in0], %r3; $end:";
    races(&kernel(text).ctas(2), "and nothing orders the two");
    ordered(&kernel("@%p1 red.global.add.u32 [%in0], 1;").ctas(8));
    // Within a CTA too.
    let text = "ld.global.u32 %r3, [%in0]; bar.sync 0; @%p1 st.global.u32 [%in0], %r3;";
    ordered(&kernel(text));
    races(&kernel(&text.replace("bar.sync 0;", "")), "with no bar");
}

#[test]
fn atomics_race_with_weak_accesses_of_other_ctas() {
    races(
        &kernel("@%p4 st.global.u32 [%in0], 7; @%p5 red.global.add.u32 [%in0], 1;").ctas(2),
        "and nothing orders the two",
    );
    races(
        &kernel("@%p4 ld.global.u32 %r3, [%in0]; @%p5 red.global.add.u32 [%in0], 1;").ctas(2),
        "and nothing orders the two",
    );
    ordered(
        &kernel("@%p4 ld.relaxed.gpu.global.u32 %r3, [%in0]; @%p5 red.global.add.u32 [%in0], 1;")
            .ctas(2),
    );
    ordered(
        &kernel("@%p4 ld.volatile.global.u32 %r3, [%in0]; @%p5 st.volatile.global.u32 [%in0], 1;")
            .ctas(2),
    );
}

#[test]
fn an_atomic_for_a_cta_races_with_those_of_others() {
    let text = "@%p1 red.relaxed.cta.global.add.u32 [%in0], 1;";
    races(
        &kernel(text).ctas(2),
        "the scope of one of the two does not include the other",
    );
    ordered(&kernel(&text.replace("@%p1", "")));
    ordered(&kernel(&text.replace(".cta.", ".gpu.")).ctas(2));
    let in_cluster = |text: &str| {
        let mut kernel = kernel(text).ctas(4);
        kernel.launch.cluster = [2, 1, 1];
        kernel
    };
    races(
        &in_cluster(&text.replace(".cta.", ".cluster.")),
        "the scope of one",
    );
    let own = "shr.u32 %r3, %r2, 1; mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd1, %in0; @%p1 red.relaxed.cluster.global.add.u32 [%rd1], 1;";
    ordered(&in_cluster(own));
}

#[test]
fn ctas_of_a_cluster_may_store_copies_of_a_tile() {
    let in_cluster = |text: &str| {
        let mut kernel = kernel(text).ctas(2);
        kernel.launch.cluster = [2, 1, 1];
        kernel
    };
    ordered(&in_cluster("@%p1 st.global.u32 [%in0], 7;"));
    races(
        &in_cluster("add.u32 %r3, %r2, 7; @%p1 st.global.u32 [%in0], %r3;"),
        "nothing orders the two",
    );
    // All of each element counts, and each element.
    ordered(&in_cluster("@%p1 st.global.u32 [%in0], 0xfedcba98;"));
    ordered(&in_cluster(
        "mov.u64 %rd2, 0xfedcba9876543210; @%p1 st.global.u64 [%in0], %rd2;",
    ));
    ordered(&in_cluster(
        "mov.u32 %r3, 9; mov.u32 %r4, 5; @%p1 st.global.v2.u32 [%in0], {%r3, %r4};",
    ));
    races(
        &in_cluster("mov.u32 %r3, 9; @%p1 st.global.v2.u32 [%in0], {%r3, %r2};"),
        "nothing orders the two",
    );
    races(
        &in_cluster("shl.b32 %r3, %r2, 28; @%p1 st.global.u32 [%in0], %r3;"),
        "nothing orders the two",
    );
    // And each lane.
    races(
        &in_cluster(
            "setp.eq.u32 %p6, %r1, 5; selp.u32 %r3, %r2, 7, %p6; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %in0; @%p2 st.global.u32 [%rd1], %r3;",
        ),
        "nothing orders the two",
    );
    // By another instruction, it is no copy.
    races(
        &in_cluster("@%p4 st.global.u32 [%in0], 7; @%p5 st.global.u32 [%in0], 7;"),
        "nothing orders the two",
    );
    // Nor in another cluster, nor by another warp of the CTA.
    races(
        &kernel("@%p1 st.global.u32 [%in0], 7;").ctas(2),
        "nothing orders the two",
    );
    races(&in_cluster("@%p3 st.global.u32 [%in0], 7;"), "wrote, ");
}

/// CTA 0 stores and raises a flag; the others wait for it and load.
fn published(store: &str, raise: &str, poll: &str, after: &str) -> Kernel {
    kernel(&format!(
        "@!%p1 bra $end;
        @%p3 bra $first;
        $wait: {poll}
        setp.eq.u32 %p6, %r3, 0;
        @%p6 bra $wait;
        {after}
        ld.global.u32 %r4, [%in0];
        setp.ne.u32 %p7, %r4, 7;
        @%p7 trap;
        bra $end;
        $first:
        {store}
        {raise}
        $end:"
    ))
    .ctas(4)
}

const STORE: &str = "st.global.u32 [%in0], 7;";
const RAISE: &str = "st.release.gpu.global.u32 [%in0+128], 1;";
const POLL: &str = "ld.acquire.gpu.global.u32 %r3, [%in0+128];";

#[test]
fn a_flag_orders_what_was_released_for_who_acquires_it() {
    ordered(&published(STORE, RAISE, POLL, ""));
    let relaxed = "st.relaxed.gpu.global.u32 [%in0+128], 1;";
    races(
        &published(STORE, relaxed, POLL, ""),
        "and nothing orders the two",
    );
    let weak_poll = POLL.replace("acquire", "relaxed");
    races(
        &published(STORE, RAISE, &weak_poll, ""),
        "and nothing orders the two",
    );
    races(
        &published(STORE, &RAISE.replace("gpu", "cta"), POLL, ""),
        "the scope of one of the two does not include the other",
    );
    races(
        &published(STORE, RAISE, &POLL.replace("gpu", "cluster"), ""),
        "the scope of one of the two does not include the other",
    );
    // Stored after the release.
    races(
        &published("", &format!("{RAISE} {STORE}"), POLL, ""),
        "nothing orders the two",
    );
    // A plain store is no flag.
    races(
        &published(STORE, "st.global.u32 [%in0+128], 1;", POLL, ""),
        "nothing orders the two",
    );
}

#[test]
fn fences_order_what_relaxed_operations_publish() {
    let raise = "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%in0+128], 1;";
    let poll = "ld.relaxed.gpu.global.u32 %r3, [%in0+128];";
    let fence = "fence.acq_rel.gpu;";
    ordered(&published(STORE, raise, poll, fence));
    ordered(&published(
        STORE,
        &raise.replace("fence.acq_rel.gpu", "membar.gl"),
        poll,
        fence,
    ));
    ordered(&published(
        STORE,
        raise,
        "ld.volatile.global.u32 %r3, [%in0+128];",
        fence,
    ));
    ordered(&published(STORE, raise, POLL, ""));
    races(&published(STORE, raise, poll, ""), "nothing orders the two");
    races(
        &published(
            STORE,
            &raise.replace("acq_rel.gpu", "acq_rel.cta"),
            poll,
            fence,
        ),
        "nothing orders the two",
    );
    races(
        &published(STORE, raise, poll, &fence.replace("gpu", "cta")),
        "nothing orders the two",
    );
    races(
        &published(
            "",
            &format!("fence.acq_rel.gpu; {STORE} st.relaxed.gpu.global.u32 [%in0+128], 1;"),
            poll,
            fence,
        ),
        "nothing orders the two",
    );
}

#[test]
fn a_release_carries_what_barriers_ordered_before_it() {
    // The second warp stores; the first thread publishes it after a barrier. The readers pass it on by one.
    let text = |raise: &str, first: &str, second: &str| {
        kernel(&format!(
            "@!%p3 bra $others;
            @%p2 bra $raise;
            st.global.u32 [%in0], 7;
            $raise:
            {first}
            @%p1 {raise}
            bra $end;
            $others:
            @!%p1 bra $meet;
            $wait: {POLL}
            setp.eq.u32 %p6, %r3, 0;
            @%p6 bra $wait;
            $meet:
            {second}
            ld.global.u32 %r4, [%in0];
            $end:"
        ))
        .ctas(3)
    };
    ordered(&text(RAISE, "bar.sync 0;", "bar.sync 0;"));
    races(&text(RAISE, "", "bar.sync 0;"), "nothing orders the two");
    races(&text(RAISE, "bar.sync 0;", ""), "nothing orders the two");
    let relaxed = RAISE.replace("release", "relaxed");
    races(
        &text(&relaxed, "bar.sync 0;", "bar.sync 0;"),
        "nothing orders the two",
    );
}

/// Each CTA stores a word and draws a ticket; the last one adds all words up.
fn reduction(draw: &str, after: &str) -> Kernel {
    kernel(&format!(
        "mul.wide.u32 %rd1, %r2, 4;
        add.u64 %rd1, %rd1, %in0;
        @!%p1 bra $end;
        st.global.u32 [%rd1], 1;
        {draw}
        setp.ne.u32 %p6, %r3, 7;
        @%p6 bra $end;
        {after}
        mov.u32 %r5, 0;
        mov.u32 %r6, 0;
        mov.b64 %rd2, %in0;
        $next:
        ld.global.u32 %r4, [%rd2];
        add.u32 %r5, %r5, %r4;
        add.u64 %rd2, %rd2, 4;
        add.u32 %r6, %r6, 1;
        setp.lt.u32 %p6, %r6, 8;
        @%p6 bra $next;
        st.global.u32 [%in0+192], %r5;
        $end:"
    ))
    .ctas(8)
}

#[test]
fn a_ticket_hands_all_partial_sums_to_the_last_cta() {
    let right = reduction("atom.acq_rel.gpu.global.add.u32 %r3, [%in0+128], 1;", "");
    ordered(&right);
    assert_eq!(right.run().words(0)[48], 8);
    ordered(&reduction(
        "fence.acq_rel.gpu; atom.global.add.u32 %r3, [%in0+128], 1;",
        "fence.acq_rel.gpu;",
    ));
    let nothing = "nothing orders the two";
    races(
        &reduction("atom.relaxed.gpu.global.add.u32 %r3, [%in0+128], 1;", ""),
        nothing,
    );
    races(
        &reduction("atom.release.gpu.global.add.u32 %r3, [%in0+128], 1;", ""),
        nothing,
    );
    races(
        &reduction("atom.acquire.gpu.global.add.u32 %r3, [%in0+128], 1;", ""),
        nothing,
    );
    races(
        &reduction(
            "fence.acq_rel.gpu; atom.global.add.u32 %r3, [%in0+128], 1;",
            "",
        ),
        nothing,
    );
    races(
        &reduction("atom.acq_rel.cta.global.add.u32 %r3, [%in0+128], 1;", ""),
        nothing_or_scope(),
    );
}

/// Either access may be the one that is met first.
fn nothing_or_scope() -> &'static str {
    "the two"
}

/// All CTAs store, meet, and load what another one stored.
fn grid_barrier(arrive: &str, poll: &str) -> Kernel {
    kernel(&format!(
        "add.u32 %r7, %r2, 1;
        and.b32 %r7, %r7, 3;
        mul.wide.u32 %rd1, %r2, 4;
        add.u64 %rd1, %rd1, %in0;
        mul.wide.u32 %rd2, %r7, 4;
        add.u64 %rd2, %rd2, %in0;
        mov.u32 %r6, 4;
        mov.u32 %r4, 0;
        @%p1 st.global.u32 [%rd1], %r6;
        bar.sync 0;
        @!%p1 bra $met;
        {arrive}
        $wait: {poll}
        setp.lt.u32 %p6, %r3, %r6;
        @%p6 bra $wait;
        $met:
        bar.sync 0;
        @!%p2 ld.global.u32 %r4, [%rd2];"
    ))
    .ctas(4)
}

#[test]
fn a_barrier_of_the_grid_orders_all_ctas() {
    let arrive = "red.release.gpu.global.add.u32 [%in0+128], 1;";
    let nothing = "nothing orders the two";
    ordered(&grid_barrier(arrive, POLL));
    races(
        &grid_barrier(&arrive.replace("release", "relaxed"), POLL),
        nothing,
    );
    races(
        &grid_barrier(arrive, &POLL.replace("acquire", "relaxed")),
        nothing,
    );
}
