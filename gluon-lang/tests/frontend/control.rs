//! Loops and branches: at trace time, and of the kernel.

use gluon_lang::lang::prelude::*;

use crate::support::ir;

fn vector() -> Blocked {
    Blocked::new([1], [32], [1], [0])
}

#[kernel(warps = 1)]
fn loop_with_step(out: Ptr<i32>, low: i32, high: i32) {
    let mut sum = scalar(0);
    let unchanged = low + high;
    for i in range(low, high).step(2) {
        sum += i * unchanged;
    }
    out.at(0).store(sum);
}

#[test]
fn a_loop_carries_what_changes() {
    insta::assert_snapshot!(ir(loop_with_step));
}

#[kernel(warps = 1)]
fn loops_of_the_host(out: Ptr<i32>, n: i32) {
    let mut sum = n;
    for i in 0..4 {
        if i == 1 {
            continue;
        }
        if i > 2 {
            break;
        }
        sum += i;
    }
    let mut k = 0;
    while k < 2 {
        sum += k + 10;
        k += 1;
    }
    let found = loop {
        k += 1;
        if k == 5 {
            break k;
        }
    };
    out.at(found).store(sum);
}

#[test]
fn loops_of_the_host_unroll() {
    insta::assert_snapshot!(ir(loops_of_the_host));
}

#[kernel(warps = 1)]
fn while_of_the_kernel(out: Ptr<u32>, n: u32) {
    let (mut a, mut b) = (n, scalar(1_u32));
    let fixed = n * 3;
    while b != 0 && a > fixed {
        let rest = a % b;
        a = b;
        b = rest;
    }
    out.at(0).store(a);
}

#[test]
fn a_while_of_the_kernel_tests_and_carries() {
    insta::assert_snapshot!(ir(while_of_the_kernel));
}

#[kernel(warps = 1)]
fn branches(out: Ptr<i32>, n: i32) {
    let mut x = n;
    let chosen = if n < 0 {
        x = -n;
        1 + n
    } else if n > 100 {
        x = scalar(100);
        n - 1
    } else {
        n
    };
    if n == 7 {
        x += 1;
    }
    out.at(0).store(chosen + x);
}

#[test]
fn branches_give_values_and_change_variables() {
    insta::assert_snapshot!(ir(branches));
}

#[kernel(warps = 1)]
fn nested(out: Ptr<i32>, n: i32) {
    let mut total = scalar(0);
    for i in range(0, n) {
        let mut inner = total;
        for j in range(i, n) {
            if j != i {
                inner += j;
            }
        }
        total = inner;
    }
    out.at(0).store(total);
}

#[test]
fn loops_and_branches_nest() {
    insta::assert_snapshot!(ir(nested));
}

#[kernel(warps = 1)]
fn swap(out: Ptr<i32>, n: i32) {
    let (mut a, mut b) = (n, n + 1);
    for _ in range(0, n) {
        (a, b) = (b, a);
    }
    out.at(0).store(a);
    out.at(1).store(b);
}

#[test]
fn two_variables_can_change_places() {
    insta::assert_snapshot!(ir(swap));
}

#[kernel(warps = 1)]
fn early(out: Ptr<i32>, n: i32) {
    if n == 0 {
        return;
    }
    let twice = n * 2;
    if twice > 10 {
        out.at(1).store(twice);
        return;
    }
    out.at(0).store(twice);
}

#[test]
fn an_early_return_moves_the_rest_into_the_other_arm() {
    insta::assert_snapshot!(ir(early));
}

