//! `loop` that the kernel runs: left by `break`, with and without a value, and by what lies beyond it.

use tilekit::prelude::*;

use crate::check;

/// Collatz: how many steps to 1, and the largest number on the way.
#[kernel(warps = 1)]
fn collatz(input: Ptr<i32>, out: Ptr<i32>) {
    let mut n = input.at(0).load();
    let (mut steps, mut largest) = (scalar(0), n);
    loop {
        largest = largest.max(n);
        if n == 1 {
            break;
        }
        steps += 1;
        if n % 2 == 0 {
            n /= 2;
            continue;
        }
        n = n * 3 + 1;
    }
    out.at(0).store(steps);
    out.at(1).store(largest);
}

#[test]
fn a_break_ends_it() {
    check!(
        collatz,
        [[1], [2], [27], [97]],
        |input: &[i32], out: &mut [i32]| {
            let next = |n: &i32| if n % 2 == 0 { n / 2 } else { n * 3 + 1 };
            let path = std::iter::successors(Some(input[0]), |n| (*n != 1).then(|| next(n)));
            let path: Vec<i32> = path.collect();
            out[0] = path.len() as i32 - 1;
            out[1] = path.iter().copied().max().unwrap_or(0);
        }
    );
}

/// Values of `break`, of several ways out; variables change on the way.
#[kernel(warps = 1)]
fn values(input: Ptr<i32>, out: Ptr<i32>) {
    let (a, b) = (input.at(0).load(), input.at(1).load());
    let mut i = scalar(0);
    let mut seen = scalar(0);
    let (found, how) = loop {
        let v = (i * 7 + a) % 13;
        seen += v;
        if v == b {
            break (i, scalar(1));
        }
        if i >= 20 {
            seen *= -1;
            break (v, scalar(2));
        }
        i += 1;
        if i % 5 == b {
            continue;
        }
        seen += 100;
    };
    out.at(0).store(found);
    out.at(1).store(how);
    out.at(2).store(seen);
    out.at(3).store(i);
}

#[test]
fn a_break_gives_a_value() {
    check!(
        values,
        [[0, 0], [3, 5], [1, 99], [12, 4]],
        |input: &[i32], out: &mut [i32]| {
            let (a, b) = (input[0], input[1]);
            let (mut i, mut seen) = (0, 0);
            let (found, how) = loop {
                let v = (i * 7 + a) % 13;
                seen += v;
                if v == b {
                    break (i, 1);
                }
                if i >= 20 {
                    seen *= -1;
                    break (v, 2);
                }
                i += 1;
                if i % 5 == b {
                    continue;
                }
                seen += 100;
            };
            out[..4].copy_from_slice(&[found, how, seen, i]);
        }
    );
}

/// A loop that only a `return` ends, in a function.
#[device]
fn probe(table: Ptr<i32>, key: Scalar<i32>) -> Scalar<i32> {
    let mut at = key % 16;
    loop {
        let entry = table.at(at).load();
        if entry == key {
            return at;
        }
        if entry == 0 {
            return scalar(-1);
        }
        at = (at + 1) % 16;
    }
}

#[kernel(warps = 1)]
fn probes(input: Ptr<i32>, out: Ptr<i32>) {
    for i in range(0, 8) {
        let found = probe(input, input.at(i + 16).load());
        out.at(i).store(found);
    }
}

#[test]
fn a_return_alone_ends_it() {
    let mut table = [0; 24];
    for key in [5, 21, 37, 15, 31, 6] {
        let mut at = key as usize % 16;
        while table[at] != 0 {
            at = (at + 1) % 16;
        }
        table[at] = key;
    }
    table[16..].copy_from_slice(&[5, 21, 37, 15, 31, 6, 53, 1]);
    check!(probes, [table], |input: &[i32], out: &mut [i32]| {
        for i in 0..8 {
            let key = input[16 + i];
            let mut at = key as usize % 16;
            out[i] = loop {
                if input[at] == key {
                    break at as i32;
                }
                if input[at] == 0 {
                    break -1;
                }
                at = (at + 1) % 16;
            };
        }
    });
}

/// Loops in loops, left across one another; a `match` decides; a tile and a host value go through.
#[kernel(warps = 1)]
fn nested(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let lane = arange(0..32, Coalesced);
    let mut tile = lane * 1;
    let mut i = scalar(0);
    let mut rounds = scalar(0);
    'rows: loop {
        match input.at(i % 4).load() {
            0 => break,
            7 => {
                i += 1;
                continue;
            }
            _ => {}
        }
        let mut j = scalar(0);
        let inner = loop {
            rounds += 1;
            tile += j;
            if rounds > 40 {
                break 'rows;
            }
            if j * j > n {
                break j;
            }
            if (tile.max(0).scalar() + j) % 17 == 3 {
                i += 2;
                continue 'rows;
            }
            j += 1;
        };
        tile += inner * 10;
        i += 1;
        if i > 9 {
            return;
        }
    }
    out.at(lane).store(tile);
    out.at(32).store(i);
    out.at(33).store(rounds);
}

