//! Loops, branches and early ends, nested in each other.

use tilekit::prelude::*;

use crate::check;

#[kernel(warps = 1)]
fn while_in_for(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let mut total = scalar(0);
    for i in range(0, n) {
        let mut x = i;
        while x > 1 {
            if x % 2 == 0 {
                x /= 2;
            } else {
                x = x * 3 + 1;
            }
            total += 1;
        }
        out.at(i).store(total);
    }
    out.at(63).store(total);
}

#[test]
fn a_while_in_a_for() {
    check!(
        while_in_for,
        [[0], [1], [2], [12]],
        |input: &[i32], out: &mut [i32]| {
            let mut total = 0;
            for i in 0..input[0] {
                let mut x = i;
                while x > 1 {
                    x = if x % 2 == 0 { x / 2 } else { x * 3 + 1 };
                    total += 1;
                }
                out[i as usize] = total;
            }
            out[63] = total;
        }
    );
}

#[kernel(warps = 1)]
fn for_in_while(input: Ptr<i32>, out: Ptr<i32>) {
    let (mut low, high) = (input.at(0).load(), input.at(1).load());
    let mut rounds = scalar(0);
    let mut sum = scalar(0);
    while low < high && rounds < 10 {
        for j in range(low, high).step(3) {
            sum += j * (rounds + 1);
        }
        low += 2;
        rounds += 1;
    }
    out.at(0).store(sum);
    out.at(1).store(rounds);
    out.at(2).store(low);
}

#[test]
fn a_for_in_a_while() {
    check!(
        for_in_while,
        [[0, 7], [5, 5], [9, 2], [-4, 3], [0, 100]],
        |input: &[i32], out: &mut [i32]| {
            let (mut low, high, mut rounds, mut sum) = (input[0], input[1], 0, 0);
            while low < high && rounds < 10 {
                sum += (low..high)
                    .step_by(3)
                    .map(|j| j * (rounds + 1))
                    .sum::<i32>();
                low += 2;
                rounds += 1;
            }
            out[..3].copy_from_slice(&[sum, rounds, low]);
        }
    );
}

#[kernel(warps = 1)]
fn tuples_of_branches(input: Ptr<i32>, out: Ptr<i32>) {
    let (a, b) = (input.at(0).load(), input.at(1).load());
    let (small, large, swapped) = if a <= b {
        (a, b, scalar(false))
    } else {
        (b, a, scalar(true))
    };
    let ((x, y), z) = if small < 0 {
        let inner = if large < 0 {
            (small, large)
        } else {
            (large, small)
        };
        (inner, small * large)
    } else {
        ((small, small), large)
    };
    for (at, value) in [small, large, x, y, z, swapped.cast::<i32>()]
        .into_iter()
        .enumerate()
    {
        out.at(at).store(value);
    }
}

#[test]
fn branches_give_tuples_of_tuples() {
    check!(
        tuples_of_branches,
        [[1, 2], [2, 1], [-3, 4], [-3, -5], [0, 0]],
        |input: &[i32], out: &mut [i32]| {
            let (a, b) = (input[0], input[1]);
            let (small, large) = (a.min(b), a.max(b));
            let ((x, y), z) = if small < 0 {
                (
                    if large < 0 {
                        (small, large)
                    } else {
                        (large, small)
                    },
                    small * large,
                )
            } else {
                ((small, small), large)
            };
            out[..6].copy_from_slice(&[small, large, x, y, z, i32::from(a > b)]);
        }
    );
}

#[kernel(warps = 1)]
fn several_returns(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    out.at(0).store(1);
    if n < 0 {
        out.at(1).store(n);
        return;
    }
    let mut sum = scalar(0);
    for i in range(0, n) {
        sum += i;
    }
    if sum > 40 {
        out.at(2).store(sum);
        return;
    } else if sum == 0 {
        return;
    }
    if sum > 20 {
        out.at(3).store(sum);
    }
    out.at(4).store(sum);
}

#[test]
fn a_kernel_returns_from_several_places() {
    check!(
        several_returns,
        [[-1], [0], [1], [5], [8], [12]],
        |input: &[i32], out: &mut [i32]| {
            let n = input[0];
            out[0] = 1;
            if n < 0 {
                out[1] = n;
                return;
            }
            let sum: i32 = (0..n).sum();
            if sum > 40 {
                out[2] = sum;
                return;
            } else if sum == 0 {
                return;
            }
            if sum > 20 {
                out[3] = sum;
            }
            out[4] = sum;
        }
    );
}

