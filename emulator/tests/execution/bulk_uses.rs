//! Single copies: which are right, which lane a report names, and what they leave in memory.

use crate::kernel::Kernel;
use emulator::FaultKind;

/// `%r2` an mbarrier of one arrival, `%r3` a tile of written bytes, `%r7` and `%r8` the same in the other CTA of a pair; `%p3` in lane 3
/// and `%p5` in lane 5 of the first warp. The first buffer has 64 words, which count.
fn kernel(text: &str) -> Kernel {
    let mut kernel = Kernel::new(&format!(
        ".shared .align 8 .b8 bar[8];
        .shared .align 128 .b8 tile[512];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, bar;
        mov.u32 %r3, tile;
        mov.u32 %r4, %cluster_ctarank;
        xor.b32 %r5, %r4, 1;
        shl.b32 %r6, %r1, 3;
        add.u32 %r6, %r6, %r3;
        mapa.shared::cluster.u32 %r7, %r3, %r5;
        mapa.shared::cluster.u32 %r8, %r2, %r5;
        setp.eq.u32 %p3, %r1, 3;
        setp.eq.u32 %p5, %r1, 5;
        st.shared.v2.u32 [%r6], {{%r1, %r4}};
        @%p3 mbarrier.init.shared::cta.b64 [%r2], 1;
        @%p3 fence.mbarrier_init.release.cluster;
        fence.proxy.async;
        {MEET}
        {text}"
    ))
    .threads(64)
    .ctas(2)
    .words(0..64)
    .out(1024);
    kernel.launch.cluster = [2, 1, 1];
    kernel
}

const MEET: &str = "barrier.cluster.arrive; barrier.cluster.wait;";
const WAIT: &str =
    "$wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra $wait;";
const STORED: &str = "@%p5 cp.async.bulk.commit_group; @%p5 cp.async.bulk.wait_group 0;";

fn load(to: &str, from: &str, bytes: u32) -> String {
    format!(
        "@%p5 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{to}], [{from}], {bytes}, [%r2];"
    )
}

fn store(to: &str, from: &str, bytes: u32) -> String {
    format!("@%p5 cp.async.bulk.global.shared::cta.bulk_group [{to}], [{from}], {bytes}; {STORED}")
}

#[test]
fn a_wrong_copy_names_the_lane_that_starts_it() {
    let multicast = |mask: u32| {
        format!(
            "mov.u16 %h1, {mask}; @%p5 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r3], [%in0], 16, [%r2], %h1;"
        )
    };
    for (text, expected) in [
        (load("%r3", "%in0", 24), "a bulk copy of 24 bytes; the size must be a multiple of 16 above zero"),
        (load("%r3", "%in0", 0), "a bulk copy of 0 bytes"),
        (load("%r3+8", "%in0", 16), "is misaligned: the address must be a multiple of 16"),
        (load("%r3", "%in0+8", 16), "is misaligned: the address must be a multiple of 16"),
        (load("%r3+512", "%in0", 16), "out of bounds"),
        (load("%r3+496", "%in0", 32), "out of bounds"),
        (store("%in0", "%r3+504", 16), "is misaligned"),
        (store("%in0", "%r3+496", 32), "out of bounds"),
        (store("%in0+4", "%r3", 16), "is misaligned"),
        (store("%in0", "%r3", 8), "a bulk copy of 8 bytes"),
        (multicast(5), "a multicast to CTA 2 of a cluster of 2: its mask is 0b101"),
        (
            "@%p5 cp.async.bulk.prefetch.L2.global [%in0+4], 16;".to_owned(),
            "is misaligned: the address must be a multiple of 16",
        ),
        (
            "@%p5 cp.async.bulk.prefetch.L2.global [%in0], 20;".to_owned(),
            "a bulk copy of 20 bytes",
        ),
        (
            "@%p5 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r7], [%r3+8], 16, [%r8];".to_owned(),
            "is misaligned",
        ),
        (
            "@%p5 st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7+2], %r1, [%r8];".to_owned(),
            "is misaligned",
        ),
        (store("%in0", "%r7", 16), "a bulk store reads the shared memory of its own CTA"),
        ("@%p5 cp.async.ca.shared.global [%r3+2], [%in0], 4;".to_owned(), "is misaligned"),
        ("@%p5 cp.async.ca.shared.global [%r3], [%in0+2], 4;".to_owned(), "is misaligned"),
        ("@%p5 cp.async.ca.shared.global [%r3+512], [%in0], 4;".to_owned(), "out of bounds"),
        ("@%p5 cp.async.ca.shared.global [%r3], [%in0+256], 4;".to_owned(), "out of bounds"),
    ] {
        let fault = kernel(&text).fault();
        assert!(fault.message.contains(expected), "{text}: {fault}");
        assert_eq!(fault.lanes, 1 << 5, "{fault}");
    }
    // A range of a prefetch may lie outside of all allocations, and the end of a tile is inside.
    kernel("@%p5 cp.async.bulk.prefetch.L2.global [%in0+240], 160;").run();
    let first = "setp.eq.u32 %p4, %r4, 0; and.pred %p5, %p5, %p4;";
    kernel(&format!("{first} {}", store("%in0", "%r3+496", 16))).run();
}