#[test]
fn loops_in_loops() {
    let inputs = [
        [0, 1, 2, 3],
        [5, 7, 0, 1],
        [30, 2, 7, 1],
        [100, 1, 1, 1],
        [7, 7, 7, 0],
        [2, 2, 2, 2],
    ];
    check!(nested, inputs, |input: &[i32], out: &mut [i32]| {
        let n = input[0];
        let mut tile: Vec<i32> = (0..32).collect();
        let (mut i, mut rounds) = (0, 0);
        'rows: loop {
            match input[i % 4] {
                0 => break,
                7 => {
                    i += 1;
                    continue;
                }
                _ => {}
            }
            let mut j = 0;
            let inner = loop {
                rounds += 1;
                for v in &mut tile {
                    *v += j;
                }
                if rounds > 40 {
                    break 'rows;
                }
                if j * j > n {
                    break j;
                }
                if (tile[31] + j) % 17 == 3 {
                    i += 2;
                    continue 'rows;
                }
                j += 1;
            };
            for v in &mut tile {
                *v += inner * 10;
            }
            i += 1;
            if i > 9 {
                return;
            }
        }
        out[..32].copy_from_slice(&tile);
        out[32] = i as i32;
        out[33] = rounds;
    });
}

/// Loops of the host, by the type of what leaves them, and one of the kernel with a loop of the host in it.
#[kernel(warps = 1)]
fn by_type(input: Ptr<i32>, out: Ptr<i32>) {
    let mut sum = input.at(0).load();
    let mut k = 0;
    let unrolled = loop {
        if k == 3 {
            break k * 2;
        }
        sum += k;
        k += 1;
    };
    let mut rounds = scalar(0);
    loop {
        let mut list = Vec::new();
        for l in 0..unrolled {
            if l == 4 {
                break;
            }
            list.push(sum + l);
        }
        sum = list[3];
        rounds += 1;
        if sum > 50 {
            break;
        }
    }
    out.at(0).store(sum);
    out.at(1).store(rounds);
}

#[test]
fn the_first_exit_decides_whose_loop_it_is() {
    check!(
        by_type,
        [[0], [60], [-9]],
        |input: &[i32], out: &mut [i32]| {
            let mut sum = input[0] + 3;
            let mut rounds = 0;
            loop {
                sum += 3;
                rounds += 1;
                if sum > 50 {
                    break;
                }
            }
            out[0] = sum;
            out[1] = rounds;
        }
    );
}

/// In a partition and a closure, with what is moved along: a pipeline's state.
#[kernel(warps = 4)]
fn streamed(input: Ptr<i32>, out: Ptr<i32>) {
    let one = Blocked::new([1], [32], [1], [0]);
    let pipeline = Pipeline::new(
        Smem::<i32>::alloc([2, 1], Swizzled::plain([1, 0])),
        Producers::Stores { warps: 1 },
        Consumers::warps(4),
    );
    let all = Blocked::new([1], [32], [4], [0]);
    let take = || {
        let mut at = pipeline.start();
        let mut total = scalar(0);
        loop {
            let stage = pipeline.consumer_wait(at);
            let v = stage.tiles.load(all.clone()).sum(0).scalar();
            at = pipeline.consumer_release(stage).advance();
            if v < 0 {
                break;
            }
            total += v;
        }
        out.at(0).store(total);
    };
    let give = || {
        let mut at = pipeline.start();
        let mut i = scalar(0);
        loop {
            let v = input.at(i).load();
            let stage = pipeline.producer_acquire(at);
            stage.tiles.store(full([1], v, one.clone()));
            at = pipeline.commit(stage).advance();
            if v < 0 {
                return;
            }
            i += 1;
        }
    };
    warp_specialize().main(take).worker(Warps(1), give).run();
}

#[test]
fn partitions_run_until_the_last_element() {
    check!(
        streamed,
        [[5, 6, 7, -1], [-1, 0, 0, 0], [1, -2, 8, 8]],
        |input: &[i32], out: &mut [i32]| out[0] =
            input.iter().take_while(|v| **v >= 0).sum::<i32>()
    );
}
