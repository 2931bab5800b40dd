//! `break`, `continue` and `return` under runtime conditions.

use tilekit::prelude::*;

use crate::check;

#[kernel(warps = 1)]
fn search(input: Ptr<i32>, out: Ptr<i32>) {
    let (n, wanted) = (input.at(0).load(), input.at(1).load());
    let mut found = scalar(-1);
    let mut steps = scalar(0);
    for i in range(0, n) {
        steps += 1;
        let v = i * 7 % 11;
        if v == wanted {
            found = i;
            break;
        }
        steps += 10;
    }
    out.at(0).store(found);
    out.at(1).store(steps);
}

#[test]
fn a_break_of_a_for() {
    check!(
        search,
        [[0, 3], [10, 3], [10, 0], [10, 99], [100, 8]],
        |input: &[i32], out: &mut [i32]| {
            let (n, wanted) = (input[0], input[1]);
            let (mut found, mut steps) = (-1, 0);
            for i in 0..n {
                steps += 1;
                if i * 7 % 11 == wanted {
                    found = i;
                    break;
                }
                steps += 10;
            }
            out[0] = found;
            out[1] = steps;
        }
    );
}

#[kernel(warps = 1)]
fn mixed(input: Ptr<i32>, out: Ptr<i32>) {
    let (n, a, b) = (input.at(0).load(), input.at(1).load(), input.at(2).load());
    let mut sum = scalar(0);
    let mut last = scalar(0);
    for i in range(0, n) {
        last = i;
        if i % 3 == a {
            sum += 1;
            if i % 5 == b {
                sum += 100;
                continue;
            }
            sum += 2;
            if i > 12 {
                sum += 1000;
                break;
            }
            sum += 3;
        } else if i == 7 {
            continue;
        }
        sum += 7;
    }
    out.at(0).store(sum);
    out.at(1).store(last);
}

#[test]
fn exits_deep_inside() {
    let mut inputs = Vec::new();
    for n in [0, 1, 9, 30] {
        for a in 0..3 {
            for b in [0, 2, 4] {
                inputs.push([n, a, b]);
            }
        }
    }
    check!(mixed, inputs, |input: &[i32], out: &mut [i32]| {
        let (n, a, b) = (input[0], input[1], input[2]);
        let (mut sum, mut last) = (0, 0);
        for i in 0..n {
            last = i;
            if i % 3 == a {
                sum += 1;
                if i % 5 == b {
                    sum += 100;
                    continue;
                }
                sum += 2;
                if i > 12 {
                    sum += 1000;
                    break;
                }
                sum += 3;
            } else if i == 7 {
                continue;
            }
            sum += 7;
        }
        out[0] = sum;
        out[1] = last;
    });
}

#[kernel(warps = 1)]
fn nested(input: Ptr<i32>, out: Ptr<i32>) {
    let (n, stop, skip) = (input.at(0).load(), input.at(1).load(), input.at(2).load());
    let mut trips = scalar(0);
    let mut at = scalar(-1);
    'rows: for i in range(0, n) {
        let mut j = scalar(0);
        while j < n {
            trips += 1;
            if i * j == stop {
                at = i * 100 + j;
                break 'rows;
            }
            if j == skip {
                trips += 100;
                continue 'rows;
            }
            if j > i {
                break;
            }
            j += 1;
        }
        trips += 1000;
    }
    out.at(0).store(trips);
    out.at(1).store(at);
}

#[test]
fn labels_across_loops() {
    let inputs = [
        [0, 0, 0],
        [5, 6, 9],
        [5, 99, 2],
        [6, 12, 3],
        [6, 12, 0],
        [8, 99, 99],
    ];
    check!(nested, inputs, |input: &[i32], out: &mut [i32]| {
        let (n, stop, skip) = (input[0], input[1], input[2]);
        let (mut trips, mut at) = (0, -1);
        'rows: for i in 0..n {
            let mut j = 0;
            while j < n {
                trips += 1;
                if i * j == stop {
                    at = i * 100 + j;
                    break 'rows;
                }
                if j == skip {
                    trips += 100;
                    continue 'rows;
                }
                if j > i {
                    break;
                }
                j += 1;
            }
            trips += 1000;
        }
        out[0] = trips;
        out[1] = at;
    });
}