#[device]
fn one_way_or_another(x: Scalar<i32>) -> Scalar<i32> {
    let size = if x > 0 { x } else { -x };
    if size > 3 {
        let _ = size;
    } else {
        return size;
    }
    let twice = size * 2;
    if twice == 12 {
        return scalar(1);
    } else if twice == 8 {
        return -twice;
    } else {
        return twice + 1;
    }
}

#[kernel(warps = 1)]
fn returns_everywhere(input: Ptr<i32>, out: Ptr<i32>) {
    let x = input.at(0).load();
    out.at(0).store(one_way_or_another(x));
    let clipped = |y: Scalar<i32>| {
        if y > 2 {
            return y;
        } else {
            return y + 1;
        }
    };
    out.at(1).store(clipped(x));
    if x < 0 {
        out.at(2).store(x);
    } else {
        return;
    }
    out.at(3).store(x);
}

#[test]
fn either_arm_may_return() {
    check!(
        returns_everywhere,
        [[1], [-4], [4], [6], [-5], [0]],
        |input: &[i32], out: &mut [i32]| {
            let x = input[0];
            out[0] = match x.abs() {
                size @ 0..=3 => size,
                6 => 1,
                4 => -8,
                size => size * 2 + 1,
            };
            out[1] = if x > 2 { x } else { x + 1 };
            if x < 0 {
                out[2..4].copy_from_slice(&[x, x]);
            }
        }
    );
}

#[kernel(warps = 1)]
fn empty_ranges(input: Ptr<i64>, out: Ptr<i64>) {
    let (low, high, step) = (input.at(0).load(), input.at(1).load(), input.at(2).load());
    let mut count = scalar(0_i64);
    let mut last = scalar(-1_i64);
    for i in range(low, high).step(step) {
        count += 1;
        last = i;
    }
    out.at(0).store(count);
    out.at(1).store(last);
    let mut inner = scalar(0_i64);
    for _ in range(0, count) {
        for _ in range(5, 5) {
            inner += 1;
        }
        for _ in range(0, 3) {
            inner += 1;
        }
    }
    out.at(2).store(inner);
}

#[test]
fn ranges_may_be_empty_and_end_anywhere() {
    let inputs = [
        [0, 0, 1],
        [5, 3, 1],
        [0, 10, 3],
        [0, 9, 3],
        [-7, 8, 5],
        [i64::MAX - 5, i64::MAX, 4],
        [i64::MIN, i64::MIN + 3, 2],
        [0, 1, i64::MAX],
    ];
    check!(empty_ranges, inputs, |input: &[i64], out: &mut [i64]| {
        let (mut i, mut count, mut last) = (i128::from(input[0]), 0, -1);
        while i < i128::from(input[1]) {
            (count, last) = (count + 1, i as i64);
            i += i128::from(input[2]);
        }
        out[..3].copy_from_slice(&[count, last, count * 3]);
    });
}

#[kernel(warps = 1)]
fn shadowing(input: Ptr<i32>, out: Ptr<i32>) {
    let x = input.at(0).load();
    let y = x;
    let x = x + 1;
    let mut x = x * 2;
    for i in range(0, 3) {
        let x_before = x;
        let x = i * 100;
        if x > 100 {
            let x = x + 7;
            out.at(i).store(x);
        } else {
            out.at(i).store(x_before);
        }
    }
    {
        let y = y * 2;
        x += y;
    }
    {
        x += 1;
        let x = 5;
        out.at(10).store(x);
    }
    out.at(11).store(x);
    out.at(12).store(y);
}

#[test]
fn names_are_shadowed_as_in_rust() {
    check!(shadowing, [[3], [-3]], |input: &[i32], out: &mut [i32]| {
        let y = input[0];
        let x = (y + 1) * 2;
        out[..3].copy_from_slice(&[x, x, 207]);
        out[10..13].copy_from_slice(&[5, x + 2 * y + 1, y]);
    });
}

#[kernel(warps = 1)]
fn labels_of_the_host(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let mut sum = n;
    'rows: for i in 0..4 {
        for j in 0..4 {
            if j == 3 {
                continue 'rows;
            }
            if i == 3 {
                break 'rows;
            }
            if i * j == 2 {
                continue;
            }
            sum += i * 10 + j;
        }
    }
    let found = 'search: {
        for k in 0..10 {
            if k * k > 20 {
                break 'search k;
            }
        }
        0
    };
    out.at(0).store(sum);
    out.at(1).store(found);
}