#[test]
fn reductions_into_another_cta_change_each_element() {
    for (ty, op, of) in [
        ("u32", "add", (|old, new| old + new) as fn(u64, u64) -> u64),
        ("u32", "max", u64::max),
        ("u64", "add", |old, new| old + new),
    ] {
        let text = format!(
            "@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 48;
            {MEET}
            @%p5 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{ty} [%r7+128], [%r3+16], 48, [%r8];
            {WAIT}
            ld.shared.v2.u32 {{%r10, %r11}}, [%r6];
            shl.b32 %r12, %r4, 6;
            add.u32 %r12, %r12, %r1;
            mul.wide.u32 %rd1, %r12, 8;
            add.u64 %rd1, %rd1, %in1;
            st.global.v2.u32 [%rd1], {{%r10, %r11}};
            {MEET}"
        );
        let found = kernel(&text).run();
        // Thread and CTA, word by word.
        let word = |cta: u64, at: u64| if at.is_multiple_of(2) { at / 2 } else { cta };
        let element = |cta: u64, at: u64| match ty {
            "u32" => word(cta, at),
            _ => word(cta, 2 * at) | word(cta, 2 * at + 1) << 32,
        };
        let size: u64 = if ty == "u32" { 4 } else { 8 };
        for cta in 0..2 {
            for at in 0..512 / size {
                let own = element(cta, at);
                let expected = match at * size {
                    128..176 => of(own, element(1 - cta, at - 112 / size)),
                    _ => own,
                };
                let begin = (cta * 512 + at * size) as usize;
                let bytes = &found.bytes(1)[begin..begin + size as usize];
                let mut value = [0; 8];
                value[..bytes.len()].copy_from_slice(bytes);
                assert_eq!(u64::from_le_bytes(value), expected, "{op}.{ty} {cta} {at}");
            }
        }
    }
}

#[test]
fn a_thread_waits_for_its_own_copies_alone() {
    let copies = "@%p3 cp.async.ca.shared.global [%r6], [%in0], 4; @%p5 cp.async.ca.shared.global [%r6], [%in0], 4; cp.async.commit_group;";
    let read = |wait: &str, lane: u32| {
        kernel(&format!(
            "{copies} {wait} bar.warp.sync -1; mov.u32 %r9, tile; @%p{lane} ld.shared.u32 %r10, [%r9+24]; @%p{lane} ld.shared.u32 %r10, [%r9+40]; cp.async.wait_all;"
        ))
    };
    read("cp.async.wait_all;", 5).run();
    for wait in [
        "@%p5 cp.async.wait_all;",
        "@%p3 cp.async.wait_group 0;",
        "cp.async.wait_group 1;",
    ] {
        let fault = read(wait, 5).fault();
        let expected =
            "while an asynchronous copy (cp.async) in flight writes them; a wait for it is missing";
        assert!(fault.message.contains(expected), "{fault}");
        assert_eq!(fault.lanes, 1 << 5, "{fault}");
    }
}