#[device]
fn log_of(x: Scalar<i32>, base: Scalar<i32>) -> Scalar<i32> {
    if x < 1 {
        return scalar(-1);
    }
    let mut power = scalar(1);
    for i in range(0, 40) {
        power *= base;
        if power > x {
            return i;
        }
        if power == x {
            if base == 3 {
                return i * 1000;
            }
            return i + 1;
        }
    }
    scalar(-2)
}

#[kernel(warps = 1)]
fn returns(input: Ptr<i32>, out: Ptr<i32>) {
    let (x, base) = (input.at(0).load(), input.at(1).load());
    out.at(0).store(1);
    if x == 77 {
        out.at(1).store(2);
        return;
    }
    for i in range(0, 5) {
        let log = log_of(x + i, base);
        out.at(i + 2).store(log);
        if log == 4 {
            if i == 3 {
                return;
            }
            out.at(20 + i).store(5);
        }
    }
    out.at(10).store(3);
}

#[test]
fn returns_of_functions_and_kernels() {
    fn log_of(x: i32, base: i32) -> i32 {
        if x < 1 {
            return -1;
        }
        let mut power = 1;
        for i in 0..40 {
            power *= base;
            if power > x {
                return i;
            }
            if power == x {
                if base == 3 {
                    return i * 1000;
                }
                return i + 1;
            }
        }
        -2
    }
    let inputs = [
        [77, 2],
        [0, 2],
        [-3, 2],
        [13, 2],
        [16, 2],
        [6, 3],
        [27, 3],
        [9, 1],
    ];
    check!(returns, inputs, |input: &[i32], out: &mut [i32]| {
        let (x, base) = (input[0], input[1]);
        out[0] = 1;
        if x == 77 {
            out[1] = 2;
            return;
        }
        for i in 0..5 {
            let log = log_of(x + i, base);
            out[i as usize + 2] = log;
            if log == 4 {
                if i == 3 {
                    return;
                }
                out[20 + i as usize] = 5;
            }
        }
        out[10] = 3;
    });
}

/// Changes what it borrows on every path, and hides names.
#[device]
fn clamped(x: &mut Scalar<i32>, low: Scalar<i32>, high: Scalar<i32>) -> Scalar<bool> {
    if *x < low {
        *x = low;
        return low > 5;
    }
    *x += 1;
    while *x > high {
        *x -= 3;
        if *x == low {
            return scalar(true);
        }
    }
    scalar(false)
}

#[kernel(warps = 1)]
fn lent(input: Ptr<i32>, out: Ptr<i32>) {
    let (low, high) = (input.at(1).load(), input.at(2).load());
    let mut x = input.at(0).load();
    let changed = clamped(&mut x, low, high);
    out.at(0).store(x);
    if changed {
        out.at(1).store(1);
    }
    let mut total = scalar(0);
    let mut add = |v: Scalar<i32>| {
        if v == low {
            total += 50;
            return;
        }
        total += v;
        if v > high {
            total = -total;
            return;
        }
        total += 1;
    };
    for i in range(0, 4) {
        add(x + i);
    }
    out.at(2).store(total);
}

#[test]
fn functions_and_closures_change_what_they_are_lent() {
    let inputs = [
        [0, 3, 9],
        [0, 7, 9],
        [20, 3, 9],
        [21, 3, 9],
        [5, 3, 9],
        [6, 5, 7],
    ];
    check!(lent, inputs, |input: &[i32], out: &mut [i32]| {
        let (low, high) = (input[1], input[2]);
        let mut x = input[0];
        let clamped = |x: &mut i32| {
            if *x < low {
                *x = low;
                return low > 5;
            }
            *x += 1;
            while *x > high {
                *x -= 3;
                if *x == low {
                    return true;
                }
            }
            false
        };
        let changed = clamped(&mut x);
        out[0] = x;
        if changed {
            out[1] = 1;
        }
        let mut total = 0;
        let mut add = |v: i32| {
            if v == low {
                total += 50;
                return;
            }
            total += v;
            if v > high {
                total = -total;
                return;
            }
            total += 1;
        };
        (0..4).for_each(|i| add(x + i));
        out[2] = total;
    });
}