#[test]
fn labels_of_host_loops_work() {
    check!(
        labels_of_the_host,
        [[0], [7]],
        |input: &[i32], out: &mut [i32]| {
            let mut sum = input[0];
            for i in 0..3 {
                for j in 0..3 {
                    sum += if i * j == 2 { 0 } else { i * 10 + j };
                }
            }
            out[..2].copy_from_slice(&[sum, 5]);
        }
    );
}

#[kernel(warps = 1)]
fn carried_bools(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let mut seen = scalar(false);
    let mut first = scalar(-1);
    for i in range(0, 16) {
        let hit = i * i > n;
        if hit && !seen {
            first = i;
        }
        seen |= hit;
        if i == 9 || (i > 11 && seen) {
            out.at(i).store(1);
        }
    }
    out.at(20).store(first);
    out.at(21).store(seen.cast::<i32>());
}

#[test]
fn loops_carry_booleans() {
    check!(
        carried_bools,
        [[0], [50], [1000]],
        |input: &[i32], out: &mut [i32]| {
            let first = (0..16).find(|i| i * i > input[0]);
            out[9] = 1;
            for i in 12..16 {
                out[i as usize] = i32::from(first.is_some_and(|first| first <= i));
            }
            out[20] = first.unwrap_or(-1);
            out[21] = i32::from(first.is_some());
        }
    );
}

#[kernel(warps = 1)]
fn deep_nesting(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let mut acc = [scalar(0); 3];
    for i in range(0, n) {
        if i % 2 == 0 {
            let mut k = scalar(0);
            while k < i {
                for j in range(k, i) {
                    if j % 3 == 1 {
                        acc[0] += 1;
                    } else if j % 3 == 2 {
                        acc[1] += j;
                    } else {
                        acc[2] = acc[0] + acc[1];
                    }
                }
                k += 2;
            }
        }
    }
    for (at, value) in acc.into_iter().enumerate() {
        out.at(at).store(value);
    }
}

#[test]
fn five_levels_carry_an_array() {
    check!(
        deep_nesting,
        [[0], [1], [9]],
        |input: &[i32], out: &mut [i32]| {
            for i in (0..input[0]).filter(|i| i % 2 == 0) {
                for k in (0..i).step_by(2) {
                    for j in k..i {
                        match j % 3 {
                            1 => out[0] += 1,
                            2 => out[1] += j,
                            _ => out[2] = out[0] + out[1],
                        }
                    }
                }
            }
        }
    );
}

#[kernel(warps = 1)]
fn while_that_never_runs(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let mut x = n;
    while x > 1_000_000 {
        x -= 1;
    }
    let mut i = scalar(0);
    // The test has an effect of its own and reads what the body changes.
    while input.at(i).load() != 0 {
        out.at(i).store(x);
        i += 1;
    }
    out.at(10).store(i);
}

#[test]
fn a_while_may_not_run_at_all() {
    let inputs = [vec![5, 4, 3, 0], vec![0], vec![1, 0]];
    check!(
        while_that_never_runs,
        inputs,
        |input: &[i32], out: &mut [i32]| {
            let end = input.iter().position(|x| *x == 0).unwrap();
            out[..end].fill(input[0]);
            out[10] = end as i32;
        }
    );
}

/// What the first loop's last test compares with is not computed where the loop is not entered.
#[kernel(warps = 1)]
fn loops_to_one_end(input: Ptr<i32>, out: Ptr<i32>) {
    let end = input.at(0).load();
    let (mut first, mut second) = (scalar(0), scalar(0));
    for i in range(128, end).step(128) {
        first += i;
    }
    for i in range(0, end).step(128) {
        second += i + 1;
    }
    out.at(0).store(first);
    out.at(1).store(second);
}

#[test]
fn a_loop_that_is_not_entered_leaves_nothing_to_the_next() {
    let inputs = [[100], [128], [300], [0], [-5]];
    check!(
        loops_to_one_end,
        inputs,
        |input: &[i32], out: &mut [i32]| {
            let starts = (0..input[0]).step_by(128);
            out[0] = starts.clone().sum();
            out[1] = starts.map(|i| i + 1).sum();
        }
    );
}

#[kernel(warps = 1)]
fn unsigned_loop(input: Ptr<u32>, out: Ptr<u32>) {
    let (low, high) = (input.at(0).load(), input.at(1).load());
    let mut count = scalar(0_u32);
    for i in range(low, high).step(3) {
        count += 1;
        out.at(count % 8).store(i);
    }
    out.at(9).store(count);
}