#[test]
fn a_thread_sees_its_own_accesses_beside_its_copies() {
    // Stored before, read after: the lane needs no barrier for what it did itself.
    let own = "@%p5 st.global.u32 [%in1], 77; @%p5 cp.async.ca.shared.global [%r6], [%in1], 4; @%p5 cp.async.wait_all;
        @%p5 ld.shared.u32 %r10, [%r6]; @%p5 st.global.u32 [%in1+4], %r10; @%p5 st.shared.u32 [%r6], 3; @%p5 st.global.u32 [%in1], 78;";
    let first = "setp.eq.u32 %p4, %r4, 0; and.pred %p5, %p5, %p4;";
    let kernel_of = |text: &str| kernel(&format!("{first} {text}"));
    for seed in 0..4 {
        let found = kernel_of(own).seed(seed).run().words(1);
        assert_eq!(found[..2], [78, 77]);
    }
    // Another lane does.
    let other = |access: &str| {
        kernel_of(&format!(
            "@%p5 cp.async.ca.shared.global [%r6], [%in0], 4; @%p5 cp.async.wait_all; mov.u32 %r9, tile; and.pred %p3, %p3, %p4; {access}"
        ))
    };
    for access in [
        "@%p3 ld.shared.u32 %r10, [%r9+40];",
        "@%p3 st.shared.u32 [%r9+40], 3;",
        "@%p3 st.global.u32 [%in0], 3;",
    ] {
        let fault = other(access).fault();
        assert_eq!(
            (fault.kind, fault.lanes),
            (FaultKind::Race, 1 << 3),
            "{fault}"
        );
        assert!(fault.related[0].ptx.contains("cp.async"), "{fault}");
        other(&format!("bar.warp.sync -1; {access}")).run();
    }
}

#[test]
fn an_arrival_behind_copies_is_one_more_unless_it_is_counted() {
    // The mbarrier counts one arrival. Without .noinc each lane's arrival is one that the phase waits for besides.
    let text = |noinc: &str| {
        format!(
            "setp.lt.u32 %p4, %r1, 32; cp.async.ca.shared.global [%r6], [%in0], 4;
            @%p5 cp.async.mbarrier.arrive{noinc}.shared::cta.b64 [%r2]; cp.async.wait_all; bar.sync 0;
            mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r2], 0;
            selp.u32 %r10, 1, 0, %p2; setp.eq.u32 %p6, %r4, 0; and.pred %p6, %p6, %p5; @%p6 st.global.u32 [%in1], %r10;"
        )
    };
    assert_eq!(kernel(&text(".noinc")).run().words(1)[0], 1);
    assert_eq!(kernel(&text("")).run().words(1)[0], 0);
}

#[test]
fn a_wait_for_bulk_stores_is_for_those_of_its_thread() {
    let first = "setp.eq.u32 %p4, %r4, 0; and.pred %p5, %p5, %p4; and.pred %p3, %p3, %p4; setp.eq.u32 %p7, %r1, 37; and.pred %p7, %p7, %p4;";
    let stores = |lane: u32, to: u32| {
        format!(
            "@%p{lane} cp.async.bulk.global.shared::cta.bulk_group [%in1+{to}], [%r3], 16; @%p{lane} cp.async.bulk.commit_group;"
        )
    };
    // The thread that waited may read what it stored.
    kernel(&format!(
        "{first} {} @%p5 cp.async.bulk.wait_group 0; @%p5 ld.global.u32 %r10, [%in1+4];",
        stores(5, 0)
    ))
    .run();
    // What others store, and what it stores later, is written as late as it may be. Nobody checks races here.
    let text = format!(
        "{first} {} {} {} {} @%p7 st.shared.u32 [%r3+256], 1; bar.sync 0;
        @%p5 cp.async.bulk.wait_group 1;
        @%p5 ld.global.v2.u32 {{%r10, %r11}}, [%in0+8];
        @%p5 ld.volatile.global.u32 %r12, [%in0];
        @%p5 ld.volatile.global.u32 %r13, [%in0+16];
        @%p5 ld.volatile.global.u32 %r14, [%in0+32];
        @%p5 ld.volatile.global.u32 %r15, [%in0+48];
        @%p5 st.global.v4.u32 [%in1], {{%r12, %r13, %r14, %r15}};",
        stores(3, 0),
        stores(7, 16),
        stores(5, 32),
        stores(5, 48)
    )
    .replace("[%in1+", "[%in0+");
    let mut late = kernel(&text).seed(2);
    late.launch.checks.races = false;
    // The first words of the buffer are their numbers; the tile begins with 0.
    assert_eq!(late.run().words(1)[..4], [0, 4, 0, 12]);
}

