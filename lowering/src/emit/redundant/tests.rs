//! A body of PTX, whose lines that begin with `-` are redundant and no others.

use ptx::{Module, Stmt};

use super::{groups, lanes};

#[track_caller]
fn check(find: fn(&[&Stmt]) -> Vec<usize>, body: &str) {
    const HEAD: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 16 .b8 tile[];\n.visible .entry k() .reqntid 256 {\n\
        .reg .pred %p<9>;\n.reg .b32 %r<9>;\n.reg .f32 %f<9>;\n.reg .b64 %d<9>;\n";
    let lines: Vec<&str> = body.lines().map(str::trim).collect();
    let bare: Vec<&str> = lines
        .iter()
        .map(|line| line.trim_start_matches('-'))
        .collect();
    let text = format!("{HEAD}{}\nret;\n}}\n", bare.join("\n"));
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let statements: Vec<&Stmt> = module.entries[0].body.statements.iter().collect();
    let kept = statements.iter().filter(|s| !matches!(s, Stmt::Comment(_)));
    assert_eq!(
        kept.count(),
        lines.iter().filter(|line| !line.is_empty()).count() + 1,
        "one statement a line"
    );
    let expected: Vec<usize> = (lines.iter().filter(|line| !line.is_empty()).enumerate())
        .filter(|(_, line)| line.starts_with('-'))
        .map(|(at, _)| at)
        .collect();
    assert_eq!(find(&statements), expected, "{text}");
}

#[track_caller]
fn check_waits(body: &str) {
    check(groups::find_waits, body);
}

const PRODUCT: &str = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d1, 1, 1, 1, 0, 0;";

#[test]
fn a_second_wait_waits_for_nothing() {
    check_waits(&format!(
        "-wgmma.wait_group.sync.aligned 0;
        wgmma.fence.sync.aligned;
        {PRODUCT}
        wgmma.commit_group.sync.aligned;
        -wgmma.wait_group.sync.aligned 1;
        wgmma.wait_group.sync.aligned 0;
        -wgmma.wait_group.sync.aligned 0;"
    ));
}

#[test]
fn a_wait_behind_a_loop_is_kept_if_a_group_may_leave_the_loop() {
    let of_loop = |pending: u32, mark: &str| {
        format!(
            "again:
            {PRODUCT}
            wgmma.commit_group.sync.aligned;
            wgmma.wait_group.sync.aligned {pending};
            @%p0 bra again;
            {mark}wgmma.wait_group.sync.aligned 0;"
        )
    };
    check_waits(&of_loop(0, "-"));
    check_waits(&of_loop(1, ""));
}

#[test]
fn groups_of_a_loop_without_waits_are_not_counted() {
    check_waits(
        "again:
        cp.async.commit_group;
        @%p0 bra again;
        cp.async.wait_group 31;
        cp.async.wait_group 4;
        -cp.async.wait_group 5;",
    );
}

#[test]
fn each_path_counts() {
    check_waits(
        "@%p0 bra other;
        cp.async.commit_group;
        cp.async.wait_group 0;
        bra.uni end;
        other:
        cp.async.commit_group;
        end:
        -cp.async.wait_group 1;
        cp.async.wait_group 0;",
    );
}

#[test]
fn a_guarded_wait_is_one_of_some_threads() {
    check_waits(
        "cp.async.commit_group;
        @%p0 cp.async.wait_group 0;
        cp.async.wait_group 0;",
    );
}

#[test]
fn copies_in_no_group_are_waited_for() {
    let copy = "cp.async.cg.shared.global [%r0], [%d0], 16;";
    check_waits(&format!("{copy}\ncp.async.wait_all;\n-cp.async.wait_all;"));
    check_waits(&format!(
        "{copy}\n@%p0 cp.async.commit_group;\n@!%p0 cp.async.wait_group 0;\ncp.async.wait_all;"
    ));
}

#[test]
fn a_bulk_store_that_has_read_its_tile_may_still_write() {
    check_waits(
        "@%p0 cp.async.bulk.commit_group;
        cp.async.bulk.wait_group.read 0;
        -cp.async.bulk.wait_group.read 0;
        cp.async.bulk.wait_group 0;
        -cp.async.bulk.wait_group.read 0;
        -cp.async.bulk.wait_group 0;",
    );
}

#[track_caller]
fn check_lanes(body: &str) {
    const FIRST_LANE: &str =
        "mov.u32 %r1, %tid.x;\nand.b32 %r2, %r1, 31;\nsetp.eq.u32 %p1, %r2, 0;\n";
    check(lanes::find_barriers, &format!("{FIRST_LANE}{body}"));
}

const WAIT: &str = "mbarrier.try_wait.parity.shared::cta.b64 %p2, [tile+8], %r3;";
const ARRIVE: &str = "@%p1 mbarrier.arrive.shared::cta.b64 _, [tile];";

#[test]
fn lanes_that_only_multiplied_have_nothing_to_say() {
    check_lanes(&format!(
        "{WAIT}\n{PRODUCT}\nwgmma.wait_group.sync.aligned 0;\n-bar.warp.sync 0xFFFFFFFF;\nadd.u32 %r4, %r3, 1;\n{ARRIVE}"
    ));
}

#[test]
fn a_second_arrival_in_another_cta_has_no_more_to_say() {
    let remote =
        "mapa.shared::cluster.u32 %r4, %r3, 0;\n@%p1 mbarrier.arrive.shared::cluster.b64 _, [%r4];";
    check_lanes(&format!(
        "ld.shared.b32 %r5, [tile+64];\nbar.warp.sync 0xFFFFFFFF;\n{ARRIVE}\n-bar.warp.sync 0xFFFFFFFF;\n{remote}"
    ));
    check_lanes(&format!(
        "ld.shared.b32 %r5, [tile+64];\nbar.warp.sync 0xFFFFFFFF;\n{remote}"
    ));
}

#[test]
fn accesses_of_lanes_are_released_by_a_barrier_alone() {
    let load = "ld.shared.b32 %r5, [tile+64];";
    check_lanes(&format!(
        "{load}\n{PRODUCT}\nwgmma.wait_group.sync.aligned 0;\nbar.warp.sync 0xFFFFFFFF;\n{ARRIVE}"
    ));
    check_lanes(&format!(
        "{load}\nbar.sync 1, 128;\n-bar.warp.sync 0xFFFFFFFF;\n{ARRIVE}"
    ));
    check_lanes(&format!(
        "{load}\nbar.arrive 1, 128;\nbar.warp.sync 0xFFFFFFFF;\n{ARRIVE}"
    ));
    check_lanes(&format!(
        "{load}\n@%p2 bar.sync 1, 128;\nbar.warp.sync 0xFFFFFFFF;\n{ARRIVE}"
    ));
}

#[test]
fn accesses_of_an_earlier_iteration_count() {
    check_lanes(&format!(
        "again:\n{PRODUCT}\nbar.warp.sync 0xFFFFFFFF;\n{ARRIVE}\nst.shared.b32 [tile+64], %r3;\n@%p2 bra again;"
    ));
}

#[test]
fn what_one_lane_did_the_others_must_know() {
    for guard in ["%p1", "!%p1", "%p2"] {
        check_lanes(&format!(
            "@{guard} st.shared.b32 [tile+64], %r3;\nbar.warp.sync 0xFFFFFFFF;\n{ARRIVE}"
        ));
        check_lanes(&format!(
            "@{guard} mbarrier.init.shared::cta.b64 [tile], 1;\nbar.warp.sync 0xFFFFFFFF;\n{ARRIVE}"
        ));
    }
    check_lanes(&format!("@%p1 {WAIT}\nbar.warp.sync 0xFFFFFFFF;\n{ARRIVE}"));
    check_lanes(&format!(
        "cp.async.bulk.wait_group.read 0;\nbar.warp.sync 0xFFFFFFFF;\n{ARRIVE}"
    ));
}

#[test]
fn copies_of_the_first_lane_are_waited_for_by_mbarriers() {
    let copy = |guard: &str| {
        format!(
            "and.pred %p3, %p1, %p2;\nand.b32 %r6, %r1, 32;\nsetp.eq.u32 %p4, %r6, 0;\nsetp.eq.u32 %p5, %r1, 5;\n\
             @{guard} cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%d0], 16, [tile+8];"
        )
    };
    for guard in ["%p1", "%p3"] {
        check_lanes(&format!(
            "{}\n-bar.warp.sync 0xFFFFFFFF;\n{ARRIVE}",
            copy(guard)
        ));
    }
    for guard in ["!%p1", "%p2", "%p4", "%p5"] {
        check_lanes(&format!(
            "{}\nbar.warp.sync 0xFFFFFFFF;\n{ARRIVE}",
            copy(guard)
        ));
    }
}

#[test]
fn other_barriers_of_a_warp_stay() {
    // What all lanes do next may need their convergence.
    check_lanes("bar.warp.sync 0xFFFFFFFF;\nst.shared.b32 [tile], %r3;");
    check_lanes("bar.warp.sync 0xFFFFFFFF;\nwgmma.fence.sync.aligned;");
    check_lanes("bar.warp.sync 0xFFFFFFFF;\n@%p2 mbarrier.arrive.shared::cta.b64 _, [tile];");
    check_lanes(&format!("bar.warp.sync 0xFFFF;\n{ARRIVE}"));
    check_lanes("-bar.warp.sync 0xFFFFFFFF;\n@%p1 st.shared.b32 [tile], %r3;");
}