#[test]
fn unsigned_loops_compare_unsigned() {
    let inputs = [
        [0, 10],
        [u32::MAX - 7, u32::MAX],
        [10, 5],
        [0x7fff_fff8, 0x8000_0008],
    ];
    check!(unsigned_loop, inputs, |input: &[u32], out: &mut [u32]| {
        let (mut i, mut count) = (u64::from(input[0]), 0_u32);
        while i < u64::from(input[1]) {
            count += 1;
            out[(count % 8) as usize] = i as u32;
            i += 3;
        }
        out[9] = count;
    });
}

#[kernel(warps = 1)]
fn backwards(input: Ptr<i32>, out: Ptr<i32>) {
    let (low, high, step) = (input.at(0).load(), input.at(1).load(), input.at(2).load());
    let mut order = scalar(0);
    for i in range(low, high.min(low + 20)).rev() {
        order = order * 31 + i;
    }
    out.at(0).store(order);
    let mut order = scalar(0);
    for i in range(low, high).step(step).rev() {
        order = order * 31 + i;
    }
    out.at(1).store(order);
    let mut order = scalar(0_u32);
    for i in range(low.cast::<u32>(), high.cast::<u32>())
        .step(step.cast::<u32>())
        .rev()
    {
        order = order * 31 + i;
    }
    out.at(2).store(order.cast::<i32>());
    for i in range(0, 5).rev() {
        out.at(i + 3).store(i * i);
    }
}

#[test]
fn ranges_go_backwards() {
    let inputs = [
        [0, 5, 1],
        [3, 3, 2],
        [9, 2, 3],
        [-4, 9, 3],
        [-4, 8, 3],
        [0, 1, 7],
        [i32::MIN, i32::MAX, 1 << 30],
    ];
    check!(backwards, inputs, |input: &[i32], out: &mut [i32]| {
        let (low, high, step) = (input[0], input[1], input[2]);
        let hash = |order: i32, i: i32| order.wrapping_mul(31).wrapping_add(i);
        out[0] = (low..high.min(low + 20)).rev().fold(0, hash);
        out[1] = (low..high).step_by(step as usize).rev().fold(0, hash);
        let range = low as u32..high as u32;
        let unsigned = range.step_by(step as usize).rev();
        out[2] = unsigned.fold(0, |order, i| hash(order, i as i32));
        for i in 0..5 {
            out[3 + i as usize] = i * i;
        }
    });
}

/// Rows of 16 lie in four lanes each: warps have rows 0 to 7 and 8 to 15.
#[kernel(warps = 2)]
fn where_warps_vote(input: Ptr<f32>, out: Ptr<f32>) {
    let rows = Blocked::new([1, 4], [8, 4], [2, 1], [1, 0]);
    let row = arange(0..16, Slice::new(1, rows.clone()));
    let column = arange(0..16, Slice::new(0, rows));
    let x = input
        .at(row.expand_dims(1) * 16 + column.expand_dims(0))
        .load();
    let (mut max, mut votes) = (zeros_like(x.max(1)), zeros_like(x.max(1)));
    if (x > 4.0).any_in_warp() {
        max = select(x.max(1) > 4.0, x.max(1), max);
        votes += 1.0;
    }
    out.at(row).store(max);
    out.at(row + 16).store(votes);
}

#[test]
fn a_warp_takes_a_branch_where_one_of_its_elements_votes() {
    let of = |ones: &[(usize, f32)]| {
        let mut all = [1.0; 256];
        for &(at, value) in ones {
            all[at] = value;
        }
        all
    };
    let none = of(&[(0, 4.0), (255, f32::NAN)]);
    let first = of(&[(7 * 16 + 15, 5.0), (7 * 16, 4.5)]);
    let second = of(&[(8 * 16, 6.0), (15 * 16 + 3, f32::INFINITY)]);
    let both = of(&[(0, 7.0), (200, 8.0)]);
    check!(
        where_warps_vote,
        [none, first, second, both],
        |input: &[f32], out: &mut [f32]| {
            for row in 0..16 {
                let max = |of: &[f32]| of.iter().copied().fold(f32::NAN, f32::max);
                let own = max(&input[row * 16..][..16]);
                out[row] = if own > 4.0 { own } else { 0.0 };
                let of_warp = max(&input[row / 8 * 128..][..128]);
                out[16 + row] = f32::from(u8::from(of_warp > 4.0));
            }
        }
    );
}