#[test]
fn registers_of_64_bits_are_sent_whole() {
    let text = format!(
        "@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 8;
        mov.u64 %rd1, 0xfedcba9876543210; {MEET}
        @%p5 st.async.shared::cluster.mbarrier::complete_tx::bytes.u64 [%r7+8], %rd1, [%r8];
        {WAIT} ld.shared.u64 %rd2, [%r3+8]; setp.eq.u32 %p6, %r4, 1; and.pred %p6, %p6, %p5; @%p6 st.global.u64 [%in1], %rd2; {MEET}"
    );
    assert_eq!(kernel(&text).run().doubles(1)[0], 0xfedc_ba98_7654_3210);
}

#[test]
fn a_copy_between_ctas_reads_what_the_async_proxy_sees() {
    let text = |fence: &str| {
        format!(
            "@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16; {MEET}
            @%p5 st.shared.u32 [%r3+16], 9; {fence}
            @%p5 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r7+256], [%r3+16], 16, [%r8]; {WAIT} {MEET}"
        )
    };
    kernel(&text("fence.proxy.async.shared::cta;")).run();
    let fault = kernel(&text("")).seed(1).fault();
    let expected =
        "read by an asynchronous copy of 16 bytes in shared memory at 0x490, which warp 0";
    assert!(fault.message.starts_with(expected), "{fault}");
}

#[test]
fn what_happened_before_a_copy_was_started_happens_before_its_phase_ends() {
    // The second warp expects the bytes and arrives; the first one starts the copy after `before`, and is seen by nothing else.
    let text = |before: &str, wait: &str| {
        format!(
            "setp.eq.u32 %p6, %r1, 32; @%p6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16; {MEET}
            @!%p5 bra $second; {before} {} bra $end;
            $second: @!%p6 bra $end; {wait} st.shared.u32 [%r3+64], 7; $end: {MEET}",
            load("%r3+256", "%in0", 16)
        )
    };
    let stored = format!(
        "{} ",
        store("%in1", "%r3+64", 16).replace("wait_group", "wait_group.read")
    );
    let first = "setp.eq.u32 %p4, %r4, 0; @!%p4 bra $past;";
    for before in [
        "ld.shared.u32 %r10, [%r3+64];".to_owned(),
        format!("{first} {stored} $past:"),
    ] {
        for seed in 0..4 {
            kernel(&text(&before, WAIT)).seed(seed).run();
            let fault = kernel(&text(&before, "")).seed(seed).fault();
            assert_eq!(fault.kind, FaultKind::Race, "{fault}");
        }
    }
}

#[test]
fn lanes_of_one_copy_see_each_its_own_accesses() {
    let text = |between: &str, source: &str| {
        format!(
            "setp.eq.u32 %p4, %r4, 0; or.pred %p7, %p3, %p5; and.pred %p7, %p7, %p4;
            selp.u32 %r10, 3, 5, %p3; mul.wide.u32 %rd1, %r10, 4; add.u64 %rd1, %rd1, %in1; mov.u32 %r11, 8; sub.u32 %r11, %r11, %r10;
            mul.wide.u32 %rd2, %r11, 4; add.u64 %rd2, %rd2, %in1;
            @%p7 st.global.u32 [%rd1], %r10; {between}
            @%p7 cp.async.ca.shared.global [%r6], [{source}], 4; @%p7 cp.async.wait_all;
            @%p7 ld.shared.u32 %r12, [%r6]; @%p7 st.shared.u32 [%r6], 3; {between} @%p7 st.global.u32 [{source}], %r12;"
        )
    };
    let found = kernel(&text("", "%rd1")).run().words(1);
    assert_eq!((found[3], found[5]), (3, 5));
    kernel(&text("bar.warp.sync -1;", "%rd2")).run();
    let fault = kernel(&text("", "%rd2")).fault();
    let expected = "another lane of the same warp wrote";
    assert!(fault.message.contains(expected), "{fault}");
    // Behind a barrier the other lane's source is read, and then changed by that lane.
    let text = text("bar.warp.sync -1;", "%rd2").replacen(
        "bar.warp.sync -1; @%p7 st.global.u32 [%rd2]",
        "@%p7 st.global.u32 [%rd1]",
        1,
    );
    let fault = kernel(&text).fault();
    let expected = "which another lane of the same warp read";
    assert!(fault.message.contains(expected), "{fault}");
}