#[kernel(warps = 1)]
fn lazy(x: Ptr<i32>, out: Ptr<i32>, n: i32) {
    // Only arithmetic on the right: both sides are computed.
    if n > 0 && n < 10 {
        out.at(0).store(1);
    }
    // A load on the right: it happens only if the left side is true.
    if n > 0 && x.at(n).load() != 0 || n == -1 {
        out.at(1).store(1);
    }
    // A trace-time condition: the right side is not traced.
    let is_host_false = false;
    if is_host_false && n > 0 {
        out.at(2).store(1);
    }
    if n > 0 || is_host_false {
        out.at(3).store(1);
    }
    let at = arange(0..32, vector());
    let inside = at < n && at != 3 || !(at >= 5);
    out.at(at).mask(inside).store(at);
}

#[test]
fn logic_is_lazy_where_it_matters() {
    insta::assert_snapshot!(ir(lazy));
}

/// A struct of the author's own, with a host value in it.
#[derive(Clone, Copy, Aggregate)]
struct State<T: Element> {
    sum: Tensor<T>,
    at: (Scalar<i32>, [Scalar<i32>; 2]),
    stages: usize,
}

#[derive(Clone, Copy, Aggregate)]
enum Pair {
    One(Scalar<i32>),
    Two {
        left: Scalar<i32>,
        right: Scalar<i32>,
    },
}

impl Pair {
    fn all(self) -> Vec<Scalar<i32>> {
        match self {
            Pair::One(x) => vec![x],
            Pair::Two { left, right } => vec![left, right],
        }
    }
}

#[kernel(warps = 1)]
fn aggregates(x: Ptr<f32>, out: Ptr<i32>, n: i32) {
    let at = arange(0..32, vector());
    let mut state = State {
        sum: zeros([32], vector()),
        at: (n, [n, n + 1]),
        stages: 3,
    };
    let mut pair = Pair::Two { left: n, right: n };
    let one = Pair::One(n);
    let mut maybe = Some(n);
    let mut list = vec![n; 2];
    for i in range(0, n) {
        state.sum += x.at(at + i).load();
        state.at.1[1] += state.stages;
        if let Pair::Two { right, .. } = &mut pair {
            *right += 1;
        }
        if let Some(m) = maybe.as_mut() {
            *m *= 2;
        }
        list[1] -= i;
        for value in one.all() {
            list[1] += value;
        }
    }
    x.at(at).store(state.sum);
    for (k, value) in pair.all().into_iter().chain(maybe).chain(list).enumerate() {
        out.at(k).store(value);
    }
    out.at(9).store(state.at.1[1]);
}

#[test]
fn what_is_made_of_handles_is_carried_part_by_part() {
    insta::assert_snapshot!(ir(aggregates));
}

#[kernel(warps = 1)]
fn same_host_value(out: Ptr<i32>, n: i32) {
    let mut stage = 1;
    if n > 0 {
        stage += 1;
        out.at(0).store(stage);
    } else {
        // What the first arm did is undone here.
        stage += 1;
        out.at(1).store(stage);
    }
    out.at(2).store(stage);
}

#[test]
fn host_variables_are_restored_between_the_arms() {
    insta::assert_snapshot!(ir(same_host_value));
}

#[kernel(warps = 1)]
fn through_references(out: Ptr<i32>, n: i32) {
    let mut x = n;
    let r = &mut x;
    for i in range(0, n) {
        *r += i;
        bump(r);
    }
    out.at(0).store(x);
}

#[device]
fn bump(x: &mut Scalar<i32>) {
    if *x > 3 {
        *x += 100;
    }
}

#[test]
fn a_reference_to_a_variable_is_carried_as_the_variable() {
    insta::assert_snapshot!(ir(through_references));
}

#[kernel(warps = 1)]
fn early_with_else(out: Ptr<i32>, n: i32) {
    let mut x = n;
    if n == 0 {
        out.at(0).store(0);
        return;
    } else if n < 0 {
        x = -x;
    } else {
        x += 1;
    }
    for i in range(0, x) {
        out.at(i).store(x);
    }
}

#[test]
fn an_early_return_with_an_else() {
    insta::assert_snapshot!(ir(early_with_else));
}

