//! Loops and branches of the kernel that do what is traced only once.

use tilekit::prelude::*;

use crate::check;

fn line() -> Blocked {
    Blocked::new([1], [32], [4], [0])
}

#[kernel]
fn carried_layout_changes(x: Ptr<f32>, n: i32) {
    let at = arange(0..128, line());
    let mut sum = zeros([128], line());
    for i in range(0, n) {
        sum += x.at(at + i).load();
        sum = sum.convert_layout(Blocked::new([4], [32], [4], [0]));
    }
    x.at(at).store(sum);
}

#[test]
fn a_carried_tensor_comes_back_with_another_layout() {
    check("carried_layout_changes", carried_layout_changes.trace());
}

#[kernel]
fn carried_shape_changes(x: Ptr<f32>, n: i32) {
    let mut value = x.at(arange(0..128, line())).load();
    while value.sum(0).scalar() < 1.0 {
        value = x.at(arange(0..256, line()) + n).load();
    }
    device_print("value", value);
}

#[test]
fn a_carried_tensor_comes_back_with_another_shape() {
    check("carried_shape_changes", carried_shape_changes.trace());
}

#[kernel]
fn branches_differ(x: Ptr<f32>, n: i32) {
    let at = arange(0..128, line());
    let value = if n > 0 {
        x.at(at).load()
    } else {
        zeros([64], line())
    };
    x.at(at).store(value);
}

#[test]
fn a_branch_gives_another_shape_than_the_other() {
    check("branches_differ", branches_differ.trace());
}

#[kernel]
fn host_counter(x: Ptr<f32>, n: i32) {
    let mut count = 0;
    for i in range(0, n) {
        x.at(i).store(0.0);
        count += 1;
    }
    x.at(n).store(count as f32);
}

#[test]
fn a_host_variable_that_counts_runtime_iterations_is_refused() {
    check("host_counter", host_counter.trace());
}

#[kernel]
fn host_variable_assigned_in_a_branch(x: Ptr<f32>, n: i32) {
    let mut width = 4;
    if n > 100 {
        width = 8;
    }
    x.at(n).store(width as f32);
}

#[test]
fn a_host_variable_assigned_in_a_runtime_branch_is_refused() {
    check(
        "host_variable_assigned_in_a_branch",
        host_variable_assigned_in_a_branch.trace(),
    );
}

#[kernel]
fn host_list(x: Ptr<f32>, n: i32) {
    let mut parts = Vec::new();
    for i in range(0, n) {
        parts.push(x.at(i).load());
    }
    x.store(parts[0]);
}

#[test]
fn a_host_list_that_grows_in_a_runtime_loop_is_refused() {
    check("host_list", host_list.trace());
}

#[kernel]
fn value_escapes(x: Ptr<f32>, n: i32) {
    let last = std::cell::Cell::new(None);
    for i in range(0, n) {
        last.set(Some(x.at(i).load()));
    }
    let value: Scalar<f32> = last.get().expect("the loop is traced once");
    x.store(value);
}

#[test]
fn a_value_leaves_its_loop_by_a_cell() {
    check("value_escapes", value_escapes.trace());
}

#[kernel]
fn break_in_loop(x: Ptr<f32>, n: i32) {
    for i in 0..8 {
        if n > i {
            break;
        }
        x.at(i).store(0.0);
    }
}

#[test]
fn a_break_leaves_a_loop_that_the_host_unrolls() {
    check("break_in_loop", break_in_loop.trace());
}

#[kernel]
fn continue_in_loop(x: Ptr<f32>, n: i32) {
    for i in 0..8 {
        if n == i {
            continue;
        }
        x.at(i).store(0.0);
    }
}

#[test]
fn a_continue_skips_the_rest_of_a_loop_that_the_host_unrolls() {
    check("continue_in_loop", continue_in_loop.trace());
}

#[kernel]
fn question_mark_in_loop(x: Ptr<f32>, n: i32) {
    let store = |value: Option<f32>| {
        for i in range(0, n) {
            x.at(i).store(value?);
        }
        Some(())
    };
    let _ = store(None);
}

#[test]
fn a_question_mark_in_a_runtime_loop_is_refused() {
    check("question_mark_in_loop", question_mark_in_loop.trace());
}

#[kernel]
fn return_in_unbounded_host_loop(x: Ptr<i32>) {
    for i in 0.. {
        if x.at(i).load() == 0 {
            return;
        }
    }
}

#[test]
fn a_runtime_return_in_an_unbounded_host_loop_is_refused() {
    check(
        "return_in_unbounded_host_loop",
        return_in_unbounded_host_loop.trace(),
    );
}

#[kernel]
fn host_count_in_a_runtime_loop(x: Ptr<i32>) {
    let mut i = 0;
    loop {
        if x.at(i).load() == 0 {
            return;
        }
        i += 1;
    }
}

#[test]
fn a_host_count_in_a_runtime_loop_is_refused() {
    check(
        "host_count_in_a_runtime_loop",
        host_count_in_a_runtime_loop.trace(),
    );
}

#[kernel]
fn return_before_partitions(x: Ptr<f32>, n: i32) {
    for i in range(0, n) {
        if i == 4 {
            return;
        }
    }
    warp_specialize()
        .main(|| x.store(0.0))
        .worker(Warps(1), || x.at(1).store(0.0))
        .run();
}

#[test]
fn partitions_after_a_runtime_return_are_refused() {
    check("return_before_partitions", return_before_partitions.trace());
}

#[kernel]
fn host_panics(x: Ptr<f32>) {
    let widths = [1, 2, 4];
    let mut chosen = 0;
    for i in 0..4 {
        chosen += widths[i];
    }
    x.store(chosen as f32);
}

#[test]
fn a_panic_of_host_code_is_reported() {
    check("host_panics", host_panics.trace());
}

#[kernel]
fn stores_where_a_warp_votes(x: Ptr<f32>) {
    let at = arange(0..128, line());
    let value = x.at(at).load();
    if (value > 1.0).any_in_warp() {
        x.at(at).store(0.0);
    }
}

#[kernel]
fn reduces_where_a_warp_votes(x: Ptr<f32>) {
    let at = arange(0..128, line());
    let mut value = x.at(at).load();
    if (value > 1.0).any_in_warp() {
        value -= value.max(0);
    }
    x.at(at).store(value);
}

#[kernel]
fn meets_where_a_warp_votes(x: Ptr<f32>) {
    let value = x.at(arange(0..128, line())).load();
    if (value > 1.0).any_in_warp() {
        cta_barrier();
    }
}

#[kernel]
fn votes_of_warps_that_are_more(x: Ptr<f32>, n: i32) {
    let value = x.at(arange(0..128, line())).load();
    let vote = (value > 1.0).any_in_warp();
    x.at(0).mask(vote).store(1.0);
    let mut count = n;
    if vote {
        count += 1;
    }
    x.at(count).store(2.0);
}

#[test]
fn a_vote_of_a_warp_decides_more_than_a_computation() {
    check("warp_vote_stores", stores_where_a_warp_votes.trace());
    check("warp_vote_reduces", reduces_where_a_warp_votes.trace());
    check("warp_vote_synchronizes", meets_where_a_warp_votes.trace());
    check("warp_vote_is_used", votes_of_warps_that_are_more.trace());
}