#[kernel(warps = 1)]
fn hidden(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let mut x = input.at(1).load();
    let mut y = scalar(0);
    for i in range(0, n) {
        x += 1;
        let x = x * 2;
        if x > 9 {
            y += x;
            let y = y + 1;
            if y % 2 == 1 {
                out.at(3).store(y);
                break;
            }
        }
        y += i;
    }
    out.at(0).store(x);
    out.at(1).store(y);
}

#[test]
fn hidden_names() {
    let inputs = [[0, 0], [3, 0], [9, 2], [9, -4], [20, 3]];
    check!(hidden, inputs, |input: &[i32], out: &mut [i32]| {
        let (n, mut x, mut y) = (input[0], input[1], 0);
        for i in 0..n {
            x += 1;
            let x = x * 2;
            if x > 9 {
                y += x;
                let y = y + 1;
                if y % 2 == 1 {
                    out[3] = y;
                    break;
                }
            }
            y += i;
        }
        out[0] = x;
        out[1] = y;
    });
}

#[derive(Clone, Copy, Aggregate)]
struct Best {
    value: Scalar<i32>,
    at: Scalar<i32>,
}

/// A value from an `if` of which an arm leaves, tiles, and what the arms declare.
#[kernel(warps = 1)]
fn values(input: Ptr<i32>, out: Ptr<i32>) {
    let (n, limit) = (input.at(0).load(), input.at(1).load());
    let lane = arange(0..32, Coalesced);
    let mut tile = zeros::<i32>([32], Coalesced);
    let mut best = Best {
        value: scalar(0),
        at: scalar(-1),
    };
    for i in range(0, n) {
        let v = if i % 2 == 0 {
            if i == limit {
                tile += 1000;
                break;
            }
            i * 3
        } else if i % 5 == 0 {
            continue;
        } else {
            i
        };
        let w;
        if v % 3 == 0 {
            w = v + 1;
        } else {
            if v > 20 {
                break;
            }
            w = v + 2;
        }
        tile += lane * w;
        if w > best.value {
            best = Best { value: w, at: i };
        }
    }
    out.at(lane).store(tile);
    out.at(32).store(best.value);
    out.at(33).store(best.at);
}

#[test]
fn values_of_branches_that_leave() {
    let inputs = [[0, 0], [9, 4], [9, 5], [40, 90], [40, 8]];
    check!(values, inputs, |input: &[i32], out: &mut [i32]| {
        let (n, limit) = (input[0], input[1]);
        let mut tile = [0; 32];
        let mut best = (0, -1);
        for i in 0..n {
            let v = if i % 2 == 0 {
                if i == limit {
                    for t in &mut tile {
                        *t += 1000;
                    }
                    break;
                }
                i * 3
            } else if i % 5 == 0 {
                continue;
            } else {
                i
            };
            let w = if v % 3 == 0 {
                v + 1
            } else {
                if v > 20 {
                    break;
                }
                v + 2
            };
            for (lane, t) in tile.iter_mut().enumerate() {
                *t += lane as i32 * w;
            }
            if w > best.0 {
                best = (w, i);
            }
        }
        out[..32].copy_from_slice(&tile);
        out[32] = best.0;
        out[33] = best.1;
    });
}

/// Loops that the host unrolls stay plain Rust, also around and inside of runtime control flow.
#[kernel(warps = 1)]
fn on_the_host(input: Ptr<i32>, out: Ptr<i32>) {
    let x = input.at(0).load();
    let mut sum = x;
    for k in 0..9 {
        if k == 2 {
            continue;
        }
        if k == 6 {
            break;
        }
        for i in range(0, 4) {
            if k == 4 {
                break;
            }
            if i == x {
                break;
            }
            sum += k * 10 + i;
        }
    }
    out.at(0).store(sum);
    let mut rounds = 0;
    let list = loop {
        rounds += 1;
        if rounds == 3 {
            break vec![sum, x];
        }
    };
    out.at(1).store(list[0] + list[1] + rounds);
    for k in 0..3 {
        if x == k {
            out.at(2).store(k);
            return;
        }
        if sum > 1000 {
            out.at(3).store(k);
            return;
        }
    }
    out.at(4).store(1);
}

