//! Which bytes of global memory a copy accesses, and by which lane: rows of a tensor, a tensor map inside an allocation, sources and
//! destinations of threads.

use crate::global_start::{kernel, ordered, races};
use crate::kernel::Kernel;
use emulator::{FaultKind, encode_tensor_map};
use ptx::{L2Promotion, TensorAccess, TensorElement, TensorMap};
use target::SM_90A;

/// Where the first buffer lies: the device is new.
const FIRST: u64 = 0x7000_0000_0000;

/// A matrix of 4 rows of 16 words, in boxes of so many columns and all rows.
fn map(columns: u32) -> Vec<u32> {
    let map = TensorMap {
        element: TensorElement::U32,
        rank: 2,
        address: FIRST,
        dims: [16, 4, 1, 1, 1],
        strides: [64, 0, 0, 0],
        element_strides: [1; 5],
        access: TensorAccess::Tiled {
            box_dims: [columns, 4, 1, 1, 1],
        },
        swizzle: 0,
        nan_fill: false,
        l2_promotion: L2Promotion::None,
    };
    let bytes = encode_tensor_map(&map, &SM_90A).expect("the map is right");
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|word| u32::from_le_bytes(*word)).collect()
}

/// `LOAD` loads a box by thread 5; the map lies at `%rd1`, 128 bytes into the second buffer.
fn boxes(columns: u32, text: &str) -> Kernel {
    let load = format!(
        "@%p6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], {};
        @%p6 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd1, {{%r12, %r12}}], [%r10];",
        columns * 16
    );
    let wait = "$wait: mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r10], 0; @!%p7 bra $wait;";
    let body = format!(
        ".shared .align 8 .b8 met[8];
        .shared .align 128 .b8 tile[256];
        mov.u32 %r10, met;
        mov.u32 %r11, tile;
        mov.u32 %r12, 0;
        add.u64 %rd1, %in1, 128;
        setp.eq.u32 %p6, %r1, 5;
        @%p6 mbarrier.init.shared::cta.b64 [%r10], 1;
        fence.proxy.async.shared::cta;
        bar.sync 0;
        {}",
        text.replace("LOAD", &load).replace("WAIT", wait)
    );
    kernel(&body).words([[0; 32].to_vec(), map(columns), vec![0; 32]].concat())
}

#[test]
fn rows_that_follow_each_other_are_read_as_one_and_others_by_themselves() {
    let fence = "fence.proxy.async.global;";
    let stored = |at: u32| format!("@%p6 st.global.u32 [%in0+{at}], 3;");
    for (columns, at, range) in [
        (16, 132, "256 bytes in global memory at 0x700000000000"),
        (8, 4, "32 bytes in global memory at 0x700000000000"),
        (8, 132, "32 bytes in global memory at 0x700000000080"),
        (8, 220, "32 bytes in global memory at 0x7000000000c0"),
    ] {
        let store = stored(at);
        races(&boxes(columns, &format!("{store} LOAD WAIT")), range);
        ordered(&boxes(columns, &format!("{store} {fence} LOAD WAIT")));
    }
    // Columns that the box leaves out.
    for at in [32, 96, 160, 224] {
        ordered(&boxes(8, &format!("{} LOAD WAIT", stored(at))));
    }
}

#[test]
fn a_map_inside_an_allocation_is_read_until_its_copy_is_over() {
    let change = "@%p6 st.global.u32 [%rd1+124], 0;";
    let beside = [
        "@%p6 st.global.u32 [%rd1+128], 0;",
        "@%p6 st.global.u32 [%rd1+-4], 0;",
    ];
    ordered(&boxes(16, &format!("LOAD WAIT {change}")));
    races(
        &boxes(16, &format!("LOAD {change} WAIT")),
        "while a copy of warp 0 through the tensor map there may be in flight",
    );
    for store in beside {
        ordered(&boxes(16, &format!("LOAD {store} WAIT")));
    }
}

#[test]
fn the_lane_that_reads_a_map_is_named() {
    let other = "setp.eq.u32 %p8, %r1, 9; @%p8 st.global.u32 [%rd1+124], 0;";
    races(
        &boxes(16, &format!("{other} LOAD WAIT")),
        "another lane of the same warp wrote",
    );
}