#[kernel(warps = 1)]
fn mixed_logic(x: Ptr<f32>, out: Ptr<i32>, n: i32) {
    let at = arange(0..32, vector());
    let flag = n > 3;
    let is_on = true;
    out.at(at).mask(flag && at < n).store(1);
    out.at(at).mask(is_on && at < n || flag).store(2);
    let mut low = n;
    while low < 100 && x.at(low).load() > 0.5 {
        low *= 2;
    }
    out.at(0).store(low);
}

#[test]
fn logic_mixes_hosts_scalars_and_tensors() {
    insta::assert_snapshot!(ir(mixed_logic));
}

#[kernel(warps = 1)]
fn mixed_nests(out: Ptr<i32>, n: i32) {
    let mut accs = [n; 3];
    'rows: for row in 0..3 {
        for i in range(0, n) {
            for col in 0..2 {
                if row == col {
                    continue;
                }
                accs[row] += i * col;
            }
        }
        if row == 1 {
            break 'rows;
        }
    }
    for (k, acc) in accs.into_iter().enumerate() {
        out.at(k).store(acc);
    }
}

#[test]
fn loops_of_host_and_kernel_nest_in_each_other() {
    insta::assert_snapshot!(ir(mixed_nests));
}

#[kernel(warps = 1)]
fn patterns(out: Ptr<i32>, n: i32) {
    let mut list = vec![n, n + 1];
    while let Some(mut x) = list.pop() {
        for i in range(0, n) {
            x += i;
        }
        out.at(list.len()).store(x);
    }
    if let Some(mut y) = Some(n)
        && n.value() == n.value()
    {
        for i in range(0, n) {
            y *= i;
        }
        out.at(2).store(y);
    }
    let (Some(mut z), _) = (Some(n), 0) else {
        return;
    };
    match Some(n) {
        Some(mut w) if list.is_empty() => {
            for i in range(0, n) {
                w -= i;
                z += w;
            }
            out.at(3).store(w + z);
        }
        _ => {}
    }
}

#[test]
fn variables_of_patterns_are_carried() {
    insta::assert_snapshot!(ir(patterns));
}

#[derive(Clone, Copy, Aggregate)]
struct Sides {
    left: Scalar<i32>,
    right: Scalar<i32>,
}

#[derive(Clone, Copy, Aggregate)]
struct Bounds(Scalar<i32>, Scalar<i32>);

#[kernel(warps = 1)]
fn changed_by_patterns(out: Ptr<i32>, n: i32) {
    let mut pair = (n, n + 1);
    let (mut left, mut right) = (n + 2, n + 3);
    let (mut low, mut high) = (n + 4, n + 5);
    if n > 1 {
        let (ref mut first, _) = pair;
        *first = n * 2;
        Sides { left, right } = Sides {
            left: right,
            right: left,
        };
        (Bounds(low, high), _) = (Bounds(high, low), n);
    }
    for (at, value) in [pair.0, left, right, low, high].into_iter().enumerate() {
        out.at(at).store(value);
    }
}

/// All five are results of the `if`.
#[test]
fn patterns_change_variables_in_a_branch() {
    insta::assert_snapshot!(ir(changed_by_patterns));
}

#[kernel(warps = 1)]
fn assigned_by_patterns(out: Ptr<i32>, n: i32) {
    let (mut left, mut right) = (n, n + 1);
    let mut turn = |by: Scalar<i32>| {
        Sides { left, right } = Sides {
            left: right + by,
            right: left,
        };
    };
    for i in range(0, n) {
        turn(i);
    }
    let (low, high);
    if n > 1 {
        Bounds(low, high) = Bounds(left, right);
    } else {
        Bounds(low, high) = Bounds(right, left);
    }
    out.store(low + high);
}

/// That it compiles is what is tested.
#[test]
fn patterns_assign_what_a_closure_captures_and_what_has_no_value_yet() {
    assert!(assigned_by_patterns.trace().is_ok());
}
