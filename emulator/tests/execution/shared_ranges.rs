//! Which lane and which bytes of shared memory a report names, and which bytes count as written.

use crate::kernel::Kernel;
use emulator::FaultKind;

/// `%r1` the thread, `%r3` a tile and `%r2` its word of the thread; `%p3` in lane 3 and `%p5` in lane 5 of the first warp.
fn kernel(text: &str) -> Kernel {
    Kernel::new(&format!(
        ".shared .align 128 .b8 tile[1024];
        mov.u32 %r1, %tid.x;
        mov.u32 %r3, tile;
        shl.b32 %r2, %r1, 2;
        add.u32 %r2, %r2, %r3;
        setp.eq.u32 %p3, %r1, 3;
        setp.eq.u32 %p5, %r1, 5;
        {text}"
    ))
    .threads(64)
    .words([0; 64])
    .out(1024)
}

fn ordered(text: &str) {
    for seed in 0..4 {
        kernel(text).seed(seed).run();
    }
}

#[track_caller]
fn reported(text: &str, kind: FaultKind, lanes: u32, expected: &str) {
    for seed in 0..4 {
        let fault = kernel(text).seed(seed).fault();
        assert!(
            fault.kind == kind && fault.lanes == lanes && fault.message.contains(expected),
            "{seed}: {fault}"
        );
    }
}

#[test]
fn accesses_behind_a_store_of_another_lane_are_named() {
    let store = "st.shared.u32 [%r2], 7; bar.sync 0; @%p3 st.shared.u32 [%r3], 3;";
    for (access, name) in [
        ("ld.shared.u32 %r4, [%r3];", "load of 4 bytes"),
        ("ld.shared.v2.u32 {%r4, %r6}, [%r3];", "load of 8 bytes"),
        ("st.shared.u16 [%r3+2], %h1;", "store of 2 bytes"),
        (
            "atom.shared.add.u32 %r4, [%r3], 1;",
            "atomic access of 4 bytes",
        ),
        (
            "cp.async.ca.shared.global [%r3], [%in0], 8;",
            "store of 8 bytes",
        ),
    ] {
        let text = |between: &str| {
            format!("mov.u16 %h1, 5; {store} {between} @%p5 {access} cp.async.wait_all;")
        };
        ordered(&text("bar.warp.sync -1;"));
        reported(&text(""), FaultKind::Race, 1 << 5, name);
    }
}

const BULK: &str = "@%p5 cp.async.bulk.global.shared::cta.bulk_group [%in1], [%r3], 32;
    @%p5 cp.async.bulk.commit_group; @%p5 cp.async.bulk.wait_group 0;";

#[test]
fn a_bulk_store_of_bytes_that_nothing_has_written_is_reported() {
    let written =
        |at: &str| format!("{at} st.shared.u32 [%r2], 7; fence.proxy.async; bar.sync 0; {BULK}");
    ordered(&written(""));
    reported(
        &written("setp.ne.u32 %p6, %r1, 6; @%p6"),
        FaultKind::Uninitialised,
        1 << 5,
        "reads uninitialised memory: nothing has written byte 24 of it",
    );
    let mut unchecked = kernel(&written("setp.ne.u32 %p6, %r1, 6; @%p6"));
    unchecked.launch.checks.uninitialised = false;
    unchecked.run();
}

#[test]
fn what_lanes_stored_to_global_memory_is_written_and_the_rest_is_not() {
    for (element, index) in [
        ("u8", "mov.u32 %r6, %r1;"),
        ("u16", "mov.u32 %r6, %r1;"),
        ("u32", "mov.u32 %r6, %r1;"),
        // Lanes in another order are no run.
        ("u32", "xor.b32 %r6, %r1, 5;"),
        ("u16", "xor.b32 %r6, %r1, 1;"),
    ] {
        let bytes = element[1..].parse::<u32>().expect("a width") / 8;
        let class = if element == "u32" { "r" } else { "h" };
        let text = |past: u32| {
            format!(
                "{index} mul.wide.u32 %rd1, %r6, {bytes}; add.u64 %rd1, %rd1, %in1; cvt.u16.u32 %h1, %r6; mov.u32 %r1, %r6;
                st.global.{element} [%rd1], %{class}1; bar.sync 0; ld.global.{element} %{class}2, [%rd1+{past}];"
            )
        };
        ordered(&text(0));
        for seed in 0..4 {
            let fault = kernel(&text(bytes)).seed(seed).fault();
            assert_eq!(fault.kind, FaultKind::Uninitialised, "{fault}");
        }
    }
}

#[test]
fn bytes_and_halves_of_consecutive_lanes_are_stored_each_by_itself() {
    // Bytes of a pair lie as far apart as halves do, and are no halves.
    let text = "mul.wide.u32 %rd1, %r1, 2; add.u64 %rd1, %rd1, %in0; cvt.u16.u32 %h1, %r1; add.u16 %h2, %h1, 64;
        st.global.v2.u8 [%rd1], {%h1, %h2};";
    let found = kernel(text).run();
    let expected: Vec<u8> = (0..64).flat_map(|at| [at, at + 64]).collect();
    assert_eq!(found.bytes(0)[..128], expected);
    let text = "mul.wide.u32 %rd1, %r1, 2; add.u64 %rd1, %rd1, %in0; cvt.u16.u32 %h1, %r1; mul.lo.u16 %h1, %h1, 0x101;
        st.global.u16 [%rd1+2], %h1;";
    let found = kernel(text).run();
    let expected: Vec<u8> = (0..64).flat_map(|at| [at, at]).collect();
    assert_eq!(found.bytes(0)[2..130], expected);
}