/// Lane 3 stores to the word that lane 7 of the same warp accesses without `bar.warp.sync`, or behind it.
fn of_two_lanes(access: &str, expected: &str) {
    let text = |between: &str| {
        kernel(&format!(
            ".shared .align 128 .b8 tile[256];
            mov.u32 %r11, tile;
            setp.eq.u32 %p6, %r1, 3;
            setp.eq.u32 %p7, %r1, 7;
            @%p7 st.shared.v4.u32 [%r11], {{%r1, %r1, %r1, %r1}};
            fence.proxy.async;
            bar.sync 0;
            @%p6 st.global.u32 [%in0+4], 3;
            {between}
            {access}"
        ))
    };
    races(&text(""), expected);
    ordered(&text(
        "fence.proxy.async; bar.warp.sync -1; fence.proxy.async;",
    ));
}

#[test]
fn accesses_behind_a_store_of_another_lane_are_named() {
    let by = |what: &str| format!("{what} bytes in global memory at 0x70000000000");
    of_two_lanes("@%p7 ld.global.u32 %r4, [%in0+4];", &by("load of 4"));
    of_two_lanes(
        "@%p7 cp.async.ca.shared.global [%r11], [%in0+4], 4; cp.async.wait_all;",
        &by("read by an asynchronous copy of 4"),
    );
    of_two_lanes(
        "@%p7 atom.global.add.u32 %r4, [%in0+4], 1;",
        &by("atomic access of 4"),
    );
    for (copy, name) in [
        (
            "cp.async.bulk.global.shared::cta.bulk_group",
            "write by a bulk store of 16",
        ),
        (
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32",
            "reduction by a bulk copy of 16",
        ),
    ] {
        let copy = format!(
            "@%p7 {copy} [%in0], [%r11], 16; @%p7 cp.async.bulk.commit_group; @%p7 cp.async.bulk.wait_group 0;"
        );
        of_two_lanes(&copy, &by(name));
    }
}

#[test]
fn lanes_that_store_different_values_to_one_place_are_named() {
    let text = "setp.eq.u32 %p6, %r1, 3; setp.eq.u32 %p7, %r1, 5; or.pred %p6, %p6, %p7;";
    let fault = kernel(&format!("{text} @%p6 st.global.u32 [%in0+8], %r1;")).fault();
    assert_eq!(fault.lanes, 1 << 3 | 1 << 5, "{fault}");
    ordered(&kernel(&format!("{text} @%p6 st.global.u32 [%in0+8], 7;")));
}

/// Thread 5 reduces 32 bytes, 4 words of 7 and 4 of 9, into the buffer `%in{buffer}` 16 bytes past its start.
fn reduction(buffer: u32, op: &str) -> Kernel {
    kernel(&format!(
        ".shared .align 128 .b8 tile[256];
        mov.u32 %r11, tile;
        mov.u32 %r4, 7;
        mov.u32 %r5, 9;
        setp.eq.u32 %p6, %r1, 5;
        @%p6 st.shared.v4.u32 [%r11], {{%r4, %r4, %r4, %r4}};
        @%p6 st.shared.v4.u32 [%r11+16], {{%r5, %r5, %r5, %r5}};
        fence.proxy.async;
        add.u64 %rd1, %in{buffer}, 16;
        @%p6 cp.reduce.async.bulk.global.shared::cta.bulk_group.{op} [%rd1], [%r11], 32;
        @%p6 cp.async.bulk.commit_group;
        @%p6 cp.async.bulk.wait_group 0;"
    ))
    .words(0..64)
    .out(256)
}

#[test]
fn a_reduction_changes_the_elements_that_it_names() {
    for (op, of) in [
        ("add.u32", (|old, new| old + new) as fn(u32, u32) -> u32),
        ("max.u32", u32::max),
        ("xor.b32", |old, new| old ^ new),
    ] {
        let found = reduction(1, op).run().words(1);
        let expected = (0..64).map(|at| match at {
            4..8 => of(at, 7),
            8..12 => of(at, 9),
            _ => at,
        });
        assert_eq!(found, expected.collect::<Vec<u32>>(), "{op}");
    }
    let fault = reduction(2, "add.u32").fault();
    assert!(
        fault.kind == FaultKind::Uninitialised && fault.message.contains("byte 0 of it"),
        "{fault}"
    );
    // Half of what it changes is there.
    let half = "st.global.v4.u32 [%in2+16], {%r1, %r1, %r1, %r1};";
    let text = reduction(2, "add.u32");
    let fault = text
        .with(
            "fence.proxy.async;",
            &format!("@%p6 {half} fence.proxy.async;"),
        )
        .fault();
    assert!(fault.message.contains("byte 16 of it"), "{fault}");
}

