//! Variables that are declared without a value and get it in arms of branches, and in loops.

use tilekit::prelude::*;

use crate::check;

#[kernel(warps = 1)]
fn both_arms(input: Ptr<i32>, out: Ptr<i32>) {
    let (n, m) = (input.at(0).load(), input.at(1).load());
    let x;
    let mut y;
    let (low, high): (Scalar<i32>, Scalar<i32>);
    if n > 3 {
        x = n;
        y = m;
        y += 1;
        (low, high) = (n, m);
    } else {
        y = n + m;
        x = m + 1;
        low = x;
        high = y;
    }
    y += x;
    for (at, value) in [x, y, low, high].into_iter().enumerate() {
        out.at(at).store(value);
    }
    let kind: Scalar<i32>;
    if n > 10 {
        kind = scalar(1);
    } else if n > 5 {
        if m > 2 {
            kind = m;
        } else {
            kind = scalar(2);
        }
    } else {
        kind = match 3 {
            3 => n,
            _ => m,
        };
    }
    out.at(4).store(kind);
    let value = {
        let z;
        let sum = if n > m {
            z = n;
            z + 1
        } else {
            z = m;
            z + 2
        };
        sum * z
    };
    out.at(5).store(value);
}

#[test]
fn both_arms_assign() {
    let inputs = [[1, 2], [4, 9], [7, 1], [7, 3], [11, 0], [-3, -3]];
    check!(both_arms, inputs, |input: &[i32], out: &mut [i32]| {
        let (n, m) = (input[0], input[1]);
        let (x, y, low, high) = if n > 3 {
            (n, m + 1, n, m)
        } else {
            (m + 1, n + m, m + 1, n + m)
        };
        let kind = match (n, m) {
            (11.., _) => 1,
            (6.., 3..) => m,
            (6.., _) => 2,
            _ => n,
        };
        let value = if n > m { (n + 1) * n } else { (m + 2) * m };
        out[..6].copy_from_slice(&[x, y + x, low, high, kind, value]);
    });
}

#[kernel(warps = 1)]
fn inside_loops(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let mut total = scalar(0);
    let mut last;
    for i in range(0, n) {
        let step;
        if i % 2 == 0 {
            step = i;
            last = scalar(1);
        } else {
            step = -i * 2;
            last = step;
        }
        total += step + last;
    }
    let mut rest = n;
    while rest > 0 {
        let by;
        if rest > 4 {
            by = scalar(3);
        } else {
            by = scalar(1);
        }
        rest -= by;
        total += 1;
    }
    // Given a value again after a loop that may not have given it one.
    last = total;
    for _ in range(0, 2) {
        last += 1;
    }
    out.at(0).store(total);
    out.at(1).store(last);
    out.at(2).store(rest);
}

#[test]
fn arms_assign_inside_loops() {
    check!(
        inside_loops,
        [[0], [1], [2], [9]],
        |input: &[i32], out: &mut [i32]| {
            let n = input[0];
            let mut total = 0;
            for i in 0..n {
                total += if i % 2 == 0 { i + 1 } else { -i * 4 };
            }
            let mut rest = n;
            while rest > 0 {
                rest -= if rest > 4 { 3 } else { 1 };
                total += 1;
            }
            out[..3].copy_from_slice(&[total, total + 2, rest]);
        }
    );
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Low,
    High,
    Off,
}

#[device]
fn scaled(mode: Mode, n: Scalar<i32>) -> Scalar<i32> {
    let factor;
    let bias;
    match mode {
        Mode::Low => {
            if n > 4 {
                factor = n;
            } else {
                factor = scalar(2);
            }
            bias = 1;
        }
        Mode::High => {
            factor = n * n;
            bias = 2;
        }
        Mode::Off => return n,
    }
    factor + bias
}

#[device]
fn early(n: Scalar<i32>) -> Scalar<i32> {
    let x;
    if n > 3 {
        x = n;
    } else {
        return -n;
    }
    x * 2
}

#[kernel(warps = 1)]
fn hosts_and_kernels<const WIDE: bool>(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    for (at, mode) in [Mode::Low, Mode::High, Mode::Off].into_iter().enumerate() {
        out.at(at).store(scaled(mode, n));
    }
    let step;
    if WIDE {
        step = 4;
    } else {
        step = 1;
    }
    let found;
    let mut k = 0;
    loop {
        k += step;
        if k > 6 {
            found = n + k;
            break;
        }
    }
    out.at(3).store(found);
    let label;
    'search: {
        if WIDE {
            label = n;
            break 'search;
        }
        label = n - 1;
    }
    out.at(4).store(label);
    out.at(5).store(early(n));
    // Assigned in one arm, and used in it alone.
    let only;
    if n > 2 {
        only = n + 5;
        out.at(6).store(only);
    } else {
        out.at(6).store(7);
    }
    let each;
    if n > 3 {
        each = n;
        out.at(7).store(each);
    } else if n > 1 {
        each = n * 3;
        out.at(7).store(each);
    }
}

#[test]
fn host_and_kernel_branches_assign_together() {
    let host = |input: &[i32], out: &mut [i32], is_wide: bool| {
        let n = input[0];
        out[0] = if n > 4 { n } else { 2 } + 1;
        out[1] = n * n + 2;
        out[2] = n;
        out[3] = n + if is_wide { 8 } else { 7 };
        out[4] = if is_wide { n } else { n - 1 };
        out[5] = if n > 3 { n * 2 } else { -n };
        out[6] = if n > 2 { n + 5 } else { 7 };
        out[7] = match n {
            4.. => n,
            2..4 => n * 3,
            _ => 0,
        };
    };
    let inputs = [[0], [2], [3], [5]];
    check!(
        hosts_and_kernels::<true>,
        inputs,
        |input: &[i32], out: &mut [i32]| host(input, out, true)
    );
    check!(
        hosts_and_kernels::<false>,
        inputs,
        |input: &[i32], out: &mut [i32]| host(input, out, false)
    );
}

#[derive(Clone, Copy, Aggregate)]
struct Pair {
    low: Scalar<i32>,
    all: Tensor<i32>,
}

#[kernel(warps = 1)]
fn aggregates(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let index = arange(0..32, Blocked::new([1], [32], [1], [0]));
    let mut pair;
    let tiles: [Tensor<i32>; 2];
    if n > 2 {
        pair = Pair { low: n, all: index };
        tiles = [index, index + 1];
    } else {
        pair = Pair {
            low: -n,
            all: index * 2,
        };
        tiles = [index * n, index];
    }
    pair.low += 1;
    out.at(index).store(pair.all + pair.low);
    out.at(index + 32).store(tiles[0] * 3 + tiles[1]);
}

#[test]
fn arms_assign_tensors_and_what_is_made_of_them() {
    check!(
        aggregates,
        [[0], [2], [3]],
        |input: &[i32], out: &mut [i32]| {
            let n = input[0];
            for i in 0..32 {
                let at = i as usize;
                (out[at], out[at + 32]) = if n > 2 {
                    (i + n + 1, i * 3 + i + 1)
                } else {
                    (i * 2 - n + 1, i * n * 3 + i)
                };
            }
        }
    );
}
