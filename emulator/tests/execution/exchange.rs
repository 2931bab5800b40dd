//! Shuffles, votes, matches and reductions of a warp.

use crate::kernel::Kernel;

fn check(body: &str, expected: impl Fn(u32) -> u32) {
    let text = format!(
        "mov.u32 %r1, %tid.x;\n{body}\nmul.wide.u32 %rd1, %r1, 4;\nadd.u64 %rd2, %in0, %rd1;\nst.global.u32 [%rd2], %r0;"
    );
    let outcome = Kernel::new(&text).out(128).run();
    assert_eq!(
        outcome.words(0),
        (0..32).map(&expected).collect::<Vec<_>>(),
        "{body}"
    );
}

#[test]
fn shuffles_read_the_lane_of_each_mode() {
    check("shfl.sync.bfly.b32 %r0, %r1, 5, 31, -1;", |t| t ^ 5);
    check(
        "shfl.sync.down.b32 %r0|%p1, %r1, 3, 31, -1; @!%p1 add.u32 %r0, %r0, 100;",
        |t| {
            if t + 3 < 32 { t + 3 } else { t + 100 }
        },
    );
    check(
        "shfl.sync.up.b32 %r0|%p1, %r1, 3, 0, -1; @!%p1 add.u32 %r0, %r0, 100;",
        |t| {
            if t >= 3 { t - 3 } else { t + 100 }
        },
    );
    check("shfl.sync.idx.b32 %r0, %r1, 2, 6175, -1;", |t| (t & !7) + 2);
    check(
        "sub.u32 %r2, 31, %r1; shfl.sync.idx.b32 %r0, %r1, %r2, 31, -1;",
        |t| 31 - t,
    );
}

#[test]
fn votes_combine_the_member_lanes() {
    check(
        "setp.gt.u32 %p1, %r1, 20; vote.sync.ballot.b32 %r0, %p1, -1;",
        |_| 0xffe0_0000,
    );
    check(
        "setp.gt.u32 %p1, %r1, 20; vote.sync.any.pred %p2, %p1, -1; selp.u32 %r0, 1, 0, %p2;",
        |_| 1,
    );
    check(
        "setp.gt.u32 %p1, %r1, 20; vote.sync.all.pred %p2, !%p1, -1; selp.u32 %r0, 1, 0, %p2;",
        |_| 0,
    );
    check(
        "setp.lt.u32 %p1, %r1, 99; vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r0, 1, 0, %p2;",
        |_| 1,
    );
}

#[test]
fn matches_and_reductions_combine_the_member_lanes() {
    check(
        "and.b32 %r2, %r1, 3; match.any.sync.b32 %r0, %r2, -1;",
        |t| 0x1111_1111 << (t % 4),
    );
    check(
        "match.all.sync.b32 %r0|%p1, %r1, -1; @%p1 mov.u32 %r0, 5;",
        |_| 0,
    );
    check(
        "mov.u32 %r2, 4; match.all.sync.b32 %r0|%p1, %r2, -1; @%p1 mov.u32 %r0, 5;",
        |_| 5,
    );
    check("redux.sync.add.u32 %r0, %r1, -1;", |_| 496);
    check(
        "sub.u32 %r2, %r1, 9; redux.sync.min.s32 %r0, %r2, -1;",
        |_| (-9i32) as u32,
    );
    check(
        "sub.u32 %r2, %r1, 9; redux.sync.max.u32 %r0, %r2, -1;",
        |_| u32::MAX,
    );
    check("redux.sync.xor.b32 %r0, %r1, -1;", |_| 0);
}

#[test]
fn an_elected_lane_is_the_lowest() {
    check("elect.sync %r0|%p1, -1; @%p1 add.u32 %r0, %r0, 7;", |t| {
        if t == 0 { 7 } else { 0 }
    });
}

#[test]
fn lanes_with_different_member_masks_exchange_separately() {
    check(
        "setp.lt.u32 %p1, %r1, 8;
        @%p1 bra $low;
        redux.sync.add.u32 %r0, %r1, 0xffffff00;
        bra $join;
        $low:
        redux.sync.add.u32 %r0, %r1, 0x000000ff;
        $join:
        bar.warp.sync -1;",
        |t| if t < 8 { 28 } else { 468 },
    );
}

#[test]
fn bar_warp_sync_synchronizes_lanes_on_two_paths() {
    // Each side waits for the other in the middle of its path, and reads what the other stored.
    let body = "
        .shared .b32 cell[32];
        mov.u32 %r5, cell;
        shl.b32 %r2, %r1, 2;
        add.u32 %r5, %r5, %r2;
        setp.lt.u32 %p1, %r1, 16;
        @%p1 bra $low;
        st.shared.u32 [%r5], %r1;
        bar.warp.sync -1;
        ld.shared.u32 %r0, [%r5+-64];
        bra $join;
        $low:
        st.shared.u32 [%r5], %r1;
        bar.warp.sync -1;
        ld.shared.u32 %r0, [%r5+64];
        $join:";
    check(body, |t| t ^ 16);
}