/// What lane 5 does with the map is wrong.
#[track_caller]
fn wrong(columns: u32, text: &str, kind: FaultKind, expected: &str) {
    let fault = boxes(columns, text).fault();
    assert!(
        fault.kind == kind && fault.message.contains(expected),
        "{text}: {fault}"
    );
    assert_eq!(fault.lanes, 1 << 5, "{fault}");
}

#[test]
fn a_wrong_use_of_a_map_names_the_lane() {
    let prefetch = |coords: &str| {
        format!(
            "mov.u32 %r13, 1; @%p6 cp.async.bulk.prefetch.tensor.{}d.L2.global.tile [%rd1, {{{coords}}}];",
            coords.split(',').count()
        )
    };
    boxes(16, &prefetch("%r12, %r12")).run();
    boxes(16, "@%p6 prefetch.tensormap [%rd1];").run();
    let rank = "coordinates, and its tensor map has 2 dimensions";
    wrong(16, &prefetch("%r12"), FaultKind::Descriptor, rank);
    wrong(
        16,
        &prefetch("%r12, %r12, %r12"),
        FaultKind::Descriptor,
        rank,
    );
    wrong(
        16,
        &prefetch("%r13, %r12"),
        FaultKind::Misaligned,
        "the copy begins at element 1 of the innermost dimension, 4 bytes each",
    );
    wrong(
        16,
        "add.u64 %rd1, %rd1, 64; LOAD WAIT",
        FaultKind::Descriptor,
        "are not a tensor map",
    );
    wrong(
        16,
        "add.u64 %rd1, %rd1, 8; LOAD WAIT",
        FaultKind::Misaligned,
        "is misaligned: the address must be a multiple of 64",
    );
    wrong(
        16,
        &"LOAD WAIT".replace("LOAD", "mov.u16 %h1, 0; @%p6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 64; @%p6 cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r11], [%rd1, {%r12, %r12, %r12}], [%r10], {%h1};"),
        FaultKind::Descriptor,
        "the copy and its tensor map disagree about im2col",
    );
    for map in ["add.u64 %rd2, %rd1, 64;", "add.u64 %rd2, %rd1, 4;"] {
        wrong(
            16,
            &format!("{map} @%p6 tensormap.replace.tile.rank.global.b1024.b32 [%rd2], 1;"),
            FaultKind::Misaligned,
            "is misaligned: the address must be a multiple of 128 bytes",
        );
    }
    wrong(
        16,
        "@%p6 tensormap.replace.tile.box_dim.global.b1024.b32 [%rd1], 5, 32;",
        FaultKind::Descriptor,
        "",
    );
    wrong(
        16,
        "setp.eq.u32 %p8, %r1, 9; @%p8 st.global.u32 [%rd1], %r1; @%p6 tensormap.replace.tile.rank.global.b1024.b32 [%rd1], 1;",
        FaultKind::Race,
        "another lane of the same warp wrote",
    );
}

/// `%p6` in lane 3 and `%p7` in lane 7 of the first warp, `%r10` an mbarrier of one arrival.
fn of_lanes(text: &str) -> Kernel {
    kernel(&format!(
        ".shared .align 8 .b8 met[8];
        mov.u32 %r10, met;
        setp.eq.u32 %p6, %r1, 3;
        setp.eq.u32 %p7, %r1, 7;
        @%p1 mbarrier.init.shared::cta.b64 [%r10], 1;
        bar.sync 0;
        {text}"
    ))
}

#[test]
fn a_lane_that_waited_for_another_one_knows_what_that_did() {
    let text = |wait: &str| {
        of_lanes(&format!(
            "@%p6 st.global.u32 [%in0+4], 3; @%p6 mbarrier.arrive.shared::cta.b64 _, [%r10];
            @!%p7 bra $end; {wait} ld.global.u32 %r4, [%in0+4]; st.global.u32 [%in0+4], 4; $end:"
        ))
    };
    ordered(&text(
        "$wait: mbarrier.try_wait.parity.shared::cta.b64 %p8, [%r10], 0; @!%p8 bra $wait;",
    ));
    races(&text(""), "another lane of the same warp wrote");
}

#[test]
fn the_lane_of_the_last_read_is_remembered() {
    let text = |between: &str| {
        of_lanes(&format!(
            "@%p6 ld.global.u32 %r4, [%in0+4]; @%p7 ld.global.u32 %r5, [%in0+4]; {between} @%p6 st.global.u32 [%in0+4], 3;"
        ))
    };
    ordered(&text("bar.warp.sync -1;"));
    races(&text(""), "another lane of the same warp read");
}
