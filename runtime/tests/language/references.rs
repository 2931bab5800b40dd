//! Variables that change through a `&mut`, in loops and in arms of branches.

use tilekit::prelude::*;

use crate::check;

#[kernel(warps = 1)]
fn each_of_a_list(input: Ptr<i32>, out: Ptr<i32>) {
    let (n, m) = (input.at(0).load(), input.at(1).load());
    let mut list = [n, n, m];
    for item in list.iter_mut() {
        // Both values are there before: only the branch selects one.
        if m > 3 {
            *item = m;
        }
        for i in range(0, n) {
            *item += i;
        }
    }
    for (at, item) in list.into_iter().enumerate() {
        out.at(at).store(item);
    }
}

#[test]
fn items_of_a_list_change_in_arms_and_loops() {
    check!(
        each_of_a_list,
        [[1, 2], [1, 5], [4, 9]],
        |input: &[i32], out: &mut [i32]| {
            let (n, m) = (input[0], input[1]);
            for (at, start) in [n, n, m].into_iter().enumerate() {
                out[at] = if m > 3 { m } else { start } + (0..n).sum::<i32>();
            }
        }
    );
}

#[kernel(warps = 1)]
fn numbered_items(input: Ptr<i32>, out: Ptr<i32>) {
    let (n, m) = (input.at(0).load(), input.at(1).load());
    let mut rows = [[n; 2]; 3];
    for i in range(0, m) {
        for (r, row) in rows.iter_mut().enumerate().rev() {
            row[0] += i * r;
            if row[0] > 4 {
                row[1] = i;
            }
        }
    }
    let mut lows = [m; 3];
    for ((_, row), low) in rows.iter_mut().enumerate().zip(lows.iter_mut()) {
        if row[0] < row[1] {
            *low = row[0];
            row[1] = n;
        }
    }
    for (at, x) in rows.iter().flatten().chain(&lows).enumerate() {
        out.at(at).store(*x);
    }
}

#[test]
fn numbered_and_paired_items_change_too() {
    check!(
        numbered_items,
        [[1, 2], [0, 7], [3, 4]],
        |input: &[i32], out: &mut [i32]| {
            let (n, m) = (input[0], input[1]);
            let mut rows = [[n; 2]; 3];
            for i in 0..m {
                for (r, row) in rows.iter_mut().enumerate() {
                    row[0] += i * r as i32;
                    if row[0] > 4 {
                        row[1] = i;
                    }
                }
            }
            for (r, row) in rows.iter_mut().enumerate() {
                if row[0] < row[1] {
                    out[6 + r] = row[0];
                    row[1] = n;
                } else {
                    out[6 + r] = m;
                }
                out[2 * r..][..2].copy_from_slice(row);
            }
        }
    );
}

#[derive(Clone, Copy, Aggregate)]
struct Pair {
    low: Scalar<i32>,
    high: Scalar<i32>,
}

#[kernel(warps = 1)]
fn parts_of_a_pattern(input: Ptr<i32>, out: Ptr<i32>) {
    let (n, m) = (input.at(0).load(), input.at(1).load());
    let mut pair = Pair { low: n, high: m };
    {
        let Pair { low, high } = &mut pair;
        if *high < *low {
            std::mem::swap(low, high);
        }
    }
    let Pair { high, .. } = &mut pair;
    if n == 7 {
        *high = n;
    } else {
        *high += 1;
    }
    let mut best = Some(m);
    if let Some(best) = &mut best
        && n.value() != m.value()
    {
        if n > m {
            *best = n;
        }
    }
    out.at(0).store(pair.low);
    out.at(1).store(pair.high);
    out.at(2).store(best.unwrap_or(n));
}

#[test]
fn what_a_pattern_takes_out_changes_in_arms() {
    check!(
        parts_of_a_pattern,
        [[1, 2], [2, 1], [7, 9], [9, 7]],
        |input: &[i32], out: &mut [i32]| {
            let (n, m) = (input[0], input[1]);
            let high = if n == 7 { n } else { n.max(m) + 1 };
            out[..3].copy_from_slice(&[n.min(m), high, n.max(m)]);
        }
    );
}

#[kernel(warps = 1)]
fn closures_with_references(input: Ptr<i32>, out: Ptr<i32>) {
    let (n, m) = (input.at(0).load(), input.at(1).load());
    let set = |to: &mut Scalar<i32>, value: Scalar<i32>| {
        if m > 3 {
            *to = value;
        }
    };
    let grow = |to: &mut Scalar<i32>| {
        for i in range(0, m) {
            *to += i;
        }
    };
    let (mut a, mut sum) = (n, n);
    set(&mut a, m);
    grow(&mut a);
    let mut gather = |x: Scalar<i32>| {
        if x > 2 {
            sum += x;
        } else {
            sum = x;
        }
    };
    gather(n);
    gather(n + 1);
    out.at(0).store(a);
    out.at(1).store(sum);
}

#[test]
fn closures_change_what_they_are_lent_and_what_they_capture() {
    check!(
        closures_with_references,
        [[1, 2], [1, 5], [2, 4], [3, 3]],
        |input: &[i32], out: &mut [i32]| {
            let (n, m) = (input[0], input[1]);
            out[0] = if m > 3 { m } else { n } + (0..m).sum::<i32>();
            out[1] = n;
            for x in [n, n + 1] {
                out[1] = if x > 2 { out[1] + x } else { x };
            }
        }
    );
}
