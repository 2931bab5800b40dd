//! `match` on scalars of the kernel.

use tilekit::prelude::*;

use crate::check;

const LIMIT: i32 = 40;

#[kernel(warps = 1)]
fn matches(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let kind = input.at(1).load();
    let mut sum = scalar(0);
    let mut last = scalar(-1);
    for i in range(0, n) {
        let (weight, name) = match i {
            0 => (scalar(100), 7),
            1 | 5 | 9 => continue,
            k @ 2..=3 => (k * 3, 7),
            k if k % 7 == kind => {
                sum += 1000;
                (k, 7)
            }
            LIMIT.. => break,
            -5..0 => return,
            k => (-k, 7),
        };
        match weight > 5 {
            true => sum += weight + name,
            false => {}
        }
        last = i;
    }
    out.at(0).store(sum);
    match kind {
        0 => out.at(1).store(last),
        1 if sum > 50 => out.at(2).store(last),
        2 => return,
        _ => {}
    }
    out.at(3).store(1);
    // The host's own.
    let text = match 3_usize {
        0 => "none",
        k if k % 2 == 0 => "even",
        1..=4 => "few",
        _ => "many",
    };
    out.at(4).store(text.len());
}

#[test]
fn matches_on_scalars() {
    let mut inputs = Vec::new();
    for n in [0, 1, 3, 8, 20, 60] {
        for kind in 0..4 {
            inputs.push([n, kind]);
        }
    }
    check!(matches, inputs, |input: &[i32], out: &mut [i32]| {
        let (n, kind) = (input[0], input[1]);
        let (mut sum, mut last) = (0, -1);
        for i in 0..n {
            let (weight, name) = match i {
                0 => (100, 7),
                1 | 5 | 9 => continue,
                k @ 2..=3 => (k * 3, 7),
                k if k % 7 == kind => {
                    sum += 1000;
                    (k, 7)
                }
                LIMIT.. => break,
                -5..0 => return,
                k => (-k, 7),
            };
            if weight > 5 {
                sum += weight + name;
            }
            last = i;
        }
        out[0] = sum;
        match kind {
            0 => out[1] = last,
            1 if sum > 50 => out[2] = last,
            2 => return,
            _ => {}
        }
        out[3] = 1;
        out[4] = 3;
    });
}