#[test]
fn host_loops_stay_plain() {
    let inputs = [[0], [1], [2], [3], [9], [900]];
    check!(on_the_host, inputs, |input: &[i32], out: &mut [i32]| {
        let x = input[0];
        let mut sum = x;
        for k in [0, 1, 3, 4, 5] {
            for i in 0..4 {
                if k == 4 || i == x {
                    break;
                }
                sum += k * 10 + i;
            }
        }
        out[0] = sum;
        out[1] = sum + x + 3;
        for k in 0..3 {
            if x == k {
                out[2] = k;
                return;
            }
            if sum > 1000 {
                out[3] = k;
                return;
            }
        }
        out[4] = 1;
    });
}

/// Values change places in a `while` that an exit of an inner loop may stop: what it leaves is not what it carries on.
#[kernel(warps = 1)]
fn swapping(input: Ptr<i32>, out: Ptr<i32>) {
    let (mut a, mut b) = (input.at(0).load(), input.at(1).load());
    let stop = input.at(2).load();
    let mut rounds = scalar(0);
    'all: while rounds < 9 {
        (a, b) = (b, a);
        if rounds % 2 == 0 {
            if a + rounds == stop {
                break;
            }
            a += 1;
        }
        for i in range(0, 3) {
            if i * rounds == stop {
                (a, b) = (b + 100, a);
                break 'all;
            }
        }
        (a, b) = (b, a);
        (a, b) = (b, a);
        rounds += 1;
    }
    out.at(0).store(a);
    out.at(1).store(b);
    out.at(2).store(rounds);
}

#[test]
fn values_that_change_places() {
    let mut inputs = Vec::new();
    for stop in -1..14 {
        inputs.push([3, 50, stop]);
    }
    check!(swapping, inputs, |input: &[i32], out: &mut [i32]| {
        let (mut a, mut b, stop) = (input[0], input[1], input[2]);
        let mut rounds = 0;
        'all: while rounds < 9 {
            (a, b) = (b, a);
            if rounds % 2 == 0 {
                if a + rounds == stop {
                    break;
                }
                a += 1;
            }
            for i in 0..3 {
                if i * rounds == stop {
                    (a, b) = (b + 100, a);
                    break 'all;
                }
            }
            (a, b) = (b, a);
            (a, b) = (b, a);
            rounds += 1;
        }
        (out[0], out[1], out[2]) = (a, b, rounds);
    });
}

/// A nested `continue` comes first, and both arms of the last branch leave the loop: the code between the two runs.
#[allow(clippy::needless_continue, reason = "both arms leave")]
#[kernel(warps = 1)]
fn both_arms_leave(input: Ptr<i32>, out: Ptr<i32>) {
    let (a, b) = (input.at(0).load(), input.at(1).load());
    let mut sum = scalar(0);
    for i in range(0, 5) {
        if (a + i) % 3 == 1 {
            if b % 2 == 1 {
                continue;
            }
        }
        sum += 10 + i;
        if (sum + b) % 4 == 3 {
            break;
        } else {
            continue;
        }
    }
    out.at(0).store(sum);
}

#[test]
fn code_before_a_branch_that_leaves_by_both_arms() {
    let inputs = [[0, 0], [1, 1], [2, 1], [5, 2], [7, 3]];
    check!(both_arms_leave, inputs, |input: &[i32], out: &mut [i32]| {
        let mut sum = 0;
        for i in 0..5 {
            if (input[0] + i) % 3 == 1 && input[1] % 2 == 1 {
                continue;
            }
            sum += 10 + i;
            if (sum + input[1]) % 4 == 3 {
                break;
            }
        }
        out[0] = sum;
    });
}
