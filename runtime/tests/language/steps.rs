//! Ranges whose steps have either sign.

use tilekit::prelude::*;

use crate::check;

#[kernel(warps = 1)]
fn downwards(input: Ptr<i32>, out: Ptr<i32>) {
    let (low, high, step) = (input.at(0).load(), input.at(1).load(), input.at(2).load());
    let mut order = scalar(0);
    for i in range(low, high).step(step) {
        order = order * 31 + i;
    }
    out.at(0).store(order);
    let mut order = scalar(0);
    for i in range(low, high).step(step).rev() {
        order = order * 31 + i;
    }
    out.at(1).store(order);
    let mut order = scalar(0);
    for i in range(low.min(high + 30), high).step(-3) {
        if i == 4 {
            break;
        }
        order = order * 31 + i;
    }
    out.at(2).store(order);
    let mut order = scalar(0);
    for i in range(low.cast::<i64>(), high).step(step.cast::<i64>()) {
        order = order * 31 + i.cast::<i32>();
    }
    out.at(3).store(order);
    for i in range(7, 3).step(-1) {
        out.at(i + 10).store(i);
    }
}

/// Python's `range`.
fn indices(low: i32, high: i32, step: i32) -> Vec<i32> {
    let (mut at, mut out) = (i64::from(low), Vec::new());
    while step > 0 && at < i64::from(high) || step < 0 && at > i64::from(high) {
        out.push(at as i32);
        at += i64::from(step);
    }
    out
}

#[test]
fn steps_of_either_sign() {
    let inputs = [
        [0, 9, 2],
        [9, 0, -2],
        [9, 0, 2],
        [0, 9, -2],
        [9, 9, -1],
        [5, -6, -11],
        [5, -7, -11],
        [3, 90, 0],
        [i32::MAX, i32::MIN, i32::MIN],
        [i32::MAX, i32::MIN, -(1 << 30)],
        [i32::MIN, i32::MAX, i32::MAX],
        [i32::MIN + 2, i32::MIN, -5],
    ];
    check!(downwards, inputs, |input: &[i32], out: &mut [i32]| {
        let (low, high, step) = (input[0], input[1], input[2]);
        let hash = |order: i32, i: &i32| order.wrapping_mul(31).wrapping_add(*i);
        let all = indices(low, high, step);
        out[0] = all.iter().fold(0, hash);
        out[1] = all.iter().rev().fold(0, hash);
        let third = indices(low.min(high.wrapping_add(30)), high, -3);
        out[2] = third.iter().take_while(|i| **i != 4).fold(0, hash);
        out[3] = out[0];
        for i in [7, 6, 5, 4] {
            out[i as usize + 10] = i;
        }
    });
}
